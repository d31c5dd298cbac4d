/// @file
/// mbarriers of other blocks of a cluster, and asynchronous copies to their shared memory: kernels that are
/// right, and the same kernels with one mistake each.
#include <cuda_runtime.h>
#include <gpusim_cluster.h>
#include <gpusim_hopper.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../../chapters/02_online_softmax/cluster.cuh"
#include "clusters.hpp"
#include "hopper.hpp"
#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

std::string at(const std::string& tag) { return "cluster_copies_test.cu:" + std::to_string(line_of(tag)); }

std::vector<float> numbers(int count) {
  std::vector<float> values(std::size_t(count), 0.0f);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

/// The words of a report if clang++ has compiled the kernels.
std::string as_said(std::string text) {
#ifdef __clang__
  const std::pair<std::string, std::string> others[] = {
      {"full[0]", "full"}, {"empty[0]", "empty"}, {"wait in mbarrier_wait_cluster()", "wait in a call"}};
  for (const auto& [own, other] : others) {
    for (std::size_t i = text.find(own); i != std::string::npos; i = text.find(own, i))
      text.replace(i, own.size(), other);
  }
#endif
  return text;
}

/// Whether a report is of this kind, of these lines and says this.
testing::AssertionResult tells(const gpusim::Report& report, DefectKind kind, const std::vector<int>& lines,
                               const std::string& words) {
  for (const gpusim::Defect& d : report.defects) {
    if (d.kind == kind && lines_of(d.message, __FILE__) == lines &&
        d.message.find(as_said(words)) != std::string::npos) {
      return testing::AssertionSuccess();
    }
  }
  return testing::AssertionFailure() << "no report of " << gpusim::name_of(kind) << ": " << words << "\n"
                                     << gpusim::format_defects(report);
}

// ---- values: st.async -------------------------------------------------------------------------------------

constexpr int kBlocks = 4;

/// The possible mistakes in the kernel below.
struct Send {
  static constexpr bool kInit = true;
  static constexpr bool kFence = true;
  static constexpr bool kRelaxed = false;  ///< the arrival of the first barrier of the cluster
  static constexpr bool kClusterBarrier = true;
  static constexpr bool kWait = true;
  static constexpr bool kWaitOfCluster = true;
  static constexpr int kBytes = kBlocks * 8;
  static constexpr int kBarrierOf = 0;  ///< this many ranks further than the value
  static constexpr int kOffset = 0;     ///< of the address, in bytes
};

/// out[block] = the sum of in over the cluster. Each block sends its value to all blocks.
template <class Plan>
__global__ void send_to_all(const float2* in, float2* out) {
  __shared__ __align__(16) float2 sValues[kBlocks + 1];
  __shared__ std::uint64_t full[1];
  const int rank = ptx::cluster_ctarank();
  if (threadIdx.x == 0) {
    if (Plan::kInit) ptx::mbarrier_init(&full[0], 1);  // send: init
    if (Plan::kFence) ptx::fence_mbarrier_init();
    if (Plan::kInit) ptx::mbarrier_arrive_expect_tx(&full[0], Plan::kBytes);  // send: expect
  }
  if (Plan::kClusterBarrier) {
    if (Plan::kRelaxed) {
      ptx::barrier_cluster_arrive_relaxed();
    } else {
      ptx::barrier_cluster_arrive();
    }
    ptx::barrier_cluster_wait();
  } else {
    __syncthreads();
  }
  if (threadIdx.x < kBlocks) {
    const int to = int(threadIdx.x);
    std::uint64_t* const there = ptx::mapa(&full[0], (to + Plan::kBarrierOf) % kBlocks);
    auto* const bytes = reinterpret_cast<unsigned char*>(ptx::mapa(sValues, to) + rank) + Plan::kOffset;
    ptx::st_async(reinterpret_cast<float2*>(bytes), in[blockIdx.x], there);  // send: send
  }
  if (Plan::kWait && Plan::kWaitOfCluster) ptx::mbarrier_wait_cluster(&full[0], 0);  // send: wait
  if (Plan::kWait && !Plan::kWaitOfCluster) ptx::mbarrier_wait(&full[0], 0);         // send: narrow wait
  float2 sum = {0.0f, 0.0f};
  for (int block = 0; block < kBlocks; ++block) {
    sum.x += sValues[block].x;  // send: read
    sum.y += sValues[block].y;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <class Plan>
gpusim::Report run_send(bool expect_right = false) {
  constexpr unsigned kGrid = 3 * kBlocks;
  std::vector<float2> values(kGrid);
  for (unsigned i = 0; i < kGrid; ++i) values[i] = {float(i), 100.0f + float(i)};
  const Buffer<float2> in("in", values), out("out", kGrid);
  const gpusim::Report report = run_clusters(kBlocks, {kGrid, 64}, send_to_all<Plan>, in.get(), out.get());
  if (expect_right) {
    EXPECT_TRUE(is_clean(report));
    for (unsigned i = 0; i < kGrid; ++i) {
      EXPECT_EQ(out.host()[i].x, float(4 * (i / 4 * 4) + 6)) << "block " << i;
      EXPECT_EQ(out.host()[i].y, float(4 * (i / 4 * 4) + 406)) << "block " << i;
    }
  }
  return report;
}

TEST(ClusterCopies, BlocksSendValuesToEachOther) {
  const gpusim::Report report = run_send<Send>(true);
  EXPECT_EQ(report.shared.remote_requests, 12) << "one for each warp that sends";
  EXPECT_EQ(report.shared.remote_bytes, 12 * 3 * 8) << "not those that a block sends to itself";
  EXPECT_EQ(report.ops.mbarrier_arrivals, 12);
  EXPECT_EQ(report.ops.mbarrier_waits, 24);
  EXPECT_EQ(report.ops.bulk_loads, 0);
}

struct SendWithoutFence : Send {
  static constexpr bool kFence = false;
};
struct SendRelaxed : Send {
  static constexpr bool kRelaxed = true;
};
struct SendRelaxedWithoutFence : SendRelaxed {
  static constexpr bool kFence = false;
};
TEST(ClusterCopies, AFenceAndARelaxedArrivalMakeABarrierVisible) {
  run_send<SendWithoutFence>(true);
  run_send<SendRelaxed>(true);
  EXPECT_TRUE(tells(run_send<SendRelaxedWithoutFence>(), DefectKind::kRace,
                    {line_of("send: init"), line_of("send: send")},
                    "the mbarrier may not be initialised yet: no barrier of the cluster between the two"));
}

struct SendWithoutInit : Send {
  static constexpr bool kInit = false;
};
TEST(ClusterCopies, ABarrierThatNobodyInitialises) {
  EXPECT_TRUE(tells(run_send<SendWithoutInit>(), DefectKind::kMisuse, {line_of("send: send")},
                    "no thread has initialised full[0]"));
}

struct SendWithoutClusterBarrier : Send {
  static constexpr bool kClusterBarrier = false;
};
TEST(ClusterCopies, ABarrierOfABlockThatMayNotHaveStarted) {
  const gpusim::Report report = run_send<SendWithoutClusterBarrier>();
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report, at("send: send") + " by thread (1,0,0) in block (0,0,0)"));
  EXPECT_TRUE(says(report, as_said("no thread has initialised full[0]") +
                               " of block (1,0,0): no barrier of the cluster comes before"));
}

struct SendWithoutWait : Send {
  static constexpr bool kWait = false;
};
TEST(ClusterCopies, AValueIsReadBeforeTheWait) {
  const gpusim::Report report = run_send<SendWithoutWait>();
  EXPECT_TRUE(tells(report, DefectKind::kRace, {line_of("send: send"), line_of("send: read")},
                    "data read while its load is in flight: no wait for full[0] between the two"));
  EXPECT_TRUE(says(report, "Async copy access by thread (0,0,0) of block (1,0,0) at " + at("send: send") +
                               " and Read access by thread (32,0,0) of block (0,0,0) at " +
                               at("send: read")));
  EXPECT_TRUE(says(report,
                   "which may have ended: it does not wait at a barrier of the cluster or for an "
                   "mbarrier until this access is over"));
}

struct SendTooFewBytes : Send {
  static constexpr int kBytes = 24;
};
TEST(ClusterCopies, TooFewBytesAreExpected) {
  const gpusim::Report report = run_send<SendTooFewBytes>();
  EXPECT_TRUE(tells(report, DefectKind::kMisuse, {line_of("send: send"), line_of("send: expect")},
                    "expects too few bytes: 24 are announced in phase 0, of parity 0 (" + at("send: expect") +
                        "), and copies deliver 32: it can be complete before all of them have landed"));
  EXPECT_TRUE(says(report, as_said("full[0]") + " of block (0,0,0) expects too few bytes"));
}

struct SendTooManyBytes : Send {
  static constexpr int kBytes = 40;
};
TEST(ClusterCopies, TooManyBytesAreExpected) {
  const gpusim::Report report = run_send<SendTooManyBytes>();
  std::string words =
      "Barrier error detected. Deadlock in the cluster that begins with block (0,0,0): no thread can go on";
  for (int block = 0; block < kBlocks; ++block) {
    words += "\n    threads 0 to 63 of block (" + std::to_string(block) +
             ",0,0) wait in mbarrier_wait_cluster() at " + at("send: wait") +
             " for parity 0 of full[0]: it is in phase 0, of parity 0; 8 of 40 bytes announced at " +
             at("send: expect") + " are missing; a wait for parity 1 would return";
  }
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_EQ(report.defects[0].message.substr(0, as_said(words).size()), as_said(words));
}

struct SendNarrowWait : Send {
  static constexpr bool kWaitOfCluster = false;
};
TEST(ClusterCopies, AWaitWhoseScopeIsTheBlock) {
  EXPECT_TRUE(tells(run_send<SendNarrowWait>(), DefectKind::kMisuse,
                    {line_of("send: narrow wait"), line_of("send: send")},
                    ", but the wait sees only what its own block has done: needs mbarrier_wait_cluster()"));
}

struct SendToOtherRank : Send {
  static constexpr int kBarrierOf = 1;
};
TEST(ClusterCopies, AValueAndItsBarrierInDifferentBlocks) {
  EXPECT_TRUE(tells(run_send<SendToOtherRank>(), DefectKind::kMisuse, {line_of("send: send")},
                    "in block (1,0,0): a copy and its mbarrier must be in the same block"));
}

struct SendMisaligned : Send {
  static constexpr int kOffset = 4;
};
TEST(ClusterCopies, AValueThatIsNotAligned) {
  const gpusim::Report report = run_send<SendMisaligned>();
  EXPECT_TRUE(tells(report, DefectKind::kMisaligned, {line_of("send: send")},
                    "Misaligned __shared__ write of size 8 bytes"));
  EXPECT_TRUE(says(report, "in block (0,0,0), not a multiple of 8"));
}

TEST(ClusterCopies, TheSoftmaxOfARowOnSeveralBlocks) {
  constexpr int kRows = 3, kCols = 1003;
  using Row = fa::ch02::Clustered<4, 64, 1>;
  std::vector<float> values(kRows * kCols);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i * 37 % 101) / 10.0f;
  const Buffer<float> x("x", values), y("y", values.size());
  const gpusim::Report report =
      run_clusters(Row::kBlocks, {kRows * Row::kBlocks, Row::kBlockThreads}, fa::ch02::cluster_softmax<Row>,
                   x.get(), y.get(), kRows, kCols, 0);
  EXPECT_TRUE(is_clean(report));
  const std::vector<float> found = y.host();
  for (int row = 0; row < kRows; ++row) {
    const float* const in = &values[std::size_t(row * kCols)];
    double sum = 0.0;
    for (int col = 0; col < kCols; ++col) sum += std::exp(double(in[col]));
    for (int col = 0; col < kCols; ++col)
      EXPECT_NEAR(found[std::size_t(row * kCols + col)], std::exp(double(in[col])) / sum, 1e-6);
  }
  EXPECT_EQ(report.tensors.at("x").read_bytes, kRows * kCols * 4);
  EXPECT_EQ(report.shared.remote_bytes, kRows * 4 * 3 * 8) << "a pair from each block to each other one";
}

// ---- addresses --------------------------------------------------------------------------------------------

__global__ void addresses(std::uint32_t* out) {
  __shared__ std::uint64_t word[1];
  if (threadIdx.x == 0) out[blockIdx.x] = ptx::shared_address(&word[0]);
}

TEST(ClusterCopies, AnAddressInSharedMemoryHasTheRankOfItsBlock) {
  const Buffer<std::uint32_t> out("out", 2 * kBlocks);
  EXPECT_TRUE(is_clean(run_clusters(kBlocks, {2 * kBlocks, 32}, addresses, out.get())));
  for (std::uint32_t block = 0; block < 2 * kBlocks; ++block) {
    EXPECT_EQ(out.host()[block] >> 24, block % kBlocks);
    EXPECT_EQ(out.host()[block] & 0xFFFFFF, out.host()[0]);
  }
}

// ---- tiles: cp.async.bulk from block to block -------------------------------------------------------------

constexpr int kTile = 64;
constexpr int kRounds = 5;

/// The possible mistakes in the kernel below.
struct Swap {
  static constexpr bool kFenceInit = true;
  static constexpr bool kWaitBeforeWrite = true;  ///< for `empty`: before the tile is written ..
  static constexpr bool kWaitBeforeCopy = false;  ///< .. or only before it is sent
  static constexpr bool kFenceProxy = true;
  static constexpr bool kWaitFull = true;      ///< in the second block
  static constexpr bool kArriveEarly = false;  ///< before the tile is read
  static constexpr bool kArrive = true;
  static constexpr bool kRelaxed = false;
  static constexpr bool kSyncWarp = true;
  static constexpr bool kEndTogether = true;
  static constexpr int kBytes = kTile * 4;
  static constexpr int kOffset = 0;  ///< of the destination, in floats
  static constexpr int kTo = 1;      ///< this many ranks further
};

/// Two blocks exchange tiles. Each has one tile to send and one to receive into; `full` says that the latter
/// is there, and `empty` that the other block has read what this one has sent, so that both tiles may be
/// written again.
template <class Plan>
__global__ void swap_tiles(const float* in, float* out) {
  __shared__ __align__(128) float sSent[kTile], sReceived[kTile + 4];
  __shared__ std::uint64_t full[1], empty[1];
  const int other = (ptx::cluster_ctarank() + Plan::kTo) % 2, lane = int(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 1);            // swap: init full
    ptx::mbarrier_init(&empty[0], kTile / 32);  // swap: init empty
    if (Plan::kFenceInit) ptx::fence_mbarrier_init();
  }
  cluster_sync();
  for (int round = 0; round < kRounds; ++round) {
    const int i = (kRounds * int(blockIdx.x) + round) * kTile + int(threadIdx.x);
    if (Plan::kWaitBeforeWrite) ptx::mbarrier_wait_cluster(&empty[0], (round + 1) % 2);
    sSent[threadIdx.x] = in[i];  // swap: write
    if (Plan::kFenceProxy) ptx::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      if (Plan::kWaitBeforeCopy) ptx::mbarrier_wait_cluster(&empty[0], (round + 1) % 2);
      ptx::mbarrier_arrive_expect_tx(&full[0], Plan::kBytes);  // swap: expect
      float* const to = ptx::mapa(sReceived, other) + Plan::kOffset;
      ptx::bulk_copy_cluster(to, sSent, kTile * 4, ptx::mapa(&full[0], other));  // swap: send
    }
    if (Plan::kWaitFull || ptx::cluster_ctarank() == 0)
      ptx::mbarrier_wait_cluster(&full[0], round % 2);  // swap: wait full
    std::uint64_t* const there = ptx::mapa(&empty[0], other);
    if (Plan::kArriveEarly && lane == 0)
      Plan::kRelaxed ? ptx::mbarrier_arrive_cluster_relaxed(there) : ptx::mbarrier_arrive_cluster(there);
    out[i] = 2.0f * sReceived[threadIdx.x];  // swap: read
    if (Plan::kSyncWarp) __syncwarp();
    const bool arrives = Plan::kArrive && lane == 0;
    if (arrives && Plan::kRelaxed) ptx::mbarrier_arrive_cluster_relaxed(there);
    if (arrives && !Plan::kRelaxed) ptx::mbarrier_arrive_cluster(there);  // swap: arrive
  }
  if (Plan::kEndTogether) cluster_sync();
}

template <class Plan>
gpusim::Report run_swap(bool expect_right = false) {
  constexpr int kAll = 4 * kRounds * kTile;
  const Buffer<float> in("in", numbers(kAll)), out("out", kAll);
  const gpusim::Report report = run_clusters(2, {4, kTile}, swap_tiles<Plan>, in.get(), out.get());
  if (expect_right) {
    EXPECT_TRUE(is_clean(report));
    const std::vector<float> received = out.host();
    for (int i = 0; i < kAll; ++i) {
      const int block = i / (kRounds * kTile);
      EXPECT_EQ(received[std::size_t(i)], 2.0f * float(i + 1 + ((block ^ 1) - block) * kRounds * kTile));
    }
  }
  return report;
}

TEST(ClusterCopies, BlocksExchangeTiles) {
  const gpusim::Report report = run_swap<Swap>(true);
  EXPECT_EQ(report.shared.remote_requests, 4 * kRounds);
  EXPECT_EQ(report.shared.remote_bytes, 4 * kRounds * kTile * 4);
  EXPECT_EQ(report.ops.mbarrier_arrivals, 4 * kRounds * 3)
      << "one by the sender, two by the receiver's warps";
  EXPECT_EQ(report.ops.mbarrier_waits, 4 * kRounds * 4);
  EXPECT_EQ(report.ops.bulk_loads, 0) << "nothing comes from global memory";
  EXPECT_EQ(report.ops.bulk_load_bytes, 0);
}

struct SwapRelaxed : Swap {
  static constexpr bool kRelaxed = true;
};
struct SwapRelaxedEarly : SwapRelaxed {
  static constexpr bool kArriveEarly = true;
  static constexpr bool kArrive = false;
};
struct SwapRelaxedWithoutSyncWarp : SwapRelaxed {
  static constexpr bool kSyncWarp = false;
};
TEST(ClusterCopies, ARelaxedArrivalSaysWhatTheThreadHasRead) {
  run_swap<SwapRelaxed>(true);
  const std::string words = "the sender has not learned that the read is over";
  EXPECT_TRUE(tells(run_swap<SwapRelaxedEarly>(), DefectKind::kRace,
                    {line_of("swap: send"), line_of("swap: read")}, words));
  EXPECT_TRUE(tells(run_swap<SwapRelaxedWithoutSyncWarp>(), DefectKind::kRace,
                    {line_of("swap: send"), line_of("swap: read")}, words));
}

struct SwapToSelf : Swap {
  static constexpr int kTo = 0;
};
TEST(ClusterCopies, ABlockMayCopyToItself) {
  constexpr int kAll = 4 * kRounds * kTile;
  const Buffer<float> in("in", numbers(kAll)), out("out", kAll);
  EXPECT_TRUE(is_clean(run_clusters(2, {4, kTile}, swap_tiles<SwapToSelf>, in.get(), out.get())));
}

struct SwapWithoutFenceInit : Swap {
  static constexpr bool kFenceInit = false;
};
TEST(ClusterCopies, TheCopyEngineSeesBarriersOnlyAfterAFence) {
  const gpusim::Report report = run_swap<SwapWithoutFenceInit>();
  EXPECT_TRUE(tells(report, DefectKind::kMisuse, {line_of("swap: send"), line_of("swap: init full")},
                    " of block (1,0,0) is initialised: no fence_mbarrier_init() after "));
}

struct SwapWithoutWaitFull : Swap {
  static constexpr bool kWaitFull = false;
};
TEST(ClusterCopies, ATileIsReadBeforeTheWait) {
  EXPECT_TRUE(tells(run_swap<SwapWithoutWaitFull>(), DefectKind::kRace,
                    {line_of("swap: send"), line_of("swap: read")},
                    "data read while its load is in flight: no wait for full[0] between the two"));
}

struct SwapArriveEarly : Swap {
  static constexpr bool kArriveEarly = true;
  static constexpr bool kArrive = false;
};
TEST(ClusterCopies, TheNextTileComesWhileTheReceiverReads) {
  const gpusim::Report report = run_swap<SwapArriveEarly>();
  EXPECT_TRUE(tells(report, DefectKind::kRace, {line_of("swap: send"), line_of("swap: read")},
                    "the sender has not learned that the read is over: no wait for an arrival of the reader "
                    "between the two"));
  EXPECT_TRUE(says(report, "in block (1,0,0): the sender has not learned"));
}

struct SwapWithoutSyncWarp : Swap {
  static constexpr bool kSyncWarp = false;
};
TEST(ClusterCopies, TheArrivalOfOneLaneCoversItsWarpOnlyAfterSyncwarp) {
  EXPECT_TRUE(tells(run_swap<SwapWithoutSyncWarp>(), DefectKind::kRace,
                    {line_of("swap: send"), line_of("swap: read")},
                    "the sender has not learned that the read is over"));
}

struct SwapWithoutWaitEmpty : Swap {
  static constexpr bool kWaitBeforeWrite = false;
  static constexpr bool kArrive = false;
};
TEST(ClusterCopies, WithoutEmptyNothingIsSafe) {
  const gpusim::Report report = run_swap<SwapWithoutWaitEmpty>();
  EXPECT_TRUE(tells(report, DefectKind::kRace, {line_of("swap: send"), line_of("swap: read")},
                    "the sender has not learned that the read is over"));
  EXPECT_TRUE(tells(report, DefectKind::kRace, {line_of("swap: send"), line_of("swap: write")},
                    "the copy to block (0,0,0) may still be reading: the writer has not learned that full[0] "
                    "of block (0,0,0) has completed phase 0, of parity 0"));
}

struct SwapWaitLate : Swap {
  static constexpr bool kWaitBeforeWrite = false;
  static constexpr bool kWaitBeforeCopy = true;
};
TEST(ClusterCopies, TheSourceIsOverwrittenWhileTheCopyReadsIt) {
  const gpusim::Report report = run_swap<SwapWaitLate>();
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_TRUE(tells(report, DefectKind::kRace, {line_of("swap: send"), line_of("swap: write")},
                    "the copy to block (1,0,0) may still be reading: the writer has not learned that full[0] "
                    "of block (1,0,0) has completed phase 0, of parity 0"));
}

struct SwapWithoutFenceProxy : Swap {
  static constexpr bool kFenceProxy = false;
};
TEST(ClusterCopies, TheCopyEngineSeesStoresOnlyAfterAFence) {
  EXPECT_TRUE(tells(run_swap<SwapWithoutFenceProxy>(), DefectKind::kMissingFence,
                    {line_of("swap: write"), line_of("swap: send")},
                    "the writer executes no fence_proxy_async() between its write and the barrier"));
}

struct SwapTooFewBytes : Swap {
  static constexpr int kBytes = kTile * 4 - 16;
};
TEST(ClusterCopies, TooFewBytesOfATileAreExpected) {
  EXPECT_TRUE(tells(run_swap<SwapTooFewBytes>(), DefectKind::kMisuse,
                    {line_of("swap: send"), line_of("swap: expect")},
                    "expects too few bytes: 240 are announced in phase 0, of parity 0"));
}

struct SwapTooManyBytes : Swap {
  static constexpr int kBytes = kTile * 4 + 16;
};
TEST(ClusterCopies, TooManyBytesOfATileAreExpected) {
  const gpusim::Report report = run_swap<SwapTooManyBytes>();
  EXPECT_TRUE(says(report, "Deadlock in the cluster that begins with block (0,0,0): no thread can go on"));
  for (const std::string block : {"(0,0,0)", "(1,0,0)"}) {
    EXPECT_TRUE(
        says(report, as_said("threads 0 to 63 of block " + block + " wait in mbarrier_wait_cluster() at " +
                             at("swap: wait full") +
                             " for parity 0 of full[0]: it is in phase 0, of parity 0; 16 of 272 bytes "
                             "announced at " +
                             at("swap: expect") + " are missing")));
  }
}

struct SwapWithoutArrival : Swap {
  static constexpr bool kArrive = false;
};
TEST(ClusterCopies, WithoutArrivalsEverythingStops) {
  EXPECT_TRUE(
      says(run_swap<SwapWithoutArrival>(),
           as_said("for parity 0 of empty[0]: it is in phase 0, of parity 0; 2 of 2 arrivals are missing")));
}

struct SwapEndAlone : Swap {
  static constexpr bool kEndTogether = false;
};
TEST(ClusterCopies, AnArrivalAtABlockThatMayHaveEnded) {
  const gpusim::Report report = run_swap<SwapEndAlone>();
  EXPECT_TRUE(tells(report, DefectKind::kOutOfBounds, {line_of("swap: arrive")},
                    "Invalid __shared__ atomic of size 8 bytes"));
  EXPECT_TRUE(says(report,
                   "in block (1,0,0), which may have ended: it does not wait at a barrier of the cluster "
                   "or for an mbarrier until this access is over"));
}

struct SwapMisaligned : Swap {
  static constexpr int kOffset = 1;
};
TEST(ClusterCopies, ATileThatIsNotAligned) {
  EXPECT_TRUE(tells(run_swap<SwapMisaligned>(), DefectKind::kMisuse, {line_of("swap: send")},
                    "the copy needs a shared address that is a multiple of 16: "));
}

/// Block 0 sends and ends.
__global__ void send_and_end(float* out, int stays) {
  __shared__ __align__(128) float sSent[kTile], sReceived[kTile];
  __shared__ std::uint64_t full[1];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 1);
    ptx::fence_mbarrier_init();
  }
  sSent[threadIdx.x] = 1.0f;
  ptx::fence_proxy_async();
  cluster_sync();
  if (ptx::cluster_ctarank() == 0) {
    std::uint64_t* const there = ptx::mapa(&full[0], 1);
    float* const to = ptx::mapa(sReceived, 1);
    if (threadIdx.x == 0) ptx::bulk_copy_cluster(to, sSent, kTile * 4, there);  // ends: send
  } else {
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(&full[0], kTile * 4);
    ptx::mbarrier_wait_cluster(&full[0], 0);
    out[threadIdx.x] = sReceived[threadIdx.x];
  }
  if (stays != 0) cluster_sync();
}

TEST(ClusterCopies, ABlockMustNotEndBeforeItsCopiesHaveReadItsMemory) {
  const Buffer<float> out("out", kTile);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kTile}, send_and_end, out.get(), 1)));
  const gpusim::Report report = run_clusters(2, {2, kTile}, send_and_end, out.get(), 0);
  EXPECT_TRUE(
      tells(report, DefectKind::kMisuse, {line_of("ends: send")},
            "the block may end while the copy still reads its shared memory: none of its threads learns "
            "that full[0] of block (1,0,0) has completed phase 0, of parity 0"));
}

// ---- ordinary accesses, ordered by mbarriers --------------------------------------------------------------

enum class Said { kBefore, kAfter, kRelaxed, kRelaxedByOneThread };

/// Block 0 writes to block 1's memory and says so.
__global__ void write_and_tell(float* out, Said said) {
  __shared__ float sTile[kTile];
  __shared__ std::uint64_t full[1];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], said == Said::kRelaxedByOneThread ? 1 : kTile);
    ptx::fence_mbarrier_init();
  }
  cluster_sync();
  if (ptx::cluster_ctarank() == 0) {
    std::uint64_t* const there = ptx::mapa(&full[0], 1);
    if (said == Said::kBefore) ptx::mbarrier_arrive_cluster(there);
    ptx::mapa(sTile, 1)[threadIdx.x] = 3.0f;  // tell: write
    if (said == Said::kAfter) ptx::mbarrier_arrive_cluster(there);
    if (said == Said::kRelaxed) ptx::mbarrier_arrive_cluster_relaxed(there);
    if (said == Said::kRelaxedByOneThread) {
      __syncthreads();
      if (threadIdx.x == 0) ptx::mbarrier_arrive_cluster_relaxed(there);
    }
  } else {
    ptx::mbarrier_wait_cluster(&full[0], 0);
    out[threadIdx.x] = sTile[kTile - 1 - threadIdx.x];  // tell: read
  }
}

TEST(ClusterCopies, AnArrivalReleasesOrdinaryStores) {
  const Buffer<float> out("out", kTile);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kTile}, write_and_tell, out.get(), Said::kAfter)));
  EXPECT_EQ(out.host(), std::vector<float>(kTile, 3.0f));
  for (const Said said : {Said::kBefore, Said::kRelaxed, Said::kRelaxedByOneThread}) {
    const gpusim::Report report = run_clusters(2, {2, kTile}, write_and_tell, out.get(), said);
    EXPECT_TRUE(tells(report, DefectKind::kRace, {line_of("tell: write"), line_of("tell: read")},
                      "no barrier of the cluster between the two"));
    EXPECT_TRUE(tells(report, DefectKind::kOutOfBounds, {line_of("tell: write")}, "which may have ended"));
  }
}

/// Block 0 reads block 1's memory, says so, and block 1 writes there.
/// @param early  it says so before it reads
__global__ void read_and_tell(float* out, bool early) {
  __shared__ float sTile[kTile];
  __shared__ std::uint64_t read[1];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&read[0], kTile);
    ptx::fence_mbarrier_init();
  }
  sTile[threadIdx.x] = 3.0f;
  cluster_sync();
  if (ptx::cluster_ctarank() == 0) {
    std::uint64_t* const there = ptx::mapa(&read[0], 1);
    if (early) ptx::mbarrier_arrive_cluster_relaxed(there);
    out[threadIdx.x] = ptx::mapa(sTile, 1)[threadIdx.x];  // tell: read there
    if (!early) ptx::mbarrier_arrive_cluster_relaxed(there);
  } else {
    ptx::mbarrier_wait_cluster(&read[0], 0);
    sTile[kTile - 1 - threadIdx.x] = 4.0f;  // tell: overwrite
  }
}

TEST(ClusterCopies, ARelaxedArrivalOrdersReadsBeforeOrdinaryStores) {
  const Buffer<float> out("out", kTile);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kTile}, read_and_tell, out.get(), false)));
  EXPECT_EQ(out.host(), std::vector<float>(kTile, 3.0f));
  EXPECT_TRUE(tells(run_clusters(2, {2, kTile}, read_and_tell, out.get(), true), DefectKind::kRace,
                    {line_of("tell: overwrite"), line_of("tell: read there")},
                    "no barrier of the cluster between the two"));
}

__global__ void wait_at_other(int arrive) {
  __shared__ std::uint64_t full[1];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 1);
    ptx::fence_mbarrier_init();
  }
  cluster_sync();
  if (arrive != 0) {
    ptx::mbarrier_arrive(ptx::mapa(&full[0], 1 - ptx::cluster_ctarank()));  // other: arrive
  } else {
    ptx::mbarrier_wait_cluster(ptx::mapa(&full[0], 1 - ptx::cluster_ctarank()), 1);  // other: wait
  }
}

TEST(ClusterCopies, InstructionsThatAreOnlyForTheOwnBlock) {
  EXPECT_TRUE(
      tells(run_clusters(2, {2, 1}, wait_at_other, 1), DefectKind::kMisuse, {line_of("other: arrive")},
            "full[0] is in block (1,0,0), not in the thread's own block: mbarrier_arrive_cluster() can "
            "arrive there"));
  EXPECT_TRUE(
      tells(run_clusters(2, {2, 1}, wait_at_other, 0), DefectKind::kMisuse, {line_of("other: wait")},
            "full[0] is in block (1,0,0), not in the thread's own block: a thread can wait only for those "
            "of its own block"));
}

}  // namespace
}  // namespace gpusim_test
