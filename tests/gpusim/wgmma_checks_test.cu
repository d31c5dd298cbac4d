/// @file
/// wgmma: what a kernel may not do with accumulators, registers of A, groups, descriptors and shared memory.
#include <cstdint>
#include <string>
#include <vector>

#include "simulator.hpp"
#include "wgmma_ones.cuh"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

template <bool kAdd = false>
__device__ __forceinline__ void multiply(float (&d)[8]) {
  ptx::wgmma<__half, kAdd, false, false>(d, descriptor(0), descriptor(kB));  // multiply
}

template <class... Args>
gpusim::Report report_of(void (*kernel)(float*, Args...), Args... args) {
  const Buffer<float> out("out", 1024 * 8);
  return run({.block = 128, .dynamic_shared_bytes = kBytes}, kernel, out.get(), args...);
}

/// The defects, and the words of the first.
testing::AssertionResult tells(const gpusim::Report& report, DefectKind kind, const std::string& message,
                               std::int64_t count) {
  if (report.defects.size() == 1 && report.defects[0].kind == kind && report.defects[0].message == message &&
      report.defects[0].count == count) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "not only [" << count << "]: " << message << "\n"
                                     << gpusim::format_defects(report);
}

std::string at(const std::string& tag) { return "wgmma_checks_test.cu:" + std::to_string(line_of(tag)); }

/// A product that the function multiply() issues.
std::string issued(const std::string& tag) { return at("multiply") + " (from " + at(tag) + ")"; }

// ---- accumulators -----------------------------------------------------------------------------------------

enum class Use { kAfterWait, kBeforeCommit, kBeforeWait, kAfterLaxWait, kUnnamed, kKeptInPlace, kNamedLater };

__global__ void use_accumulators(float* out, Use use) {
  fill();
  float d[8] = {}, e[8] = {};
  ptx::wgmma_fence();
  multiply(d);                                                 // first product
  if (use == Use::kBeforeCommit) out[8 * threadIdx.x] = d[5];  // before the commit
  ptx::wgmma_commit();
  if (use == Use::kBeforeWait) d[3] = 1.0f;  // before the wait
  if (use == Use::kAfterLaxWait) {
    multiply(e);
    ptx::wgmma_commit();
    multiply<true>(d);  // second product
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>(e);        // lax wait
    out[8 * threadIdx.x] = d[0];  // after the lax wait
  }
  if (use == Use::kUnnamed || use == Use::kKeptInPlace || use == Use::kNamedLater) {
    ptx::wgmma_wait<0>();
    if (use == Use::kKeptInPlace) ptx::keep_in_place(d);
    if (use == Use::kNamedLater) ptx::wgmma_wait<0>(d);
    out[8 * threadIdx.x] = d[0];  // unnamed
  }
  ptx::wgmma_wait<0>(d, e);
  for (int i = 0; i < 8; ++i) out[8 * threadIdx.x + i] = d[i];
}

TEST(WgmmaChecks, AccumulatorsMayBeUsedAfterTheWait) {
  EXPECT_TRUE(is_clean(report_of(use_accumulators, Use::kAfterWait)));
  EXPECT_TRUE(is_clean(report_of(use_accumulators, Use::kKeptInPlace)));
  EXPECT_TRUE(is_clean(report_of(use_accumulators, Use::kNamedLater)));
}

__global__ void add_to_accumulators(float* out, int set) {
  fill();
  float d[8];
  for (int i = 0; i < set; ++i) d[i] = 0.0f;
  ptx::wgmma_fence();
  multiply<true>(d);  // unset
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  for (int i = 0; i < 8; ++i) out[8 * threadIdx.x + i] = d[i];
}

TEST(WgmmaChecks, AccumulatorsThatAreNeverSet) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(is_clean(report_of(add_to_accumulators, 8)));
  for (const int set : {0, 7}) {
    EXPECT_TRUE(
        tells(report_of(add_to_accumulators, set), DefectKind::kUninitializedRead,
              "Uninitialized __local__ memory read of size 4 bytes at " + issued("unset") +
                  " by thread (0,0,0) in block (0,0,0)\n    a local variable has no value yet: nothing has "
                  "written it",
              128));
  }
}

TEST(WgmmaChecks, AccumulatorsOfAGroupThatIsNotCommitted) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(tells(report_of(use_accumulators, Use::kBeforeCommit), DefectKind::kWgmma,
                    "Wgmma error detected. Accumulator d[5] read at " + at("before the commit") +
                        " before the wait, by thread (0,0,0) in block (0,0,0)\n"
                        "    the product was issued at " +
                        issued("first product") + ", and no wgmma_commit() has followed",
                    128));
}

TEST(WgmmaChecks, AccumulatorsBeforeTheWait) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(tells(report_of(use_accumulators, Use::kBeforeWait), DefectKind::kWgmma,
                    "Wgmma error detected. Accumulator d[3] written at " + at("before the wait") +
                        " before the wait, by thread (0,0,0) in block (0,0,0)\n"
                        "    the product was issued at " +
                        issued("first product") + ", and no wgmma_wait() has followed",
                    128));
}

TEST(WgmmaChecks, AccumulatorsThatAWaitLeavesInFlight) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(tells(report_of(use_accumulators, Use::kAfterLaxWait), DefectKind::kWgmma,
                    "Wgmma error detected. Accumulator d[0] read at " + at("after the lax wait") +
                        " before the wait, by thread (96,0,0) in block (0,0,0)\n"
                        "    the product was issued at " +
                        issued("second product") + "; the wgmma_wait() at " + at("lax wait") +
                        " leaves its group in flight",
                    128));
}

TEST(WgmmaChecks, AccumulatorsThatNoWaitNames) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(tells(report_of(use_accumulators, Use::kUnnamed), DefectKind::kWgmma,
                    "Wgmma error detected. Accumulator read at " + at("unnamed") +
                        ", but no wgmma_wait() names it, by thread (96,0,0) in block (0,0,0)\n"
                        "    the product was issued at " +
                        issued("first product") + ": the compiler may move this access above the wait",
                    128));
}

__global__ void name_too_early(float* out) {
  fill();
  float d[8] = {}, e[8] = {};
  ptx::wgmma_fence();
  multiply(d);
  ptx::wgmma_commit();
  multiply(e);  // later product
  ptx::wgmma_commit();
  ptx::wgmma_wait<1>(d, e);  // names both
  ptx::wgmma_wait<0>(d, e);
  out[8 * threadIdx.x] = d[0] + e[0];
}

TEST(WgmmaChecks, AWaitThatNamesAccumulatorsInFlight) {
  EXPECT_TRUE(tells(report_of(name_too_early), DefectKind::kWgmma,
                    "Wgmma error detected. wgmma_wait() at " + at("names both") +
                        " names e, which is still in flight after it, in thread (96,0,0) of block (0,0,0)\n"
                        "    the product was issued at " +
                        issued("later product") + "; the wgmma_wait() at " + at("names both") +
                        " leaves its group in flight",
                    128));
}

/// Several products on the same accumulators need neither a wait nor a fence in between.
__global__ void accumulate(float* out) {
  fill();
  float d[8];
  for (float& x : d) x = 100.0f;
  ptx::wgmma_fence();
  multiply(d);
  for (int i = 0; i < 2; ++i) multiply<true>(d);
  ptx::wgmma_commit();
  multiply<true>(d);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  for (int i = 0; i < 8; ++i) out[8 * threadIdx.x + i] = d[i];
}

TEST(WgmmaChecks, ProductsOnTheSameAccumulatorsFollowEachOther) {
  const Buffer<float> out("out", 128 * 8);
  EXPECT_TRUE(is_clean(run({.block = 128, .dynamic_shared_bytes = kBytes}, accumulate, out.get())));
  EXPECT_EQ(out.host(), std::vector<float>(128 * 8, 64.0f));
}

/// The accumulators are NaN from the issue to the wait.
__global__ void peek(float* out) {
  fill();
  float d[8] = {};
  ptx::wgmma_fence();
  multiply(d);
  ptx::wgmma_commit();
  out[threadIdx.x] = d[0];
  ptx::wgmma_wait<0>(d);
}

TEST(WgmmaChecks, AccumulatorsInFlightAreNaN) {
  const Buffer<float> out("out", 128);
  run({.block = 128, .dynamic_shared_bytes = kBytes}, peek, out.get());
  for (const float x : out.host()) EXPECT_TRUE(x != x);
}

// ---- registers of A ---------------------------------------------------------------------------------------

enum class Operand { kRight, kOverwritten, kRead, kUnfenced, kUnfencedRead };

__global__ void use_operand(float* out, Operand use) {
  fill();
  std::uint32_t a[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
  float d[8];
  ptx::wgmma_fence();
  if (use == Operand::kUnfenced) a[2] = 0x3c003c00u;  // unfenced operand
  if (use == Operand::kUnfencedRead) out[threadIdx.x] = float(a[1]);
  ptx::wgmma<__half, false, false>(d, a, descriptor(kB));  // product with registers
  ptx::wgmma<__half, true, false>(d, a, descriptor(kB));
  ptx::wgmma_commit();
  if (use == Operand::kOverwritten) a[1] = 0;                 // overwritten operand
  if (use == Operand::kRead) out[threadIdx.x] = float(a[3]);  // operand in use
  ptx::wgmma_wait<0>(d);
  a[0] = 0;
  out[threadIdx.x] = d[0] + float(a[0]);
}

TEST(WgmmaChecks, RegistersOfA) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(is_clean(report_of(use_operand, Operand::kRight)));
  EXPECT_TRUE(is_clean(report_of(use_operand, Operand::kUnfencedRead)));  // reads do not matter
  EXPECT_TRUE(says(report_of(use_operand, Operand::kOverwritten),
                   "Wgmma error detected. Register a[1] of A written at " + at("overwritten operand") +
                       " before the wait, by thread (0,0,0) in block (0,0,0)\n" +
                       "=========     the product was issued at "));
  EXPECT_TRUE(
      says(report_of(use_operand, Operand::kRead), "Register a[3] of A read at " + at("operand in use")));
  EXPECT_TRUE(tells(report_of(use_operand, Operand::kUnfenced), DefectKind::kWgmma,
                    "Wgmma error detected. No wgmma_fence() between the write of register a[2] of A at " +
                        at("unfenced operand") + " and the product at " + at("product with registers") +
                        ", by thread (0,0,0) in block (0,0,0)",
                    128));
}

// ---- wgmma_fence ------------------------------------------------------------------------------------------

enum class Fence { kRight, kNone, kWrite, kRead, kSecondWithout, kOverwrites };

__global__ void forget_fence(float* out, Fence fence) {
  fill();
  float d[8] = {};
  if (fence != Fence::kNone) ptx::wgmma_fence();
  if (fence == Fence::kWrite) d[7] = 2.0f;             // write after the fence
  if (fence == Fence::kRead) out[threadIdx.x] = d[6];  // read after the fence
  multiply<true>(d);                                   // product
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  if (fence == Fence::kOverwrites) {
    out[threadIdx.x] = d[2];
    multiply(d);
  } else if (fence != Fence::kSecondWithout) {
    d[1] *= 0.5f;
    ptx::wgmma_fence();
  } else {
    d[1] *= 0.5f;  // scales
  }
  multiply<true>(d);  // product after scaling
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  out[threadIdx.x] = d[0];
}

TEST(WgmmaChecks, WhatOtherInstructionsHaveWrittenNeedsAFence) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(is_clean(report_of(forget_fence, Fence::kRight)));
  EXPECT_TRUE(is_clean(report_of(forget_fence, Fence::kOverwrites)));  // does not need what it overwrites
  EXPECT_TRUE(
      says(report_of(forget_fence, Fence::kNone),
           "Wgmma error detected. No wgmma_fence() before the first product of warp 0 in block (0,0,0), at " +
               issued("product")));
  EXPECT_TRUE(tells(report_of(forget_fence, Fence::kWrite), DefectKind::kWgmma,
                    "Wgmma error detected. No wgmma_fence() between the write of accumulator d[7] at " +
                        at("write after the fence") + " and the product at " + issued("product") +
                        ", by thread (0,0,0) in block (0,0,0)",
                    128));
  EXPECT_TRUE(says(report_of(forget_fence, Fence::kRead),
                   "between the read of accumulator d[6] at " + at("read after the fence")));
  EXPECT_TRUE(says(report_of(forget_fence, Fence::kSecondWithout),
                   "between the write of accumulator d[1] at " + at("scales") + " and the product at " +
                       issued("product after scaling")));
}

// ---- groups -----------------------------------------------------------------------------------------------

__global__ void end_early(float* out, bool commits) {
  fill();
  float d[8];
  ptx::wgmma_fence();
  multiply(d);  // abandoned product
  if (commits) ptx::wgmma_commit();
  out[threadIdx.x] = 0.0f;
}

TEST(WgmmaChecks, AKernelThatEndsBeforeItsProducts) {
  EXPECT_TRUE(tells(report_of(end_early, true), DefectKind::kWgmma,
                    "Wgmma error detected. Warp 0 of block (0,0,0) ends while a product is in flight\n"
                    "    it was issued at " +
                        issued("abandoned product") + ", and no wgmma_wait() covers its group",
                    4));
  EXPECT_TRUE(tells(report_of(end_early, false), DefectKind::kWgmma,
                    "Wgmma error detected. Warp 0 of block (0,0,0) ends while a product is in flight\n"
                    "    it was issued at " +
                        issued("abandoned product") + ", and no wgmma_commit() has followed",
                    4));
  EXPECT_TRUE(is_clean(report_of(accumulate)));  // the next block begins anew
}

// ---- the warpgroup ----------------------------------------------------------------------------------------

enum class Warpgroup { kTogether, kLaneMissing, kWarpMissing, kWarpReturns, kOtherPlace, kOtherB };

__global__ void diverge(float* out, Warpgroup how) {
  fill();
  const int warp = threadIdx.x / 32;
  float d[8] = {};
  ptx::wgmma_fence();
  if (how == Warpgroup::kWarpReturns && warp == 2) return;
  if (how == Warpgroup::kOtherPlace && warp == 1) {
    multiply(d);  // elsewhere
  } else if (how == Warpgroup::kOtherB && warp == 3) {
    ptx::wgmma<__half, false, false, false>(d, descriptor(0), descriptor(0));
  } else if ((how != Warpgroup::kWarpMissing || warp != 3) &&
             (how != Warpgroup::kLaneMissing || threadIdx.x != 40)) {
    multiply(d);  // together
  }
  ptx::wgmma_commit();    // commits
  ptx::wgmma_wait<0>(d);  // waits
  __syncthreads();        // barrier
  out[threadIdx.x] = d[0];
}

TEST(WgmmaChecks, AllThreadsOfAWarpgroupExecuteTheSame) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(is_clean(report_of(diverge, Warpgroup::kTogether)));
  EXPECT_TRUE(tells(
      report_of(diverge, Warpgroup::kLaneMissing), DefectKind::kBarrierDivergence,
      "Barrier error detected. Divergent thread(s) in warp 1 of block (0,0,0): 31 of 32 threads named in "
      "mask 0xffffffff reached wgmma() at " +
          issued("together") +
          "\n    lanes 0 to 7 and 9 to 31 wait there\n    lane 8 waits in wgmma_commit() at " + at("commits"),
      1));
  EXPECT_TRUE(tells(report_of(diverge, Warpgroup::kWarpMissing), DefectKind::kWgmma,
                    "Wgmma error detected. The warps of warpgroup 0 in block (0,0,0) do not execute the same "
                    "instructions\n    warp 0 executes wgmma() at " +
                        issued("together") + ", and warp 3 executes wgmma_commit() at " + at("commits"),
                    1));
  EXPECT_TRUE(tells(report_of(diverge, Warpgroup::kOtherPlace), DefectKind::kWgmma,
                    "Wgmma error detected. The warps of warpgroup 0 in block (0,0,0) do not execute the same "
                    "instructions\n    warp 0 executes wgmma() at " +
                        issued("together") + ", and warp 1 executes wgmma() at " + issued("elsewhere"),
                    1));
}

TEST(WgmmaChecks, AWarpThatReturns) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(
      tells(report_of(diverge, Warpgroup::kWarpReturns), DefectKind::kBarrierDivergence,
            "Barrier error detected. Divergent thread(s) in warpgroup 0 of block (0,0,0): 96 of 128 threads "
            "reached wgmma() at " +
                issued("together") +
                "\n    threads 0 to 63 and 96 to 127 have executed it\n    threads 64 to 95 have returned",
            1));
}

TEST(WgmmaChecks, AllThreadsOfAWarpgroupSayTheSame) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(says(report_of(diverge, Warpgroup::kOtherB), "do not execute the same instructions"));
}

__global__ void vary_descriptor(float* out) {
  fill();
  float d[8];
  ptx::wgmma_fence();
  const std::uint64_t b = descriptor(threadIdx.x == 70 ? 0 : kB);
  ptx::wgmma<__half, false, false, false>(d, descriptor(0), b);  // varies
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  out[threadIdx.x] = d[0];
}

TEST(WgmmaChecks, AllThreadsOfAWarpgroupHaveTheSameDescriptor) {
  const gpusim::Report report = report_of(vary_descriptor);
  EXPECT_TRUE(
      says(report,
           "Wgmma error detected. The threads of a warpgroup in block (0,0,0) issue different products at " +
               at("varies") + "\n=========     the descriptor of B is 0x"));
  EXPECT_TRUE(says(report, " in thread (64,0,0), and 0x"));
  EXPECT_TRUE(says(report, " in thread (70,0,0)  [1 hazard]"));
}

TEST(WgmmaChecks, NeedsFourWarps) {
  const Buffer<float> out("out", 128 * 8);
  const auto report =
      run({.block = 192, .dynamic_shared_bytes = kBytes}, diverge, out.get(), Warpgroup::kTogether);
  EXPECT_TRUE(says(report, "wgmma_fence() at "));
  EXPECT_TRUE(says(report,
                   " needs a warpgroup of 128 threads: warp 4 of block (0,0,0) belongs to none\n"
                   "=========     the block has 192 threads"));
}

/// Warpgroups do not wait for each other, and the warps of one wait only at the wait.
__global__ void two_warpgroups(float* out) {
  fill();
  float d[8];
  ptx::wgmma_fence();
  if (threadIdx.x < 128) {
    multiply(d);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(d);
  } else {
    multiply(d);
    for (int i = 0; i < 2; ++i) multiply<true>(d);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(d);
  }
  out[threadIdx.x] = d[0];
}

TEST(WgmmaChecks, WarpgroupsAreIndependent) {
  const Buffer<float> out("out", 256);
  EXPECT_TRUE(is_clean(run({.block = 256, .dynamic_shared_bytes = kBytes}, two_warpgroups, out.get())));
  EXPECT_EQ(out.host()[127], 16.0f);
  EXPECT_EQ(out.host()[128], 48.0f);
}

// ---- descriptors ------------------------------------------------------------------------------------------

__global__ void describe(float* out, int start, int leading, int stride) {
  fill();
  float d[8];
  ptx::wgmma_fence();
  ptx::wgmma<__half, false, false, false>(d, descriptor(0), descriptor(start, leading, stride));  // describes
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  out[threadIdx.x] = d[0];
}

TEST(WgmmaChecks, DescriptorsThatReachTooFar) {
  EXPECT_TRUE(is_clean(report_of(describe, kBytes - 512, 128, 256)));
  EXPECT_TRUE(tells(report_of(describe, kBytes - 256, 128, 256), DefectKind::kWgmma,
                    "Wgmma error detected. The descriptor of B at " + at("describes") +
                        " reaches outside of its array, in block (0,0,0)\n"
                        "    B[0][8] is 0 bytes after the end of \"smem\" (4096 bytes)",
                    1));
  EXPECT_TRUE(says(report_of(describe, 0, 128, 4096), "B[0][8] is 0 bytes after the end of \"smem\""));
  EXPECT_TRUE(says(report_of(describe, 0, 8192, 256), "B[8][0] is 4096 bytes after the end of \"smem\""));
  EXPECT_TRUE(says(report_of(describe, -1024, 128, 256),
                   "The descriptor of B at " + at("describes") + " begins outside of shared memory"));
}

// ---- shared memory ----------------------------------------------------------------------------------------

enum class Shared { kRight, kUnwritten, kNoFence, kOverwritten, kOverwrittenLater };

__global__ void use_shared(float* out, Shared use) {
  auto* const words = reinterpret_cast<std::uint32_t*>(smem);
  for (int i = threadIdx.x; i < kBytes / 4; i += blockDim.x) {
    if (use != Shared::kUnwritten || i != kB / 4 + 5) words[i] = 0x3c003c00u;  // fills
  }
  if (use != Shared::kNoFence) ptx::fence_proxy_async();
  __syncthreads();
  float d[8];
  ptx::wgmma_fence();
  multiply(d);  // reads shared memory
  ptx::wgmma_commit();
  if (use == Shared::kOverwritten) words[kB / 4 + threadIdx.x] = 0;  // overwrites
  ptx::wgmma_wait<0>(d);
  __syncthreads();
  if (use == Shared::kOverwrittenLater) words[kB / 4 + threadIdx.x] = 0;
  out[threadIdx.x] = d[0];
}

TEST(WgmmaChecks, SharedMemoryMustBeVisibleAndStay) {
  EXPECT_TRUE(is_clean(report_of(use_shared, Shared::kRight)));
  EXPECT_TRUE(is_clean(report_of(use_shared, Shared::kOverwrittenLater)));
  gpusim::Report report = report_of(use_shared, Shared::kUnwritten);
  EXPECT_TRUE(says(report, "Uninitialized __shared__ memory read of size"));
  EXPECT_TRUE(says(report, issued("reads shared memory")));
  report = report_of(use_shared, Shared::kNoFence);
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kMissingFence);
  EXPECT_TRUE(says(report, issued("reads shared memory")));
  EXPECT_TRUE(says(report, at("fills")));
  report = report_of(use_shared, Shared::kOverwritten);
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kRace);
  EXPECT_TRUE(says(report, issued("reads shared memory")));
  EXPECT_TRUE(says(report, at("overwrites")));
}

}  // namespace
}  // namespace gpusim_test
