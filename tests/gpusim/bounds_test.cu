/// @file
/// Indices past the end of arrays whose size the compiler knows, which are registers on a GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <string>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

template <int kRows>
__device__ __forceinline__ float sum_of_row(const float (&r)[kRows][4], int row, int cols) {
  float sum = 0.0f;
  for (int i = 0; i < cols; ++i) sum += r[row][i];  // element of a row
  return sum;
}
__global__ void sum_rows(float* out, int cols) {
  float r[2][4] = {};
  out[threadIdx.x] = sum_of_row(r, threadIdx.x % 2, cols);  // its caller
}

TEST(Bounds, TheNextRowOfAnArrayIsNotPartOfThisOne) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, sum_rows, out.get(), 4)));
  const gpusim::Report report = run({2, 32}, sum_rows, out.get(), 5);
  const int line = line_of("element of a row"), caller = line_of("its caller");
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line, caller}, 2 * 32}}));
  EXPECT_TRUE(says(report, "Invalid index 4 at bounds_test.cu:" + std::to_string(line) +
                               " (from bounds_test.cu:" + std::to_string(caller) + ")" +
                               " by thread (0,0,0) in block (0,0,0)\n" +
                               "=========     r[row] has 4 elements, 0 to 3: float [4]  [64 hazards]"));
}

struct Statistics {
  float m[2] = {};
  float l[2] = {};
};
__global__ void last_member(float* out, int half) {
  Statistics row;
  row.m[half] = 1.0f;  // first member
  Statistics* const pointer = &row;
  pointer->l[half + 1] = 2.0f;  // last member
  out[threadIdx.x] = row.m[0] + row.m[1] + row.l[0] + row.l[1];
}

TEST(Bounds, MembersOfAStruct) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, last_member, out.get(), 0)));
  const gpusim::Report last = run({1, 32}, last_member, out.get(), 1);
  EXPECT_EQ(told(last), (Defects{{DefectKind::kOutOfBounds, {line_of("last member")}, 32}}));
  EXPECT_TRUE(says(last, "Invalid index 2 at"));
  EXPECT_TRUE(says(last, "    pointer->l has 2 elements, 0 to 1: float [2]"));
  const gpusim::Report first = run({1, 32}, last_member, out.get(), -1);
  EXPECT_EQ(told(first), (Defects{{DefectKind::kOutOfBounds, {line_of("first member")}, 32}}));
  EXPECT_TRUE(says(first, "Invalid index -1 at"));
  EXPECT_TRUE(says(first, "    row.m has 2 elements, 0 to 1: float [2]"));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"  // clang++ sees it
__global__ void constant_index(float* out) {
  float r[4] = {1.0f, 2.0f, 3.0f, 4.0f};
  constexpr int kLast = 4;
  for (int i = 0; i < 4; ++i) r[i] += out[threadIdx.x];
  out[threadIdx.x] = r[kLast];  // constant index
}
#pragma GCC diagnostic pop

TEST(Bounds, AConstantIndex) {
  GPUSIM_NEEDS_EXACT_ACCESSES();  // and no UBSan, which has a handler of its own
  auto out = Buffer<float>::zeros("out", 32);
  const gpusim::Report report = run({1, 32}, constant_index, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("constant index")}, 32}}));
  EXPECT_TRUE(says(report, "Invalid index 4 at"));
}

__global__ void static_array(float* out, int at) {
  __shared__ float sPartial[4];
  if (threadIdx.x < 4) sPartial[threadIdx.x] = 1.0f;
  __syncwarp();
  out[threadIdx.x] = sPartial[at];  // shared
}

TEST(Bounds, AStaticSharedArray) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, static_array, out.get(), 3)));
  const gpusim::Report report = run({1, 32}, static_array, out.get(), 4);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("shared")}, 32}}));
  EXPECT_TRUE(says(report, "    sPartial has 4 elements, 0 to 3: float [4]"));
}

__global__ void one_behind(float* out) {
  float r[4] = {1.0f, 2.0f, 3.0f, 4.0f};
  float sum = 0.0f;
  for (const float* p = r; p != &r[4]; ++p) sum += *p;
  out[threadIdx.x] = sum;
}

TEST(Bounds, TheAddressBehindTheLastElementIsValid) {
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, one_behind, out.get())));
}

void index_on_the_host(int at) {
  float r[4] = {};
  float* volatile elsewhere = r;
  elsewhere[0] = 1.0f;
  if (r[at] > 0.0f) std::printf("\n");
}

TEST(BoundsDeathTest, HostCodeEnds) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_DEATH(index_on_the_host(4),
               "bounds_test.cu:[0-9]+: error: invalid index 4: r has 4 elements, 0 to 3: float \\[4\\]");
}

}  // namespace
}  // namespace gpusim_test
