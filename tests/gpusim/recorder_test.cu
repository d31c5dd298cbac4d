/// @file
/// Recordings of blocks: the events of small kernels of each kind, as the file has them.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <gpusim_cluster.h>
#include <gpusim_hopper.h>
#include <gpusim_members.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "gpusim/runtime/recorder.hpp"
#include "hopper.hpp"
#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ __align__(128) float pieces[];

namespace {

using gpusim::record::Event;
using gpusim::record::Kind;
using gpusim::record::kNone;
using gpusim::record::Recorder;
using gpusim::record::Settings;
namespace ptx = gpusim::ptx;

using Lines = std::vector<std::string>;

/// The file, taken apart.
struct Recording {
  nlohmann::json header;
  std::vector<Event> events;

  explicit Recording(const std::string& file) {
    std::uint32_t length = 0;
    if (file.substr(0, 8) != "GPUSIMR1") throw std::runtime_error("no recording");
    std::memcpy(&length, &file[8], sizeof length);
    header = nlohmann::json::parse(file.substr(12, length));
    events.resize(header["event_count"]);
    if (length % 4 != 0 || file.size() != 12 + length + events.size() * sizeof(Event))
      throw std::runtime_error("the sizes of the recording do not fit");
    std::memcpy(events.data(), &file[12 + length], events.size() * sizeof(Event));
  }

  std::string name(const char* table, std::uint32_t number) const {
    return number == kNone ? "-" : header[table].at(number)["name"].get<std::string>();
  }

  /// "read x+128 4s": an event without its warp, time and line.
  std::string text(const Event& e) const {
    const auto number = [](std::uint32_t n) { return n == kNone ? std::string("-") : std::to_string(n); };
    const std::string link = e.link == kNone ? "" : " <" + number(e.link);
    switch (e.kind) {
      case Kind::kAccess: {
        constexpr const char* kNames[] = {"read",     "write",    "atomic",
                                          "cp.async", "ldmatrix", "ldmatrix.trans"};
        const auto& p = header["patterns"].at(e.pattern);
        const bool is_global = e.array != kNone && header["arrays"].at(e.array)["space"] == "global";
        const std::string cost =
            is_global ? number(p["sectors"]) + "s" : number(p["wavefronts"]) + "/" + number(p["ideal"]) + "w";
        return std::string(kNames[e.flags]) + " " + name("arrays", e.array) + "+" + number(e.offset) + " " +
               cost + link + (e.part == 0 ? "" : "." + number(e.part));
      }
      case Kind::kOp: {
        constexpr const char* kNames[] = {"syncwarp",    "shuffle",   "vote",  "mma",
                                          "elect",       "fence",     "init",  "registers",
                                          "wgmma_fence", "local use", "failed"};
        return std::string(kNames[e.flags]) +
               (e.array == kNone || e.flags == 3 ? "" : " " + name("barriers", e.array)) +
               (e.offset == kNone ? "" : " " + number(e.offset));
      }
      case Kind::kWait: return "wait " + name("barriers", e.array) + " " + number(e.offset);
      case Kind::kGoOn: return "go on " + name("barriers", e.array) + " " + number(e.offset);
      case Kind::kArrive:
        return "arrive " + name("barriers", e.array) + " " + number(e.offset) +
               (e.pattern == kNone ? "" : " bytes " + number(e.pattern));
      case Kind::kCommit: return "commit " + name("barriers", e.array) + " " + number(e.offset);
      case Kind::kCopyBegins: return "copy " + number(e.array);
      case Kind::kCopyLands:
        return std::string(e.flags != 0 ? "has read " : "landed ") + number(e.array) + link;
      case Kind::kProductBegins: return "product " + number(e.array) + " in group " + number(e.offset);
      case Kind::kProductFinished: return "finished" + link;
      case Kind::kGroupLanded: return "group " + number(e.offset) + link;
      case Kind::kDefect: return "defect " + number(e.array) + link;
      case Kind::kEnd: return "end";
    }
    return "?";
  }

  /// The events of a warp of a section, with their times: "3: read x+0 4s".
  Lines warp(int number, std::size_t section = 0) const {
    Lines lines;
    const auto& s = header["sections"].at(section);
    for (std::size_t i = s["begin"]; i < s["end"]; ++i) {
      if (events[i].warp == number) lines.push_back(std::to_string(events[i].time) + ": " + text(events[i]));
    }
    return lines;
  }

  int line_of_site(std::uint32_t site) const {
    const std::string line = header["sites"].at(site)["lines"].at(0);
    return std::stoi(line.substr(line.rfind(':') + 1));
  }
  int line(const Event& e) const { return line_of_site(e.site); }
};

/// Records what `work` launches.
Recording record(const std::function<void()>& work, Settings settings = {}) {
  settings.path = "not written";
  Recorder recorder(settings);
  Recorder::set_instance(&recorder);
  work();
  Recorder::set_instance(nullptr);
  return Recording(recorder.contents());
}

/// What holds for every recording.
void expect_consistent(const Recording& r) {
  std::map<std::pair<std::size_t, int>, std::uint32_t> now;
  for (std::size_t s = 0; s < r.header["sections"].size(); ++s) {
    for (std::size_t i = r.header["sections"][s]["begin"]; i < r.header["sections"][s]["end"]; ++i) {
      const Event& e = r.events[i];
      EXPECT_TRUE(e.link == kNone || e.link < i) << "event " << i;
      if (e.kind == Kind::kCopyLands || e.kind == Kind::kDefect) continue;
      EXPECT_GE(e.time, (now[{s, e.warp}])) << "event " << i;
      now[{s, e.warp}] = e.time;
    }
  }
}

std::vector<float> counted(int n) {
  std::vector<float> values(std::size_t(n), 0.0f);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

// ---- loads, stores, operations of a warp ------------------------------------------------------------------

__global__ void transpose(const float* x, float* y) {
  __shared__ float tile[32 * 32];
  const int i = int(threadIdx.x);
  tile[32 * i] = x[i];  // conflicts
  __syncwarp();
  const float sum = tile[32 * i] + __shfl_sync(~0u, 1.0f, 0);  // shuffle
  if (i < 8) y[8 * i] = sum;                                   // some lanes
}

TEST(Recorder, HasAnEventForEachWarpInstruction) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", counted(32)), y("y", 64);
  const Recording r = record([&] { run({1, 32}, transpose, x.get(), y.get()); });
  EXPECT_EQ(r.warp(0), (Lines{"0: read x+0 4s", "1: write tile+0 32/1w <0", "2: syncwarp",
                              "3: read tile+0 32/1w", "4: shuffle", "5: write y+0 8s", "6: end"}));
  expect_consistent(r);
  EXPECT_EQ(r.line(r.events[1]), line_of("conflicts"));
  EXPECT_EQ(r.line(r.events[5]), line_of("some lanes"));
  EXPECT_EQ(r.header["sites"][r.events[4].site]["built_in"], "__shfl_sync");
  EXPECT_EQ(r.events[0].lanes, ~0u);
  EXPECT_EQ(r.events[5].lanes, 0xffu);
  const auto& pattern = r.header["patterns"][r.events[5].pattern];
  EXPECT_EQ(pattern["offsets"][7], 7 * 32);
  EXPECT_EQ(pattern["offsets"][8], 0);
  EXPECT_EQ(pattern["bytes"], 32);
  const auto& section = r.header["sections"][0];
  EXPECT_EQ(section["kernel"], "transpose");
  EXPECT_EQ(section["block_dim"], nlohmann::json({32, 1, 1}));
  EXPECT_EQ(section["complete"], true);
  EXPECT_EQ(section["left_out"], 0);
}

TEST(Recorder, CostsAreThoseOfTheReport) {
  const Buffer<float> x("x", counted(32)), y("y", 64);
  gpusim::Report report;
  const Recording r = record([&] { report = run({1, 32}, transpose, x.get(), y.get()); });
  std::map<std::string, std::int64_t> sectors;
  std::int64_t loads = 0, stores = 0;
  for (const Event& e : r.events) {
    if (e.kind != Kind::kAccess) continue;
    const auto& p = r.header["patterns"][e.pattern];
    sectors[r.name("arrays", e.array)] += p["sectors"].get<std::int64_t>();
    (e.flags == 0 ? loads : stores) += p["wavefronts"].get<std::int64_t>();
  }
  EXPECT_EQ(sectors["x"], report.tensors["x"].read_sectors);
  EXPECT_EQ(sectors["y"], report.tensors["y"].write_sectors);
  EXPECT_EQ(loads, report.shared.load_wavefronts);
  EXPECT_EQ(stores, report.shared.store_wavefronts);
}

__global__ void in_parts(const float4* x, float* y, int n) {
  const int i = int(threadIdx.x);
  const float4 v = i < n ? x[i] : float4{0.0f, 0.0f, 0.0f, 0.0f};
  y[i] = v.y;
  y[i] = v.x + v.y;
}

TEST(Recorder, AStoreOfWhatALoadHasBroughtIsLinked) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", counted(128)), y("y", 32);
  const Recording r = record([&] {
    run({1, 32}, in_parts, reinterpret_cast<const float4*>(x.get()), y.get(), 20);
  });
  ASSERT_EQ(r.events.size(), 4u);
  EXPECT_EQ(r.events[0].lanes, (1u << 20) - 1);
  // Memory is looked at when the warp has made both stores: the first one is gone.
  EXPECT_EQ(r.events[1].link, kNone);
  EXPECT_EQ(r.events[2].link, kNone);
}

__global__ void in_one_part(const float4* x, float* y, int n) {
  const int i = int(threadIdx.x);
  const float4 v = i < n ? x[i] : float4{0.0f, 0.0f, 0.0f, 0.0f};
  y[i] = v.y;
}

TEST(Recorder, ALinkTellsWhichPartAndSkipsLanesThatStoreZero) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", counted(128)), y("y", 32);
  const Recording r = record([&] {
    run({1, 32}, in_one_part, reinterpret_cast<const float4*>(x.get()), y.get(), 20);
  });
  EXPECT_EQ(r.warp(0), (Lines{"0: read x+0 10s", "1: write y+0 4s <0.4", "2: end"}));
}

__global__ void add_up(const float* x, float* y, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += x[i % 32];
  y[threadIdx.x] = sum;
}

TEST(Recorder, WarpsEndAfterLongTurnsToo) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  constexpr int kReads = (1 << 16) - 1;  // and a write: two warps fill exactly two turns
  const Buffer<float> x("x", counted(32)), y("y", 64);
  const Recording r = record([&] { run({1, 64}, add_up, x.get(), y.get(), kReads); });
  ASSERT_EQ(r.events.size(), 2u * (kReads + 2));
  EXPECT_EQ(r.warp(0).back(), "65536: end");
  EXPECT_EQ(r.warp(1).back(), "65536: end");
}

// ---- time -------------------------------------------------------------------------------------------------

__global__ void unequal(const float* x, float* y) {
  const int warp = int(threadIdx.x) / 32;
  float sum = 0.0f;
  for (int i = 0; i < 1 + 3 * warp; ++i) sum += x[i];
  __syncthreads();  // unequal
  y[threadIdx.x] = sum;
}

TEST(Recorder, WaitsEndWhenTheLastWarpHasCome) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", counted(8)), y("y", 64);
  const Recording r = record([&] { run({1, 64}, unequal, x.get(), y.get()); });
  EXPECT_EQ(r.warp(0), (Lines{"0: read x+0 1s", "1: wait __syncthreads 0", "5: go on __syncthreads 0",
                              "5: write y+0 4s <0", "6: end"}));
  EXPECT_EQ(r.warp(1),
            (Lines{"0: read x+0 1s", "1: read x+4 1s", "2: read x+8 1s", "3: read x+12 1s",
                   "4: wait __syncthreads 0", "5: go on __syncthreads 0", "5: write y+128 4s", "6: end"}));
  expect_consistent(r);
}

// ---- cp.async ---------------------------------------------------------------------------------------------

__global__ void two_groups(const float* x, float* y) {
  __shared__ __align__(16) float tile[256];
  const int i = int(threadIdx.x);
  for (int group = 0; group < 2; ++group) {
    __pipeline_memcpy_async(&tile[128 * group + 4 * i], &x[128 * group + 4 * i], 16);
    __pipeline_commit();
  }
  __pipeline_wait_prior(1);
  y[i] = tile[4 * i];
  __pipeline_wait_prior(0);
  y[32 + i] = tile[128 + 4 * i];
}

TEST(Recorder, GroupsOfAsynchronousCopies) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", counted(256)), y("y", 64);
  const Recording r = record([&] { run({1, 32}, two_groups, x.get(), y.get()); });
  EXPECT_EQ(r.warp(0),
            (Lines{"0: read x+0 16s", "0: cp.async tile+0 4/4w <0", "1: commit cp.async 0",
                   "2: read x+512 16s", "2: cp.async tile+512 4/4w <3", "3: commit cp.async 1",
                   "4: wait cp.async 0", "5: group 0 <2", "5: go on cp.async 0", "5: read tile+0 4/1w",
                   "6: write y+0 4s <9", "7: wait cp.async 1", "8: group 1 <5", "8: go on cp.async 1",
                   "8: read tile+512 4/1w", "9: write y+128 4s <14", "10: end"}));
  expect_consistent(r);
}

// ---- the copy engine and mbarriers ------------------------------------------------------------------------

struct Stage {
  float tile[128];
  std::uint64_t full, empty;
};

__global__ void load_and_store(const __grid_constant__ CUtensorMap in, float* out) {
  __shared__ __align__(128) Stage s;
  gpusim::declare_members(s);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.full, 1);
    ptx::mbarrier_init(&s.empty, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&s.full, 512);
    ptx::tma_load(s.tile, &in, &s.full, 0, 8, 0);
  }
  __syncthreads();
  if (threadIdx.x >= 32) {
    ptx::mbarrier_wait(&s.full, 0);
    s.tile[threadIdx.x] += 1.0f;
    ptx::fence_proxy_async();
    __syncwarp();
    if (threadIdx.x == 32) {
      ptx::bulk_store(out, s.tile, 512);
      ptx::bulk_commit();
      ptx::bulk_wait_read<0>();
      ptx::mbarrier_arrive(&s.empty);
      ptx::bulk_wait<0>();
    }
  } else if (threadIdx.x == 0) {
    ptx::mbarrier_wait(&s.empty, 0);
  }
}

TEST(Recorder, CopiesAndTheirBarriers) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", counted(512)), y("y", 128);
  const CUtensorMap map = map_of(x.get(), {{16, 32, 1}, {16, 8, 1}});
  const Recording r = record([&] { run({1, 64}, load_and_store, map, y.get()); });
  EXPECT_EQ(r.warp(0),
            (Lines{"0: init s.full 1", "1: init s.empty 1", "2: fence 1", "3: arrive s.full 0 bytes 512",
                   "4: copy 0", "5: wait __syncthreads 0", "6: go on __syncthreads 0", "6: wait s.empty 0",
                   "5: landed 0 <4", "15: go on s.empty 0", "15: end"}));
  EXPECT_EQ(r.warp(1),
            (Lines{"0: wait __syncthreads 0", "6: go on __syncthreads 0", "6: wait s.full 0",
                   "7: go on s.full 0", "7: read s.tile+128 1/1w", "8: write s.tile+128 1/1w", "9: fence 0",
                   "10: syncwarp", "11: copy 1", "12: commit cp.async.bulk 0", "13: wait cp.async.bulk 0",
                   "14: has read 1 <17", "14: go on cp.async.bulk 0", "14: arrive s.empty 0",
                   "15: wait cp.async.bulk 0", "16: landed 1 <17", "16: go on cp.async.bulk 0", "16: end"}));
  expect_consistent(r);
  const auto& load = r.header["copies"][0];
  EXPECT_EQ(load["kind"], "load");
  EXPECT_EQ(r.name("arrays", load["tensor"]), "x");
  EXPECT_EQ(load["coordinates"], nlohmann::json({0, 8, 0}));
  EXPECT_EQ(load["box"], nlohmann::json({16, 8, 1}));
  EXPECT_EQ(load["runs"], nlohmann::json::parse("[[512,64,8,64,0,64]]"));
  EXPECT_EQ(r.name("arrays", load["shared"]), "s.tile");
  EXPECT_EQ(r.name("barriers", load["barrier"]), "s.full");
  const auto& store = r.header["copies"][1];
  EXPECT_EQ(store["kind"], "store");
  EXPECT_EQ(store["runs"], nlohmann::json::parse("[[0,512,1,0,0,0]]"));
  EXPECT_FALSE(store.contains("box"));
}

__global__ void named(float* y) {
  if (threadIdx.x < 32) {
    y[threadIdx.x] = 1.0f;
    ptx::barrier_arrive(3, 64);
  } else {
    ptx::barrier_sync(3, 64);
  }
}

TEST(Recorder, NamedBarriers) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 32);
  const Recording r = record([&] { run({1, 64}, named, y.get()); });
  EXPECT_EQ(r.warp(0), (Lines{"0: write y+0 4s", "1: arrive 3 0", "2: end"}));
  EXPECT_EQ(r.warp(1), (Lines{"0: wait 3 0", "2: go on 3 0", "2: end"}));
}

// ---- products ---------------------------------------------------------------------------------------------

__global__ void multiply(float* out) {
  __shared__ __align__(1024) __half a[64 * 16], b[16 * 16];
  for (int i = int(threadIdx.x); i < 64 * 16; i += 128) a[i] = __half(1.0f);
  for (int i = int(threadIdx.x); i < 16 * 16; i += 128) b[i] = __half(1.0f);
  ptx::fence_proxy_async();
  __syncthreads();
  const auto descriptor = [](const void* matrix) {  // blocks of 8 x 8, one after the other
    return std::uint64_t(ptx::shared_address(matrix) >> 4) | std::uint64_t(128 >> 4) << 16 |
           std::uint64_t(256 >> 4) << 32;
  };
  float d[8];
  ptx::wgmma_fence();
  ptx::wgmma<__half, false, false, false>(d, descriptor(a), descriptor(b));
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  out[threadIdx.x] = d[0];
}

TEST(Recorder, Products) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 128);
  const Recording r = record([&] { run({1, 128}, multiply, y.get()); });
  for (int warp = 0; warp < 4; ++warp) {
    Lines lines = r.warp(warp);
    ASSERT_EQ(lines.size(), 21u);
    const std::size_t begin = lines.size() - 10;
    const std::string product = std::to_string([&] {  // its number among the events
      for (std::size_t i = 0; i < r.events.size(); ++i)
        if (r.events[i].warp == warp && r.events[i].kind == Kind::kProductBegins) return i;
      return std::size_t(0);
    }());
    lines.erase(lines.begin(), lines.begin() + std::ptrdiff_t(begin));
    EXPECT_EQ(lines, (Lines{"11: wait __syncthreads 0", "12: go on __syncthreads 0", "12: wgmma_fence",
                            "13: product 0 in group 0", "14: commit wgmma 0", "15: wait wgmma 0",
                            "16: finished <" + product, "16: go on wgmma 0",
                            "16: write y+" + std::to_string(128 * warp) + " 4s", "17: end"}));
  }
  const auto& product = r.header["products"][0];
  EXPECT_EQ(product["m"], 64);
  EXPECT_EQ(product["n"], 16);
  EXPECT_EQ(product["type"], "f16");
  EXPECT_EQ(r.name("arrays", product["a"]["array"]), "a");
  EXPECT_EQ(product["b"]["stride"], 256);
  EXPECT_EQ(product["b"]["major"], "k");
  expect_consistent(r);
}

// ---- clusters ---------------------------------------------------------------------------------------------

__global__ void halves(float* y) {
  __shared__ float mine[32];
  mine[threadIdx.x] = float(ptx::cluster_ctarank());
  if (ptx::cluster_ctarank() == 1) y[64 + threadIdx.x] = 0.0f;
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  y[32 * ptx::cluster_ctarank() + threadIdx.x] =
      ptx::mapa(mine, 1 - int(ptx::cluster_ctarank()))[threadIdx.x];
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

TEST(Recorder, BlocksOfAClusterWaitForEachOther) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 96);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = 2;
  config.blockDim = 32;
  config.attrs = &attribute;
  config.numAttrs = 1;
  Settings settings;
  settings.blocks = {{0, 0, 0}, {1, 0, 0}};
  const Recording r = record([&] { cudaLaunchKernelEx(&config, halves, y.get()); }, settings);
  EXPECT_EQ(r.warp(0, 0),
            (Lines{"0: write mine+0 1/1w", "1: arrive cluster 0", "2: wait cluster 0", "3: go on cluster 0",
                   "3: read mine+0 0/0w", "4: write y+0 4s", "5: arrive cluster 1", "6: wait cluster 1",
                   "7: go on cluster 1", "7: end"}));
  EXPECT_EQ(r.warp(0, 1).size(), 11u);
  EXPECT_EQ(r.warp(0, 1)[4], "4: go on cluster 0");
  EXPECT_EQ(r.header["sections"][1]["cluster_rank"], 1);
}

// ---- defects ----------------------------------------------------------------------------------------------

__global__ void race(float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1.0f;                 // race: write
  y[threadIdx.x] = tile[63 - threadIdx.x];  // race: read
}

TEST(Recorder, ARaceHasBothAccesses) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 64);
  const Recording r = record([&] { run({1, 64}, race, y.get()); });
  const auto& defects = r.header["defects"];
  ASSERT_GE(defects.size(), 1u);
  // Warp 0 reads what warp 1 has not written yet; the write of warp 1 completes the race.
  const auto of_kind = [&](const std::string& kind) {
    for (const auto& defect : defects)
      if (defect["kind"] == kind) return defect;
    throw std::runtime_error("no defect " + kind);
  };
  const auto defect = of_kind("race");
  const Event& event = r.events.at(defect["event"]);
  const Event& rival = r.events.at(defect["rival_event"]);
  EXPECT_EQ(r.line(event), line_of("race: write"));
  EXPECT_EQ(r.line(rival), line_of("race: read"));
  EXPECT_EQ(event.warp, 1);
  EXPECT_EQ(rival.warp, 0);
  EXPECT_NE(defect["message"].get<std::string>().find("no __syncthreads() between the two"),
            std::string::npos);
  const auto unwritten = of_kind("uninitialized_read");
  EXPECT_EQ(r.line(r.events.at(unwritten["event"])), line_of("race: read"));
  std::size_t told = 0;
  for (const Event& e : r.events) told += e.kind == Kind::kDefect;
  EXPECT_GE(told, defects.size());
}

__global__ void half_written(float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1.0f;
  float sum = 0.0f;
  for (int i = 0; i < 2; ++i) sum += tile[32 * i + threadIdx.x];
  y[threadIdx.x] = sum;
}

TEST(Recorder, AnUninitializedReadIsTheOneOfThisAddress) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 32);
  const Recording r = record([&] { run({1, 32}, half_written, y.get()); });
  ASSERT_EQ(r.header["defects"].size(), 1u);
  EXPECT_EQ(r.text(r.events.at(r.header["defects"][0]["event"])), "read tile+128 1/1w");
}

__global__ void reads_accumulators_early(float* y) {
  auto* const memory = reinterpret_cast<unsigned char*>(pieces);
  for (int i = threadIdx.x; i < 1024; i += 128) reinterpret_cast<std::uint32_t*>(memory)[i] = 0x3c003c00u;
  ptx::fence_proxy_async();
  __syncthreads();
  const auto descriptor = [&](int start) {
    return (ptx::shared_address(memory) + std::uint32_t(start)) >> 4 | std::uint64_t(8) << 16 |
           std::uint64_t(16) << 32;
  };
  float d[8] = {};
  ptx::wgmma_fence();
  ptx::wgmma<__half, false, false, false>(d, descriptor(0), descriptor(2048));
  ptx::wgmma_commit();
  y[threadIdx.x] = 1.0f;     // registers: before
  const float early = d[5];  // registers: early
  y[threadIdx.x] = early;    // registers: after
  ptx::wgmma_wait<0>(d);
  y[threadIdx.x] = d[5];
}

/// The times of the first warp's events on a line.
std::vector<std::uint32_t> times(const Recording& r, int line) {
  std::vector<std::uint32_t> result;
  for (const Event& e : r.events) {
    if (e.warp == 0 && e.kind != Kind::kDefect && e.site != kNone && r.line(e) == line)
      result.push_back(e.time);
  }
  return result;
}

TEST(Recorder, AUseOfRegistersThatIsADefectHasAStep) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 128);
  const Recording r = record([&] { run({1, 128, 4096}, reads_accumulators_early, y.get()); });
  ASSERT_EQ(r.header["defects"].size(), 1u);
  const auto& defect = r.header["defects"][0];
  EXPECT_NE(defect["message"].get<std::string>().find("Accumulator d[5] read at"), std::string::npos);
  ASSERT_FALSE(defect["event"].is_null());
  const Event& event = r.events.at(defect["event"]);
  EXPECT_EQ(r.text(event), "local use");
  EXPECT_EQ(r.line(event), line_of("registers: early"));
  EXPECT_EQ(event.lanes, 1u);
  const auto before = times(r, line_of("registers: before")), after = times(r, line_of("registers: after"));
  ASSERT_EQ(before.size(), 1u);
  ASSERT_EQ(after.size(), 1u);
  EXPECT_EQ(event.time, before[0] + 1);
  EXPECT_EQ(after[0], event.time + 1);
}

__global__ void wrong_index(float* y, int n) {
  float r[4] = {1, 2, 3, 4};
  for (int i = 0; i <= n; ++i) {
    y[i] = 0.0f;
    y[i] += r[i];  // wrong index
  }
}

TEST(Recorder, AWrongIndexHasAStep) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 8);
  const Recording r = record([&] { run({1, 1}, wrong_index, y.get(), 4); });
  ASSERT_EQ(r.header["defects"].size(), 1u);
  ASSERT_FALSE(r.header["defects"][0]["event"].is_null());
  const Event& event = r.events.at(r.header["defects"][0]["event"]);
  EXPECT_EQ(r.text(event), "local use");
  EXPECT_EQ(r.line(event), line_of("wrong index"));
  std::uint32_t last = 0;
  for (const Event& e : r.events) last = std::max(last, e.kind == Kind::kAccess ? e.time : 0);
  EXPECT_EQ(event.time, last + 1);
}

struct Tiles {
  float *q, *k;
  __device__ __forceinline__ explicit Tiles(float* memory) : q(memory), k(memory + 64) {}
};

__global__ void tiles_of_an_object() {
  const Tiles s(pieces);
  s.q[threadIdx.x] = 1.0f;
  s.k[threadIdx.x] = 2.0f;
}

TEST(Recorder, ArraysOfAnObject) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Recording r = record([&] { run({1, 32, 512}, tiles_of_an_object); });
  EXPECT_EQ(r.warp(0), (Lines{"0: write s.q+0 1/1w", "1: write s.k+0 1/1w", "2: end"}));
}

__global__ void too_far(float* y) {
  y[threadIdx.x + 4] = 2.0f;  // too far
}

TEST(Recorder, AnAccessOutOfBoundsIsThereAndTheBlockIsAbandoned) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 32);
  const Recording r = record([&] { run({1, 32}, too_far, y.get()); });
  EXPECT_EQ(r.header["sections"][0]["abandoned"], true);
  EXPECT_EQ(r.header["sections"][0]["complete"], false);
  ASSERT_EQ(r.header["defects"].size(), 1u);
  const Event& event = r.events.at(r.header["defects"][0]["event"]);
  EXPECT_EQ(r.line(event), line_of("too far"));
  EXPECT_EQ(r.name("arrays", event.array), "y");
  EXPECT_EQ(event.offset, 128u);
  EXPECT_EQ(event.lanes, 1u << 28);
}

__global__ void waits_for_ever() {
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= 32) ptx::mbarrier_wait(&full, 0);
}

TEST(Recorder, ADeadlockShowsWhoWaitsForWhat) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Recording r = record([&] { run({1, 64}, waits_for_ever); });
  EXPECT_EQ(r.warp(1), (Lines{"0: wait __syncthreads 0", "3: go on __syncthreads 0", "3: wait full 0",
                              "3: defect 0 <7"}));
  EXPECT_EQ(r.text(r.events[7]), "wait full 0");
  EXPECT_EQ(r.header["sections"][0]["abandoned"], true);
  const std::string message = r.header["defects"][0]["message"];
  EXPECT_NE(message.find("1 of 1 arrival is missing"), std::string::npos) << message;
}

__global__ void same_place(float* y) { y[0] = float(blockIdx.x); }

TEST(Recorder, ARaceBetweenTwoBlocks) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 1);
  Settings settings;
  settings.blocks = {{0, 0, 0}, {1, 0, 0}};
  const Recording r = record([&] { run({2, 1}, same_place, y.get()); }, settings);
  ASSERT_EQ(r.header["defects"].size(), 1u);
  const std::size_t event = r.header["defects"][0]["event"], rival = r.header["defects"][0]["rival_event"];
  EXPECT_EQ(r.text(r.events.at(event)), "write y+0 1s");
  EXPECT_EQ(r.text(r.events.at(rival)), "write y+0 1s");
  const std::size_t middle = r.header["sections"][1]["begin"];
  EXPECT_NE(event < middle, rival < middle);
}

// ---- what is recorded -------------------------------------------------------------------------------------

__global__ void count(float* y, int n) {
  for (int i = 0; i < n; ++i) y[n * blockIdx.x + i] = 1.0f;
}

TEST(Recorder, ChosenBlocksOfChosenLaunches) {
  const Buffer<float> y("y", 64);
  const auto work = [&] {
    run({4, 1}, count, y.get(), 2);
    run({2, 1}, count, y.get(), 3);
  };
  Settings settings;
  settings.blocks = {{3, 0, 0}, {1, 0, 0}};
  const auto sections = [&] {
    std::vector<std::pair<int, int>> result;
    const Recording r = record(work, settings);
    for (const auto& s : r.header["sections"]) result.emplace_back(s["launch"], s["block"][0]);
    return result;
  };
  using Sections = std::vector<std::pair<int, int>>;
  EXPECT_EQ(sections(), (Sections{{0, 1}, {0, 3}, {1, 1}}));
  settings.launch = 1;
  EXPECT_EQ(sections(), (Sections{{1, 1}}));
}

TEST(Recorder, TooManyEventsAreLeftOutAtTheEnd) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 64);
  Settings settings;
  settings.blocks = {{0, 0, 0}, {1, 0, 0}};
  settings.most_events = 10;
  const Recording r = record(
      [&] {
        run({1, 1}, count, y.get(), 2);  // 3 events
        run({2, 1}, count, y.get(), 20);
      },
      settings);
  const auto& s = r.header["sections"];
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(r.events.size(), 10u);
  EXPECT_EQ(s[0]["left_out"], 0);
  EXPECT_EQ(s[0]["complete"], true);
  EXPECT_EQ(s[1]["left_out"].get<int>() + s[2]["left_out"].get<int>(), 2 * 21 - 7);
  EXPECT_EQ(s[1]["complete"], false);
  EXPECT_EQ(r.warp(0, 1)[0], "0: write y+0 1s");
  EXPECT_EQ(r.warp(0, 2)[0], "0: write y+80 1s");
}

TEST(Recorder, DefectsAreNeverLeftOut) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> y("y", 64);
  Settings settings;
  settings.most_events = 1;
  const Recording r = record([&] { run({1, 64}, race, y.get()); }, settings);
  std::size_t told = 0;
  for (const Event& e : r.events) told += e.kind == Kind::kDefect;
  EXPECT_EQ(r.events.size(), 1 + told);
  EXPECT_GE(told, 1u);
  EXPECT_TRUE(r.header["defects"][0]["event"].is_null());
}

TEST(Recorder, ShapesOfTensors) {
  void* memory = nullptr;
  cudaMalloc(&memory, 256);
  auto* const y = static_cast<float*>(memory) + 16;  // 64 bytes of guard on both sides
  gpusim::name_allocation(y, "y", {4, 8}, "f32");
  const Recording r = record([&] { run({1, 1}, count, y, 2); });
  const auto& array = r.header["arrays"][0];
  EXPECT_EQ(array["shape"], nlohmann::json({4, 8}));
  EXPECT_EQ(array["type"], "f32");
  EXPECT_EQ(array["bytes"], 128);
  EXPECT_EQ(r.events[0].offset, 0u);
  EXPECT_EQ(r.events[1].offset, 4u);
  cudaFree(memory);
}

struct Swizzle {
  __device__ static constexpr int offset(int row, int col) { return row * 8 + (col ^ row % 4); }
};

template <int kStride, class... Arrays>
__device__ __forceinline__ void declare_rows(const Arrays*...) {}
template <class Layout, class... Arrays>
__device__ __forceinline__ void declare_rows(const Arrays*...) {}

__global__ void tiles() {
  float* sQ = pieces;
  float* sK = sQ + 4 * 9;
  declare_rows<9>(sQ);
  declare_rows<Swizzle>(sK);
  sQ[threadIdx.x] = 1.0f;
  sK[Swizzle::offset(int(threadIdx.x) / 8, int(threadIdx.x) % 8)] = 1.0f;
}

TEST(Recorder, RowsOfSharedArrays) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Recording r = record([&] { run({1, 32, 512}, tiles); });
  const auto& arrays = r.header["arrays"];
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0]["name"], "sQ");
  EXPECT_EQ(arrays[0]["row_bytes"], 36);
  EXPECT_FALSE(arrays[0].contains("layout"));
  EXPECT_EQ(arrays[1]["name"], "sK");
  EXPECT_EQ(arrays[1]["begin"].get<int>() - arrays[0]["begin"].get<int>(), 144);
  EXPECT_EQ(arrays[1]["bytes"], 512 - 144);
  const auto& layout = arrays[1]["layout"];
  EXPECT_EQ(layout["period"], 4);
  EXPECT_EQ(layout["columns"], 8);
  for (int row = 0; row < 4; ++row) {
    for (int col = 0; col < 8; ++col)
      EXPECT_EQ(layout["places"][std::size_t(8 * row + col)], Swizzle::offset(row, col));
  }
}

// ---- the environment --------------------------------------------------------------------------------------

/// What the children below run.
TEST(RecorderChild, Run) {
  const Buffer<float> y("y", 64);
  gpusim::name_allocation(y.get(), "y", {2, 32}, "f32");
  EXPECT_TRUE(is_clean(run({4, 1}, count, y.get(), 2)));
}

/// Runs this program with these variables. @return what it says of them, and its exit status
std::pair<std::string, int> with_environment(const std::string& variables) {
  const std::string command = variables + " " + std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --gtest_filter=RecorderChild.* 2>&1 >/dev/null";
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string said;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += char(c);
  return {said, WEXITSTATUS(pclose(pipe))};
}

using Said = std::pair<std::string, int>;

TEST(RecorderSettings, TheFileIsWrittenAtExit) {
  const std::string path = testing::TempDir() + "gpusim_recording_" + std::to_string(getpid());
  EXPECT_EQ(with_environment("GPUSIM_RECORD=" + path + " GPUSIM_RECORD_BLOCKS='2;1,0,0'"), Said("", 0));
  std::ifstream file(path, std::ios::binary);
  const Recording r(std::string(std::istreambuf_iterator<char>(file), {}));
  EXPECT_EQ(r.header["sections"].size(), 2u);
  EXPECT_EQ(r.header["format"], 1);
  std::filesystem::remove(path);
}

TEST(RecorderSettings, WrongValuesEndTheProgramBeforeItRuns) {
  const std::string path = testing::TempDir() + "gpusim_no_recording_" + std::to_string(getpid());
  const std::string record = "GPUSIM_RECORD=" + path + " ";
  EXPECT_EQ(with_environment("GPUSIM_RECORD=/no/folder/x"),
            Said("gpusim: GPUSIM_RECORD=/no/folder/x: there is no folder /no/folder\n", 2));
  EXPECT_EQ(with_environment("GPUSIM_RECORD=/tmp"),
            Said("gpusim: GPUSIM_RECORD=/tmp: this is a folder\n", 2));
  EXPECT_EQ(with_environment(record + "GPUSIM_RECORD_BLOCKS=1,x"),
            Said("gpusim: GPUSIM_RECORD_BLOCKS=1,x: should be blocks like \"0,0,0;1,0,0\"\n", 2));
  EXPECT_EQ(with_environment(record + "GPUSIM_RECORD_EVENTS=0"),
            Said("gpusim: GPUSIM_RECORD_EVENTS=0: should be a number from 1 on\n", 2));
  EXPECT_EQ(
      with_environment(record + "GPUSIM_RECORD_LAUNCH=-1"),
      Said("gpusim: GPUSIM_RECORD_LAUNCH=-1: should be a number from 0 on: 0 is the first launch\n", 2));
  EXPECT_EQ(with_environment(record + "GPUSIM_DEBUG=1"),
            Said("gpusim: GPUSIM_RECORD=" + path + ": there is no recording with GPUSIM_DEBUG=1\n", 2));
  EXPECT_EQ(
      with_environment("GPUSIM_RECORD_WRITER='y[0'"),
      Said("gpusim: GPUSIM_RECORD_WRITER=y[0: should be an element like o[0,1,17,5], or a byte like o:4420\n",
           2));
  EXPECT_EQ(with_environment(record + "GPUSIM_RECORD_BLOCKS=9"),
            Said("gpusim: GPUSIM_RECORD_BLOCKS=9,0,0: no launch has such a block\n", 1));
  EXPECT_EQ(with_environment(record + "GPUSIM_RECORD_LAUNCH=1"),
            Said("gpusim: GPUSIM_RECORD_LAUNCH=1: there are 1 launches, from 0 on\n", 1));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(RecorderSettings, TheWriterOfAnElement) {
  const auto says = [](const std::string& element, const std::string& what) {
    const auto [said, status] = with_environment("GPUSIM_RECORD_WRITER='" + element + "'");
    EXPECT_EQ(said.substr(0, what.size()), what);
    EXPECT_EQ(status, 0);
  };
  says("Y[0,5]", "gpusim: Y[0,5] was last written by block 2,0,0 of launch 0, thread 0,0,0, at ");
  says("y:28", "gpusim: y:28 was last written by block 3,0,0 of launch 0, thread 0,0,0, at ");
  says("y[1,0]", "gpusim: GPUSIM_RECORD_WRITER=y[1,0]: no block has written it\n");
  says("y[2,0]", "gpusim: GPUSIM_RECORD_WRITER=y[2,0]: y has the shape [2, 32]\n");
  says("z[0]", "gpusim: GPUSIM_RECORD_WRITER=z[0]: there is no tensor of this name, but y\n");
}

}  // namespace
}  // namespace gpusim_test
