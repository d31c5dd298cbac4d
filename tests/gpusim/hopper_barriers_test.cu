/// @file
/// mbarriers, named barriers and the order that they give: what a ring of stages needs, and what is reported
/// if it is missing.
#include <cuda_runtime.h>
#include <gpusim_hopper.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "hopper.hpp"
#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

std::string at(const std::string& tag) { return "hopper_barriers_test.cu:" + std::to_string(line_of(tag)); }

// ---- a ring of stages -------------------------------------------------------------------------------------

constexpr int kStages = 2;
constexpr int kTile = 128;
constexpr int kTiles = 6;

/// The possible mistakes in the ring below.
struct Right {
  static constexpr bool kInit = true;
  static constexpr bool kFenceInit = true;
  static constexpr bool kInitBarrier = true;
  static constexpr bool kWaitFull = true;
  static constexpr bool kLook = false;  ///< asks whether the tile is there, and waits if not
  static constexpr int kLookParity = 0;
  static constexpr bool kWaitEmpty = true;
  static constexpr bool kArriveEmpty = true;
  static constexpr bool kArriveEarly = false;  ///< before the tile is read
  static constexpr bool kSyncWarp = true;      ///< between reading and the arrival of one lane
  static constexpr int kFullParity = 0;        ///< of the first wait
  static constexpr int kEmptyParity = 1;
  static constexpr bool kFlip = true;       ///< consumers flip the parity when the ring wraps
  static constexpr bool kFlipEmpty = true;  ///< the producer does
  static constexpr int kEmptyArrivals = 2;
  static constexpr int kBytes = kTile * 4;
  static constexpr int kLoads = kTiles;
};

/// Warp 0 loads tiles, and warps 1 and 2 double them.
template <class Plan>
__global__ void ring(const float* in, float* out) {
  __shared__ __align__(128) float tiles[kStages][kTile];
  __shared__ std::uint64_t full[kStages], empty[kStages];
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      if (Plan::kInit) ptx::mbarrier_init(&full[s], 1);     // ring: init full
      ptx::mbarrier_init(&empty[s], Plan::kEmptyArrivals);  // ring: init empty
    }
    if (Plan::kFenceInit) ptx::fence_mbarrier_init();
  }
  if (Plan::kInitBarrier) __syncthreads();
  if (warp == 0) {
    if (lane == 0) {
      for (int tile = 0; tile < Plan::kLoads; ++tile) {
        const int s = tile % kStages;
        if (Plan::kWaitEmpty) {
          const int round = Plan::kFlipEmpty ? tile / kStages : 0;
          ptx::mbarrier_wait(&empty[s], (round + Plan::kEmptyParity) % 2);  // ring: wait empty
        }
        ptx::mbarrier_arrive_expect_tx(&full[s], Plan::kBytes);                     // ring: expect
        ptx::bulk_load(tiles[s], in + tile % kTiles * kTile, kTile * 4, &full[s]);  // ring: load
      }
    }
  } else {
    for (int tile = 0; tile < kTiles; ++tile) {
      const int s = tile % kStages;
      const int parity = Plan::kFlip ? (tile / kStages + Plan::kFullParity) % 2 : Plan::kFullParity;
      const bool landed =
          Plan::kLook && ptx::mbarrier_test_wait(&full[s], (parity + Plan::kLookParity) % 2);  // ring: look
      if (Plan::kWaitFull && !landed) ptx::mbarrier_wait(&full[s], parity);  // ring: wait full
      if (Plan::kArriveEarly && lane == 0) ptx::mbarrier_arrive(&empty[s]);  // ring: early arrival
      for (int i = 32 * (warp - 1) + lane; i < kTile; i += 64) {
        out[tile * kTile + i] = 2.0f * tiles[s][i];  // ring: read
      }
      if (Plan::kSyncWarp) __syncwarp();
      if (Plan::kArriveEmpty && lane == 0) ptx::mbarrier_arrive(&empty[s]);  // ring: arrive
    }
  }
}

std::vector<float> numbers(int count) {
  std::vector<float> values(std::size_t(count), 0.0f);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

template <class Plan>
gpusim::Report run_ring(bool expect_right = false) {
  const Buffer<float> in("in", numbers(kTiles * kTile));
  const Buffer<float> out("out", kTiles * kTile);
  const gpusim::Report report = run({1, 96}, ring<Plan>, in.get(), out.get());
  if (expect_right) {
    std::vector<float> doubled = numbers(kTiles * kTile);
    for (float& x : doubled) x *= 2.0f;
    EXPECT_EQ(out.host(), doubled);
  }
  return report;
}

TEST(Ring, Right) {
  const gpusim::Report report = run_ring<Right>(true);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.tensors.at("in").read_bytes, kTiles * kTile * 4);
  EXPECT_EQ(report.ops.bulk_loads, kTiles);
  EXPECT_EQ(report.ops.bulk_load_bytes, kTiles * kTile * 4);
  EXPECT_EQ(report.ops.mbarrier_waits, 3 * kTiles);
  EXPECT_EQ(report.ops.mbarrier_arrivals, 3 * kTiles);
}

/// Expects the reports to be exactly these, each with the beginning of its second line.
struct Expected {
  DefectKind kind;
  std::vector<std::string> tags;  ///< of the lines, in the order of the report
  std::string words;
};
void expect(const gpusim::Report& report, const std::vector<Expected>& expected) {
  EXPECT_EQ(report.defects.size(), expected.size()) << gpusim::format_defects(report);
  for (const Expected& e : expected) {
    std::vector<int> lines;
    for (const std::string& tag : e.tags) lines.push_back(line_of(tag));
    bool found = false;
    for (const gpusim::Defect& d : report.defects) {
      found |= d.kind == e.kind && lines_of(d.message, __FILE__) == lines &&
               d.message.find(in_words(e.words)) != std::string::npos;
    }
    EXPECT_TRUE(found) << gpusim::name_of(e.kind) << ": " << e.words << "\n"
                       << gpusim::format_defects(report);
  }
}

/// Whether the first of the reports says this.
testing::AssertionResult first_tells(const gpusim::Report& report, const std::string& words) {
  if (!report.defects.empty() && report.defects[0].message.find(in_words(words)) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "not in the first: " << words << "\n"
                                     << gpusim::format_defects(report);
}

testing::AssertionResult tells(const gpusim::Report& report, const std::string& words) {
  return says(report, in_words(words));
}

struct NoInit : Right {
  static constexpr bool kInit = false;
};
TEST(Ring, WithoutInitialisation) {
  expect(run_ring<NoInit>(), {{DefectKind::kMisuse, {"ring: expect"}, "no thread has initialised full[0]"}});
}

struct NoFenceInit : Right {
  static constexpr bool kFenceInit = false;
};
TEST(Ring, WithoutAFenceTheCopyEngineMayNotSeeTheBarriers) {
  expect(run_ring<NoFenceInit>(), {{DefectKind::kMisuse,
                                    {"ring: load", "ring: init full"},
                                    "the copy engine may not see that full[0] is initialised: no "
                                    "fence_mbarrier_init() after "}});
}

struct NoInitBarrier : Right {
  static constexpr bool kInitBarrier = false;
};
TEST(Ring, WithoutABarrierOtherThreadsMayNotSeeTheInitialisation) {
  const gpusim::Report report = run_ring<NoInitBarrier>();
  EXPECT_TRUE(tells(report, "Race reported between Write access by thread (0,0,0) at " +
                                at("ring: init full") + " and Atomic access by thread (32,0,0) at " +
                                at("ring: wait full")));
  EXPECT_TRUE(tells(report, "the mbarrier may not be initialised yet: no barrier between the two"));
}

struct NoWaitFull : Right {
  static constexpr bool kWaitFull = false;
};
TEST(Ring, WithoutWaitingForFull) {
  const gpusim::Report report = run_ring<NoWaitFull>();
  EXPECT_TRUE(tells(report, "Race reported between Async copy access by thread (0,0,0) at " +
                                at("ring: load") + " and Read access by thread (32,0,0) at " +
                                at("ring: read")));
  EXPECT_TRUE(tells(report, "data read while its load is in flight: no wait for full[0] between the two  ["));
}

struct Look : Right {
  static constexpr bool kLook = true;
};
TEST(Ring, ALookThatFindsTheTileIsAWait) {
  const gpusim::Report report = run_ring<Look>(true);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.ops.mbarrier_waits, 3 * kTiles);
}

struct LookWithoutWaiting : Look {
  static constexpr bool kWaitFull = false;
};
TEST(Ring, ALookIsNotEnough) {
  EXPECT_TRUE(tells(run_ring<LookWithoutWaiting>(),
                    "data read while its load is in flight: no wait for full[0] between the two  ["));
}

struct LookForTheWrongParity : Look {
  static constexpr int kLookParity = 1;
};
TEST(Ring, ALookForTheWrongParity) {
  EXPECT_TRUE(tells(run_ring<LookForTheWrongParity>(),
                    "data read before its load is complete: the wait for full[0] at " + at("ring: look") +
                        ", with parity 1, returned at once"));
}

/// Warp 0 writes and arrives. Warp 1 asks again and again, and reads.
template <bool kAsks>
__global__ void ask_until_there(int* out) {
  __shared__ int number;
  __shared__ std::uint64_t there;
  if (threadIdx.x == 0) ptx::mbarrier_init(&there, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    number = 7;  // ask: write
    ptx::mbarrier_arrive(&there);
  }
  if (threadIdx.x == 32) {
    while (kAsks && !ptx::mbarrier_test_wait(&there, 0)) {
    }
    out[0] = number;  // ask: read
  }
}
TEST(Mbarriers, ALookThatFindsThePhaseCompleteOrdersWhatWasWrittenBefore) {
  const Buffer<int> out("out", 1);
  EXPECT_TRUE(is_clean(run({1, 64}, ask_until_there<true>, out.get())));
  EXPECT_EQ(out.host()[0], 7);
  EXPECT_FALSE(run({1, 64}, ask_until_there<false>, out.get()).defects.empty());
}

struct NoWaitEmpty : Right {
  static constexpr bool kWaitEmpty = false;
};
TEST(Ring, WithoutWaitingForEmpty) {
  const gpusim::Report report = run_ring<NoWaitEmpty>();
  EXPECT_TRUE(
      tells(report, "data written while a load to it is in flight: no wait for full[0] between the two"));
  EXPECT_TRUE(
      tells(report,
            "full[0] expects 1 arrival in a phase: this is one more, and phase 0, of parity 0, is not "
            "complete until its bytes have landed"));
}

struct NoArrive : Right {
  static constexpr bool kArriveEmpty = false;
};
TEST(Ring, WithoutArrivalsEverythingStops) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  expect(run_ring<NoArrive>(),
         {{DefectKind::kBarrierDivergence,
           {"ring: wait empty", "ring: wait full"},
           "Barrier error detected. Deadlock in block (0,0,0): no thread can go on"
           "\n    thread 0 waits in mbarrier_wait() at " +
               at("ring: wait empty") +
               " for parity 0 of empty[0]: it is in phase 0, of parity 0; 2 of 2 arrivals are missing; a "
               "wait for "
               "parity 1 would return"
               "\n    threads 1 to 31 have returned"
               "\n    threads 32 to 95 wait in mbarrier_wait() at " +
               at("ring: wait full") +
               " for parity 1 of full[0]: it is in phase 1, of parity 1; 1 of 1 arrival is missing"}});
}

struct ArriveEarly : NoArrive {
  static constexpr bool kArriveEarly = true;
};
TEST(Ring, AStageThatIsReusedTooEarly) {
  expect(run_ring<ArriveEarly>(), {{DefectKind::kRace,
                                    {"ring: load", "ring: read"},
                                    "a load into memory that is still in use: no barrier between the two"}});
}

struct NoSyncWarp : Right {
  static constexpr bool kSyncWarp = false;
};
TEST(Ring, TheArrivalOfOneLaneCoversItsWarpOnlyAfterSyncwarp) {
  expect(run_ring<NoSyncWarp>(),
         {{DefectKind::kRace, {"ring: load", "ring: read"}, "Async copy access by thread (0,0,0)"}});
  EXPECT_TRUE(tells(run_ring<NoSyncWarp>(), "Read access by thread (33,0,0)"));
}

struct FullParity : Right {
  static constexpr int kFullParity = 1;
};
TEST(Ring, AWaitForTheWrongParity) {
  const gpusim::Report report = run_ring<FullParity>();
  EXPECT_TRUE(first_tells(
      report, "data read before its load is complete: the wait for full[0] at " + at("ring: wait full") +
                  ", with parity 1, returned at once: the phase before the first counts as "
                  "complete; the load completes phase 0, of parity 0"));
}

struct EmptyParity : Right {
  static constexpr int kEmptyParity = 0;
};
TEST(Ring, AProducerWhoseFirstWaitDoesNotReturn) {
  expect(run_ring<EmptyParity>(), {{DefectKind::kBarrierDivergence,
                                    {"ring: wait empty", "ring: wait full"},
                                    "for parity 0 of empty[0]: it is in phase 0, of parity 0; 2 of 2 "
                                    "arrivals are missing; a wait for parity 1 would "
                                    "return\n"}});
}

struct NoFlip : Right {
  static constexpr bool kFlip = false;
};
TEST(Ring, AParityThatDoesNotChangeWhenTheRingWraps) {
  const gpusim::Report report = run_ring<NoFlip>();
  EXPECT_TRUE(
      first_tells(report,
                  "empty[0] expects 2 arrivals in a phase: this may be one more in phase 0, of parity 0, "
                  "because the thread has not waited for that phase\n    the wait for full[0] at " +
                      at("ring: wait full") +
                      ", with parity 0, returned at once: phase 0, of parity 0, was complete, and the "
                      "thread had waited for it before"));
}

struct NoFlipOfProducer : Right {
  static constexpr bool kFlipEmpty = false;
};
TEST(Ring, AProducerThatOverwritesTilesInUse) {
  const gpusim::Report report = run_ring<NoFlipOfProducer>();
  const std::string wait =
      "the wait for empty[0] at " + at("ring: wait empty") +
      ", with parity 1, returned at once: the phase before the first counts as complete, and "
      "the thread had waited for it before";
  EXPECT_TRUE(first_tells(report,
                          "full[0] expects 1 arrival in a phase: this is one more, and phase 0, of parity 0, "
                          "is not complete until its bytes have landed\n    " +
                              wait));
  EXPECT_TRUE(tells(
      report,
      "data written while a load to it is in flight: no wait for full[0] between the two; " + wait + "  ["));
}

/// A consumer that waits with the same parity in both rounds reads the tile of the first one again.
__global__ void read_again(const float* in, float* out) {
  __shared__ __align__(128) float tile[kTile];
  __shared__ std::uint64_t full[2], empty[2];
  const int i = int(threadIdx.x) - 32;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 1);
    ptx::mbarrier_init(&empty[0], 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int round = 0; round < 2; ++round) {
      ptx::mbarrier_wait(&empty[0], (round + 1) % 2);
      ptx::mbarrier_arrive_expect_tx(&full[0], kTile * 4);
      ptx::bulk_load(tile, in, kTile * 4, &full[0]);  // again: load
    }
    ptx::mbarrier_wait(&full[0], 1);
  } else if (i >= 0) {
    ptx::mbarrier_wait(&full[0], 0);
    out[i] = tile[i];
    __syncwarp();
    if (i == 0) ptx::mbarrier_arrive(&empty[0]);
    ptx::mbarrier_wait(&full[0], 0);  // again: wait
    out[i] += tile[i];                // again: read
  }
}

TEST(Ring, AReadBeforeTheLoadBegins) {
  const Buffer<float> in("in", numbers(kTile));
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(
      first_tells(run({1, 64}, read_again, in.get(), out.get()),
                  "data read before its load is complete: the wait for full[0] at " + at("again: wait") +
                      ", with parity 0, returned at once: phase 0, of parity 0, was complete, and the "
                      "thread had waited for it before; the load completes phase 1, of parity 1"));
}

struct OneArrival : Right {
  static constexpr int kEmptyArrivals = 1;
};
struct ThreeArrivals : Right {
  static constexpr int kEmptyArrivals = 3;
};
TEST(Ring, MoreArrivalsThanExpected) {
  EXPECT_TRUE(tells(run_ring<OneArrival>(),
                    "empty[0] expects 1 arrival in a phase: this may be one more in phase 0"));
}
TEST(Ring, FewerArrivalsThanExpected) {
  expect(run_ring<ThreeArrivals>(),
         {{DefectKind::kBarrierDivergence,
           {"ring: wait empty", "ring: wait full"},
           "for parity 0 of empty[0]: it is in phase 0, of parity 0; 1 of 3 arrivals is missing"}});
}

struct TooFewBytes : Right {
  static constexpr int kBytes = kTile * 2;
};
struct TooManyBytes : Right {
  static constexpr int kBytes = kTile * 8;
};
struct NoBytes : Right {
  static constexpr int kBytes = 0;
};
TEST(Ring, TooFewBytesAreAnnounced) {
  expect(run_ring<TooFewBytes>(true),
         {{DefectKind::kMisuse,
           {"ring: load", "ring: expect"},
           "full[0] expects too few bytes: 256 are announced in phase 0, of parity 0 (" + at("ring: expect") +
               "), and copies deliver 512: it can be complete before all of them have landed"}});
}
TEST(Ring, TooManyBytesAreAnnounced) {
  expect(run_ring<TooManyBytes>(),
         {{DefectKind::kBarrierDivergence,
           {"ring: wait empty", "ring: wait full", "ring: expect"},
           "for parity 0 of full[0]: it is in phase 0, of parity 0; 512 of 1024 bytes announced at " +
               at("ring: expect") + " are missing"}});
}
TEST(Ring, NoBytesAreAnnounced) {
  EXPECT_TRUE(tells(run_ring<NoBytes>(), "data read while its load is in flight: no wait for full[0]"));
}

struct OneLoadMore : Right {
  static constexpr int kLoads = kTiles + 1;
};
TEST(Ring, ALoadThatNobodyWaitsFor) {
  expect(run_ring<OneLoadMore>(true),
         {{DefectKind::kMisuse,
           {"ring: load"},
           "the block ends while the load is in flight: no thread has waited for full[0]"}});
}

// ---- mbarriers without copies -----------------------------------------------------------------------------

/// Two warps exchange numbers: each arrives with all its lanes.
__global__ void exchange(float* out, bool waits, int arrivals) {
  __shared__ float numbers[64];
  __shared__ std::uint64_t done;
  const int i = int(threadIdx.x);
  if (i == 0) ptx::mbarrier_init(&done, arrivals);
  __syncthreads();
  numbers[i] = float(i);        // exchange: write
  ptx::mbarrier_arrive(&done);  // exchange: arrive
  if (waits) ptx::mbarrier_wait(&done, 0);
  out[i] = numbers[63 - i];  // exchange: read
}

TEST(Mbarriers, OrderWhatArrivingThreadsHaveWritten) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 64);
  EXPECT_TRUE(is_clean(run({1, 64}, exchange, out.get(), true, 64)));
  EXPECT_EQ(out.host()[3], 60.0f);
  const gpusim::Report report = run({1, 64}, exchange, out.get(), false, 64);
  EXPECT_TRUE(tells(report, "at " + at("exchange: write") + " and Read access by thread (31,0,0) at " +
                                at("exchange: read")));
  EXPECT_TRUE(tells(report, "\"numbers\") in block (0,0,0): no barrier between the two  ["));
}

/// What a thread writes after its arrival is not covered by it.
__global__ void writes_late(float* out) {
  __shared__ float number;
  __shared__ std::uint64_t done;
  if (threadIdx.x == 0) ptx::mbarrier_init(&done, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive(&done);
    number = 1.0f;  // late: write
  } else if (threadIdx.x == 32) {
    ptx::mbarrier_wait(&done, 0);
    out[0] = number;  // late: read
  }
}
TEST(Mbarriers, DoNotOrderWhatComesAfterTheArrival) {
  const Buffer<float> out("out", 1);
  expect(run({1, 64}, writes_late, out.get()),
         {{DefectKind::kRace, {"late: write", "late: read"}, "no barrier between the two"}});
}

/// Warp 0 tells warp 1, and warp 1 tells warp 2.
__global__ void chain(float* out) {
  __shared__ float number;
  __shared__ std::uint64_t first, second;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&first, 1);
    ptx::mbarrier_init(&second, 1);
  }
  __syncthreads();
  if (warp == 0) {
    if (lane == 7) number = 3.0f;
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&first);
  } else if (warp == 1) {
    if (lane == 3) ptx::mbarrier_wait(&first, 0);
    __syncwarp();
    if (lane == 5) ptx::mbarrier_arrive(&second);
  } else {
    ptx::mbarrier_wait(&second, 0);
    out[lane] = number;
  }
}
TEST(Mbarriers, PassOnWhatOthersHaveToldThem) {
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 96}, chain, out.get())));
  EXPECT_EQ(out.host()[9], 3.0f);
}

__global__ void init_twice() {
  __shared__ std::uint64_t done;
  if (threadIdx.x == 0) ptx::mbarrier_init(&done, 1);  // twice: first
  __syncthreads();
  if (threadIdx.x == 0) ptx::mbarrier_init(&done, 1);  // twice: second
}
__global__ void init_for(int arrivals) {
  __shared__ std::uint64_t done;
  if (threadIdx.x == 0) ptx::mbarrier_init(&done, arrivals);  // init for
}
__global__ void wait_for(int parity) {
  __shared__ std::uint64_t done;
  if (threadIdx.x == 0) ptx::mbarrier_init(&done, 1);
  __syncthreads();
  ptx::mbarrier_wait(&done, parity);  // wait for
}
__global__ void misaligned() {
  __shared__ __align__(8) std::uint32_t words[3];
  ptx::mbarrier_init(reinterpret_cast<std::uint64_t*>(words + 1), 1);  // misaligned
}
__global__ void in_global_memory(std::uint64_t* barrier) {
  ptx::mbarrier_init(barrier, 1);  // in global memory
}
TEST(Mbarriers, AreInitialisedOnceForAPossibleNumber) {
  expect(run({1, 32}, init_twice), {{DefectKind::kMisuse,
                                     {"twice: second", "twice: first"},
                                     "done is initialised a second time, after " + at("twice: first")}});
  expect(run({1, 1}, init_for, 0),
         {{DefectKind::kMisuse, {"init for"}, "done is initialised for 0 arrivals: must be 1 to 1048575"}});
  expect(run({1, 1}, wait_for, 2),
         {{DefectKind::kMisuse, {"wait for"}, "a wait for parity 2 of done: must be 0 or 1"}});
  EXPECT_TRUE(
      tells(run({1, 1}, misaligned), "Misaligned __shared__ write of size 8 bytes at " + at("misaligned")));
  const auto barrier = Buffer<std::uint64_t>::zeros("barrier", 1);
  EXPECT_TRUE(tells(run({1, 1}, in_global_memory, barrier.get()), "Invalid __shared__"));
}

// ---- named barriers ---------------------------------------------------------------------------------------

/// Warps 0 and 1 exchange numbers, and so do warps 2 and 3.
__global__ void pairs(float* out, bool waits) {
  __shared__ float numbers[128];
  const int i = int(threadIdx.x), pair = i / 64;
  numbers[i] = float(i);  // pairs: write
  if (waits) ptx::barrier_sync(1 + pair, 64);
  out[i] = numbers[i ^ 63];  // pairs: read
}
TEST(NamedBarriers, OrderTheAccessesOfThoseThatTakePart) {
  const Buffer<float> out("out", 128);
  EXPECT_TRUE(is_clean(run({1, 128}, pairs, out.get(), true)));
  EXPECT_EQ(out.host()[65], 126.0f);
}

__global__ void of_others(float* out) {
  __shared__ float numbers[128];
  const int i = int(threadIdx.x), pair = i / 64;
  numbers[i] = float(i);  // of others: write
  ptx::barrier_sync(1 + pair, 64);
  out[i] = numbers[i ^ 64];  // of others: read
}
TEST(NamedBarriers, DoNotOrderThoseOfOthers) {
  const Buffer<float> out("out", 128);
  EXPECT_TRUE(tells(
      run({1, 128}, of_others, out.get()),
      "at " + at("of others: write") + " and Read access by thread (32,0,0) at " + at("of others: read")));
}

/// A producer fills a buffer, and says so without waiting; the consumer gives it back.
__global__ void hand_over(float* out, int rounds) {
  __shared__ float buffer[32];
  const int lane = int(threadIdx.x) % 32;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x < 32) {
      if (round != 0) ptx::barrier_sync(2, 64);
      buffer[lane] = float(round);
      ptx::barrier_arrive(1, 64);
    } else {
      ptx::barrier_sync(1, 64);
      out[32 * round + lane] = buffer[31 - lane];
      if (round + 1 < rounds) ptx::barrier_arrive(2, 64);
    }
  }
}
TEST(NamedBarriers, AProducerArrivesAndAConsumerWaits) {
  const Buffer<float> out("out", 160);
  const gpusim::Report report = run({1, 64}, hand_over, out.get(), 5);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.ops.named_barriers, 5 + 4 + 5 + 4);
  EXPECT_EQ(out.host()[159], 4.0f);
}

__global__ void one_barrier(int id, int threads) {
  ptx::barrier_sync(id, threads);  // one barrier
}
__global__ void two_counts() {
  if (threadIdx.x < 32) {
    ptx::barrier_sync(1, 64);  // two counts: 64
  } else {
    ptx::barrier_sync(1, 96);  // two counts: 96
  }
}
__global__ void one_warp_does_not_come(float* out) {
  if (threadIdx.x < 64) ptx::barrier_sync(1, 96);  // one warp
  out[threadIdx.x] = 0.0f;
}
TEST(NamedBarriers, NeedARightNumberOfThreads) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(is_clean(run({1, 64}, one_barrier, 15, 64)));
  EXPECT_TRUE(is_clean(run({1, 64}, one_barrier, 0, 64)));
  const auto says_of = [](int id, int threads, const std::string& words) {
    expect(run({1, 64}, one_barrier, id, threads), {{DefectKind::kMisuse, {"one barrier"}, words}});
  };
  says_of(16, 64, "there is no barrier 16: must be 0 to 15");
  says_of(-1, 64, "there is no barrier -1: must be 0 to 15");
  says_of(1, 48, "barrier 1 for 48 threads: must be a multiple of 32");
  says_of(1, 96, "barrier 1 for 96 threads: the block has 64");
  says_of(0, 32, "barrier 0 is __syncthreads(), for all 64 threads of the block, not for 32");
  expect(run({1, 96}, two_counts), {{DefectKind::kMisuse,
                                     {"two counts: 96", "two counts: 64"},
                                     "barrier 1 is for 96 threads here, for 64 at " + at("two counts: 64")}});
}
TEST(NamedBarriers, AWarpThatDoesNotCome) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 96);
  expect(run({1, 96}, one_warp_does_not_come, out.get()),
         {{DefectKind::kBarrierDivergence,
           {"one warp"},
           "threads 0 to 63 wait in barrier_sync() at " + at("one warp") +
               ": 64 of 96 threads have come to barrier 1\n    threads 64 to 95 have returned"}});
}

// ---- the record of events ---------------------------------------------------------------------------------

TEST(EventTrace, HasALineForEachEvent) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string path = testing::TempDir() + "gpusim_events.json";
  EXPECT_EXIT(
      {
        setenv("GPUSIM_TRACE", path.c_str(), 1);
        run_ring<Right>();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  std::ifstream file(path);
  std::vector<std::string> events;
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"thread\": 0,") != std::string::npos && events.size() < 4) events.push_back(line);
  }
  const std::string thread = "{\"block\": 0, \"warp\": 0, \"thread\": 0, \"event\": ";
  const std::vector<std::string> expected = {
      thread + "\"wait\", \"line\": \"" + at("ring: wait empty") +
          "\", \"barrier\": \"empty[0]\", \"phase\": 0}",
      thread + "\"go on\", \"line\": \"" + at("ring: wait empty") +
          "\", \"barrier\": \"empty[0]\", \"phase\": 0}",
      thread + "\"expect\", \"line\": \"" + at("ring: expect") +
          "\", \"barrier\": \"full[0]\", \"phase\": 0}",
      thread + "\"load\", \"line\": \"" + at("ring: load") + "\", \"barrier\": \"full[0]\", \"phase\": 0}"};
  EXPECT_EQ(events, expected);
}

}  // namespace
}  // namespace gpusim_test
