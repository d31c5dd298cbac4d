/// @file
/// Blocks that hand results to the last one of them through an atomic counter.
#include <cuda_runtime.h>
#include <gpusim_ptx.h>

#include <cstdint>
#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

constexpr unsigned kBlocks = 12, kThreads = 64;

/// How a block arrives, and the possible mistakes in the kernel below.
struct AcqRel {
  static constexpr bool kFenceBefore = false, kFenceAfter = false, kFenceByAll = false;
  static constexpr bool kIsAcqRel = true;
  static constexpr bool kBarrierBefore = true, kBarrierAfter = true;
  static constexpr bool kStoresLate = false;
  static constexpr unsigned kLast = kBlocks - 1;  ///< the arrival whose block merges
  static constexpr bool kEachAlone = false;       ///< each block has a counter of its own
};
struct Fences : AcqRel {
  static constexpr bool kFenceBefore = true, kFenceAfter = true, kIsAcqRel = false;
};
struct FencesByAll : AcqRel {
  static constexpr bool kFenceByAll = true, kIsAcqRel = false;
};
struct NoFence : AcqRel {
  static constexpr bool kIsAcqRel = false;
};
struct NoFenceAfter : AcqRel {
  static constexpr bool kFenceBefore = true, kIsAcqRel = false;
};
struct NoBarrierBefore : AcqRel {
  static constexpr bool kBarrierBefore = false;
};
struct NoBarrierAfter : AcqRel {
  static constexpr bool kBarrierAfter = false;
};
struct StoresLate : AcqRel {
  static constexpr bool kStoresLate = true;
};
struct LastButOne : AcqRel {
  static constexpr unsigned kLast = kBlocks - 2;
};
struct EachAlone : AcqRel {
  static constexpr unsigned kLast = 0;
  static constexpr bool kEachAlone = true;
};

/// Each block stores a part for each thread, and the last one to arrive adds up the parts.
template <class Plan>
__global__ void merge_parts(float* parts, std::uint32_t* counter, float* sums) {
  __shared__ std::uint32_t arrival;
  float* const mine = parts + blockIdx.x * kThreads + threadIdx.x;
  if (!Plan::kStoresLate) *mine = 1.0f;  // store
  if (Plan::kFenceByAll) __threadfence();
  if (Plan::kBarrierBefore) __syncthreads();
  if (threadIdx.x == 0) {
    if (Plan::kFenceBefore) __threadfence();
    if (Plan::kIsAcqRel) {
      arrival = ptx::atom_add_acq_rel(counter + (Plan::kEachAlone ? blockIdx.x : 0), 1);  // arrive
    } else {
      arrival = atomicAdd(counter, 1u);  // add
    }
    if (Plan::kFenceAfter) __threadfence();
  }
  if (Plan::kStoresLate) *mine = 1.0f;  // late store
  if (Plan::kBarrierAfter) __syncthreads();
  const std::uint32_t seen = Plan::kBarrierAfter ? arrival : std::uint32_t(blockIdx.x);
  if (seen != Plan::kLast) return;
  if (Plan::kFenceByAll) __threadfence();
  float sum = 0.0f;
  for (unsigned block = 0; block < kBlocks; ++block) sum += parts[block * kThreads + threadIdx.x];  // load
  sums[threadIdx.x] = sum;
  if (Plan::kBarrierAfter && threadIdx.x == 0) *counter = 0;  // reset
}

template <class Plan>
gpusim::Report run_merge(std::vector<float>* sums = nullptr) {
  const Buffer<float> parts("parts", kBlocks * kThreads), out("sums", kThreads);
  const auto counter = Buffer<std::uint32_t>::zeros("counter", kBlocks);
  gpusim::Report report = run({kBlocks, kThreads}, merge_parts<Plan>, parts.get(), counter.get(), out.get());
  if (sums != nullptr) {
    *sums = out.host();
    EXPECT_EQ(counter.host()[0], 0u);
  }
  return report;
}

std::string place_of(const std::string& tag) {
  return "grid_order_test.cu:" + std::to_string(line_of(tag, __FILE__));
}

TEST(GridOrder, TheLastBlockMayReadWhatAllHaveReleased) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::vector<float> sums;
    ASSERT_TRUE(is_clean(run_merge<AcqRel>(&sums)));
    EXPECT_EQ(sums, std::vector<float>(kThreads, float(kBlocks)));
    ASSERT_TRUE(is_clean(run_merge<Fences>(&sums)));
    EXPECT_EQ(sums, std::vector<float>(kThreads, float(kBlocks)));
    ASSERT_TRUE(is_clean(run_merge<FencesByAll>(&sums)));
  }
}

/// The only defect of the report is a race between a store and the load, for this reason.
void expect_race(const gpusim::Report& report, const std::string& store, const std::string& reason) {
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kRace);
  EXPECT_TRUE(says(report, " at " + place_of(store) + " and Read access by thread"));
  EXPECT_TRUE(says(report, " at " + place_of("load") + "\n"));
  EXPECT_TRUE(says(report, "of \"parts\": " + reason + "  ["));
}

TEST(GridOrder, AStoreAfterTheArrivalIsNotReleased) {
  expect_race(run_merge<StoresLate>(), "late store",
              "the write comes after its block's arrival at " + place_of("arrive") +
                  ", which releases only what came before");
}

TEST(GridOrder, ARelaxedAtomicOperationReleasesNothing) {
  const gpusim::Report report = run_merge<NoFence>();
  EXPECT_TRUE(says(report, "of \"parts\": the atomic operation at " + place_of("add") +
                               " releases nothing: no __threadfence() before it, and it is not acq_rel  ["));
}

TEST(GridOrder, OnlyAFenceAfterItMakesItAcquire) {
  const gpusim::Report report = run_merge<NoFenceAfter>();
  EXPECT_TRUE(says(report, "of \"parts\": the atomic operation at " + place_of("add") +
                               " does not acquire: no __threadfence() after it, and it is not acq_rel  ["));
}

TEST(GridOrder, TheBlockMergesBeforeAllHaveArrived) {
  const gpusim::Report report = run_merge<LastButOne>();
  EXPECT_TRUE(says(report, "of \"parts\": the block of the read has not seen all arrivals: its own, at " +
                               place_of("arrive") + ", comes before that of the other block  ["));
}

TEST(GridOrder, AnotherCounterOrdersNothing) {
  EXPECT_TRUE(says(
      run_merge<EachAlone>(),
      "of \"parts\": the block of the read does not arrive at the counter of the other block's arrival at " +
          place_of("arrive") + "  ["));
}

TEST(GridOrder, ABarrierHasToComeBeforeTheArrival) {
  expect_race(run_merge<NoBarrierBefore>(), "store",
              "no __syncthreads() between the write and its block's arrival at " + place_of("arrive"));
}

// Block 11 merges whether it is the last to arrive or not: usually it is.
TEST(GridOrder, AndAfterIt) {
  const std::string reason = "of \"parts\": no __syncthreads() between the arrival of its block at " +
                             place_of("arrive") + " and the read  [";
  bool was_last = false;
  for (int attempt = 0; attempt < 20 && !was_last; ++attempt) {
    const gpusim::Report report = run_merge<NoBarrierAfter>();
    was_last = bool(says(report, reason));
    EXPECT_TRUE(was_last || says(report, "of \"parts\": the block of the read has not seen all arrivals: "));
  }
  EXPECT_TRUE(was_last);
}

/// The same for blocks of a warp, with a counter that returns to zero.
template <bool kOrdered>
__global__ void merge_parts_of_warps(float* parts, std::uint32_t* counter, float* sums) {
  parts[blockIdx.x * 32 + threadIdx.x] = 1.0f;  // warp store
  if (kOrdered) __syncwarp();
  std::uint32_t arrival = 0;
  if (threadIdx.x == 0) arrival = ptx::atom_inc_acq_rel(counter, gridDim.x - 1);  // warp arrive
  arrival = __shfl_sync(~0u, arrival, 0);
  if (kOrdered) __syncwarp();
  if (arrival != gridDim.x - 1) return;
  float sum = 0.0f;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += parts[block * 32 + threadIdx.x];
  sums[threadIdx.x] = sum;
}

TEST(GridOrder, ABarrierOfTheWarpIsEnoughForAWarp) {
  const Buffer<float> parts("parts", kBlocks * 32), sums("sums", 32);
  const auto counter = Buffer<std::uint32_t>::zeros("counter", 1);
  const auto run_with = [&](auto* kernel) {
    return run({kBlocks, 32}, kernel, parts.get(), counter.get(), sums.get());
  };
  for (int attempt = 0; attempt < 3; ++attempt) {  // the counter is ready again
    ASSERT_TRUE(is_clean(run_with(merge_parts_of_warps<true>)));
    EXPECT_EQ(sums.host(), std::vector<float>(32, float(kBlocks)));
  }
  EXPECT_TRUE(
      says(run_with(merge_parts_of_warps<false>), "and its block's arrival at " + place_of("warp arrive")));
}

}  // namespace
}  // namespace gpusim_test
