/// @file
/// wgmma: for whom a wait speaks, and waits for products that nobody needs yet.
#include <cstdint>
#include <map>
#include <string>

#include "simulator.hpp"
#include "wgmma_ones.cuh"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

template <bool kAdd = false>
__device__ __forceinline__ void multiply(float (&d)[8]) {
  ptx::wgmma<__half, kAdd, false, false>(d, descriptor(0), descriptor(kB));
  ptx::wgmma_commit();
}

template <class... Args>
gpusim::Report report_of(void (*kernel)(float*, Args...), Args... args) {
  const Buffer<float> out("out", 128);
  return run({.block = 128, .dynamic_shared_bytes = kBytes}, kernel, out.get(), args...);
}

// ---- the other warps --------------------------------------------------------------------------------------

/// Each warp overwrites 16 rows of A.
__global__ void overwrite_a(float* out, bool barrier) {
  fill();
  float d[8];
  ptx::wgmma_fence();
  multiply(d);
  ptx::wgmma_wait<0>(d);
  if (barrier) ptx::barrier_sync(1, 128);
  for (int i = 0; i < 4; ++i) reinterpret_cast<std::uint32_t*>(smem)[4 * threadIdx.x + i] = 0;  // overwrite
  out[threadIdx.x] = d[0];
}

TEST(WgmmaWaits, AWaitSpeaksForItsOwnWarp) {
  EXPECT_TRUE(is_clean(report_of(overwrite_a, true)));
  const gpusim::Report report = report_of(overwrite_a, false);
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kRace);
  EXPECT_TRUE(says(report, "wgmma_waits_test.cu:" + std::to_string(line_of("overwrite"))));
  EXPECT_TRUE(says(report, "the product may still be reading: no "));
}

// ---- arrivals beside products -----------------------------------------------------------------------------

__global__ void release(float* out, bool early) {
  __shared__ std::uint64_t empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&empty, 128);
    ptx::fence_mbarrier_init();
  }
  fill();
  float d[8];
  ptx::wgmma_fence();
  multiply(d);
  if (early) ptx::mbarrier_arrive(&empty);
  ptx::wgmma_wait<0>(d);
  if (!early) ptx::mbarrier_arrive(&empty);
  out[threadIdx.x] = d[0];
}

TEST(WgmmaWaits, ArrivalsBesideProductsAreCounted) {
  for (const bool early : {true, false}) {
    const gpusim::Report report = report_of(release, early);
    EXPECT_TRUE(is_clean(report));
    EXPECT_EQ(report.ops.mbarrier_arrivals, 4);
    EXPECT_EQ(report.ops.arrivals_beside_products, early ? 4 : 0);
  }
}

/// A stage is released after this many votes.
__global__ void release_late(float* out, int steps) {
  __shared__ std::uint64_t empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&empty, 128);
    ptx::fence_mbarrier_init();
  }
  fill();
  out[threadIdx.x] = float(__any_sync(~0u, threadIdx.x == 0));  // before the product: no step
  float d[8];
  ptx::wgmma_fence();
  multiply(d);
  ptx::wgmma_wait<0>(d);
  for (int i = 0; i < steps; ++i) out[threadIdx.x] = float(__any_sync(~0u, d[i] > 0));
  ptx::mbarrier_arrive(&empty);
  ptx::barrier_sync(1, 128);  // after the arrival: no step
}

TEST(WgmmaWaits, StepsBeforeArrivalsAreCounted) {
  for (const int steps : {0, 1, 3}) {
    const gpusim::Report report = report_of(release_late, steps);
    EXPECT_TRUE(is_clean(report));
    EXPECT_EQ(report.ops.steps_before_arrivals, 4 * steps);
  }
}

// ---- waits that come too early ----------------------------------------------------------------------------

enum class Wait { kRight, kStrict, kStrictAndUsed, kStrictBeforeProduct, kOneByOne };

__global__ void two_groups(float* out, Wait how) {
  fill();
  float d[8], e[8];
  ptx::wgmma_fence();
  multiply(d);
  if (how == Wait::kOneByOne) ptx::wgmma_wait<0>(d);
  multiply(e);
  if (how == Wait::kRight) {
    ptx::wgmma_wait<1>(d);
  } else {
    ptx::wgmma_wait<0>(d, e);  // strict
  }
  out[threadIdx.x] = d[0];
  if (how == Wait::kStrictAndUsed) out[threadIdx.x] += e[0];
  if (how == Wait::kStrictBeforeProduct) {
    multiply(d);
    ptx::wgmma_wait<0>(d);
    ptx::wgmma_fence();
    multiply<true>(e);
  }
  ptx::wgmma_wait<0>(e);
  if (how != Wait::kStrictBeforeProduct) out[threadIdx.x] += e[0];
}

TEST(WgmmaWaits, GroupsThatALaterWaitWouldHaveCovered) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto over_waited = [](Wait how) {
    const gpusim::Report report = report_of(two_groups, how);
    EXPECT_TRUE(is_clean(report));
    std::map<std::string, std::int64_t> waits;
    if (report.ops.over_waited != 0)
      waits["wgmma_waits_test.cu:" + std::to_string(line_of("strict"))] = report.ops.over_waited;
    EXPECT_EQ(report.early_waits, waits);
    return report.ops.over_waited;
  };
  EXPECT_EQ(over_waited(Wait::kRight), 0);
  EXPECT_EQ(over_waited(Wait::kStrict), 4) << "once for each warp";
  EXPECT_EQ(over_waited(Wait::kStrictAndUsed), 0) << "the second group is used before the next wait";
  EXPECT_EQ(over_waited(Wait::kStrictBeforeProduct), 4) << "a product uses the second group";
  EXPECT_EQ(over_waited(Wait::kOneByOne), 0) << "each wait finishes one group";
}

// ---- what a warp does meanwhile ---------------------------------------------------------------------------

/// Of the three loads, atomic additions and stores of each warp after the product, the first `beside` come
/// before its wait.
__global__ void accesses_around_a_wait(float* out, int beside) {
  fill();
  float d[8];
  ptx::wgmma_fence();
  multiply(d);
  float x = 0;
  for (int n = 0; n < 3; ++n) {
    if (n == beside) ptx::wgmma_wait<0>(d);
    if (n == 0) x = out[threadIdx.x];
    if (n == 1) atomicAdd(&out[threadIdx.x], x);
    if (n == 2) reinterpret_cast<volatile float*>(smem)[kBytes / 4 + threadIdx.x] = x;
  }
  if (beside == 3) ptx::wgmma_wait<0>(d);
}

TEST(WgmmaWaits, CountsAccessesOfWarpsWithAProductInFlight) {
  const Buffer<float> out = Buffer<float>::zeros("out", 128);
  for (int beside = 0; beside <= 3; ++beside) {
    const gpusim::Report report =
        run({.block = 128, .dynamic_shared_bytes = kBytes + 512}, accesses_around_a_wait, out.get(), beside);
    ASSERT_TRUE(is_clean(report)) << beside;
    EXPECT_EQ(report.ops.accesses_beside_products, 4 * beside) << beside;
  }
}

}  // namespace
}  // namespace gpusim_test
