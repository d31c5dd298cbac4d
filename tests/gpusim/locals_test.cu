/// @file
/// Local variables that are read before anything has written them.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "simulator.hpp"

// They are not set, and that is the point.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

testing::AssertionResult finds(const gpusim::Report& report, const std::string& tag, std::int64_t count) {
  if (told(report) != Defects{{DefectKind::kUninitializedRead, {line_of(tag)}, count}})
    return testing::AssertionFailure() << gpusim::format_defects(report);
  return says(report, "Uninitialized __local__ memory read of size 4 bytes at locals_test.cu:" +
                          std::to_string(line_of(tag)) +
                          " by thread (0,0,0) in block (0,0,0)\n"
                          "=========     a local variable has no value yet: nothing has written it");
}

// ---- what is found ----------------------------------------------------------------------------------------

/// @param set  how many of the accumulators are set
__global__ void sums(const float* x, float* y, int n, int set) {
  float acc[4];
  for (int j = 0; j < set; ++j) acc[j] = 0.0f;
  for (int i = int(threadIdx.x); i < n; i += 32) {
    for (int j = 0; j < 4; ++j) acc[j] += x[i * 4 + j];  // sum
  }
  for (int j = 0; j < 4; ++j) y[threadIdx.x * 4 + unsigned(j)] = acc[j];
}

TEST(Locals, AccumulatorsThatAreNeverSet) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", std::vector<float>(4 * 96, 1.0f));
  const Buffer<float> y("y", 128);
  for (int launch = 0; launch < 3; ++launch) {
    EXPECT_TRUE(is_clean(run({1, 32}, sums, x.get(), y.get(), 96, 4)));
    EXPECT_EQ(y.host(), std::vector<float>(128, 3.0f));
    EXPECT_TRUE(finds(run({1, 32}, sums, x.get(), y.get(), 96, 0), "sum", 32)) << "launch " << launch;
    EXPECT_TRUE(std::isnan(y.host()[0])) << "it shows in the result as well";
  }
}

TEST(Locals, AccumulatorsThatAreSetInPart) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", std::vector<float>(4 * 96, 1.0f));
  const Buffer<float> y("y", 128);
  EXPECT_TRUE(finds(run({1, 32}, sums, x.get(), y.get(), 96, 3), "sum", 32));
}

/// A number, not an array.
__global__ void sum_of_a_row(const float* x, float* y, int n) {
  float sum;
  for (int i = int(threadIdx.x); i < n; i += 32) sum += x[i];  // one number
  y[threadIdx.x] = sum;
}

TEST(Locals, ANumberThatIsNeverSet) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", std::vector<float>(96, 1.0f));
  const Buffer<float> y("y", 32);
  EXPECT_TRUE(finds(run({1, 32}, sum_of_a_row, x.get(), y.get(), 96), "one number", 32));
}

TEST(Locals, InEveryBlockAndAfterAnotherKernel) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", std::vector<float>(4 * 96, 1.0f));
  const Buffer<float> y("y", 128);
  EXPECT_TRUE(is_clean(run({1, 32}, sums, x.get(), y.get(), 0, 4)));
  gpusim::Report report = run({8, 32}, sums, x.get(), y.get(), 96, 0);
  std::erase_if(report.defects, [](const gpusim::Defect& d) { return d.kind == DefectKind::kRace; });
  EXPECT_TRUE(finds(report, "sum", 8 * 32));
}

__global__ void largest(const float* x, float* y) {
  float scores[8];
  if (threadIdx.x != 3) {
    for (int i = 0; i < 8; ++i) scores[i] = x[i];
  }
  float most = scores[0];
  for (int i = 1; i < 8; ++i) most = fmaxf(most, scores[i]);  // largest
  y[threadIdx.x] = most;
}
__global__ void compare(const float* x, float* y) {
  float scores[8];
  for (int i = 0; i < 7; ++i) scores[i] = x[i];
  int least = 0;
  for (int i = 1; i < 8; ++i) {
    if (scores[i] < scores[least]) least = i;  // comparison
  }
  y[threadIdx.x] = x[least];
}
__global__ void exponentials(const float* x, float* y) {
  float scores[8];
  for (int i = 0; i < 7; ++i) scores[i] = x[i];
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += expf(scores[i]);  // exponential
  y[threadIdx.x] = sum;
}

TEST(Locals, ThatFunctionsOfTheLibraryUse) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", std::vector<float>(8, 1.0f));
  const Buffer<float> y("y", 32);
  const gpusim::Report report = run({1, 32}, largest, x.get(), y.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kUninitializedRead, {line_of("largest")}, 1}}));
  EXPECT_TRUE(says(report, " by thread (3,0,0) in block (0,0,0)"));
  EXPECT_TRUE(finds(run({1, 32}, compare, x.get(), y.get()), "comparison", 32));
  EXPECT_TRUE(finds(run({1, 32}, exponentials, x.get(), y.get()), "exponential", 32));
}

struct State {
  float most, sum;
};
__global__ void in_a_struct(const float* x, float* y) {
  State states[2];
  for (State& s : states) s.most = x[0];
  for (int i = 0; i < 8; ++i) {
    for (State& s : states) s.sum += x[i];  // member
  }
  y[threadIdx.x] = states[0].sum + states[1].most;
}
__global__ void of_16_bits(const __nv_bfloat16* x, float* y) {
  __nv_bfloat16 kept[8];
  for (int i = 0; i < 7; ++i) kept[i] = x[i];
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += __bfloat162float(kept[i]);  // bfloat16
  y[threadIdx.x] = sum;
}

TEST(Locals, MembersAnd16BitNumbers) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> x("x", std::vector<float>(8, 1.0f));
  const Buffer<__nv_bfloat16> b("b", std::vector<__nv_bfloat16>(8, __float2bfloat16(1.0f)));
  const Buffer<float> y("y", 32);
  EXPECT_TRUE(finds(run({1, 32}, in_a_struct, x.get(), y.get()), "member", 32));
  EXPECT_TRUE(finds(run({1, 32}, of_16_bits, b.get(), y.get()), "bfloat16", 32));
}

// ---- what is not reported ---------------------------------------------------------------------------------

__global__ void invalid_operations(const float* x, float* y) {
  const float infinite = x[0], nan = x[1], zero = x[2];
  float results[6];
  results[0] = infinite - infinite;
  results[1] = zero * infinite;
  results[2] = zero / zero;
  results[3] = sqrtf(zero - 1.0f);
  results[4] = nan < zero ? 1.0f : 2.0f;
  results[5] = float(int(nan)) + fmaxf(nan, zero);
  for (int i = 0; i < 6; ++i) y[6 * threadIdx.x + unsigned(i)] = results[i];
}

TEST(Locals, InvalidOperationsAreNone) {
  const float infinite = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const Buffer<float> x("x", std::vector<float>{infinite, nan, 0.0f});
  const Buffer<float> y("y", 6 * 128);
  EXPECT_TRUE(is_clean(run({1, 128}, invalid_operations, x.get(), y.get())));
  const std::vector<float> result = y.host();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(result[i])) << i;
  EXPECT_EQ(result[4], 2.0f);
}

__global__ void signalling(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] + 1.0f; }

TEST(Locals, OtherSignallingNaNsAreNone) {
  std::vector<float> values(32);
  for (std::uint32_t i = 0; i < 32; ++i) values[i] = __uint_as_float(0x7f800001u + i);
  const Buffer<float> x("x", values);
  const Buffer<float> y("y", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, signalling, x.get(), y.get())));
}

__global__ void some_lanes_only(const float* x, float* y, int n) {
  float kept[4];
  const bool inside = int(threadIdx.x) < n;
  if (inside) {
    for (int i = 0; i < 4; ++i) kept[i] = x[i];
  }
  __syncthreads();
  float copy[4];
  for (int i = 0; i < 4; ++i) copy[i] = kept[i];  // a copy computes nothing
  if (inside) y[threadIdx.x] = copy[0] + copy[3];
}

TEST(Locals, CopiesOfWhatNobodyUses) {
  const Buffer<float> x("x", std::vector<float>(4, 1.0f));
  const Buffer<float> y("y", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, some_lanes_only, x.get(), y.get(), 7)));
}

}  // namespace
}  // namespace gpusim_test
