/// @file
/// Reports name the arrays that kernels make of their shared memory.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <string>

#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ float4 pieces[];
extern __shared__ float smem[];

namespace {

constexpr int kRows = 4, kStride = 33;

/// Reads element `at` of one of three arrays in dynamic memory, all of them unwritten.
template <class T, int kFirst>
__global__ void three_arrays(float* out, int which, int at) {
  T* sQ = reinterpret_cast<T*>(pieces);
  T* sK = sQ + kFirst;
  float* sS = reinterpret_cast<float*>(sK + kRows * 2 * kStride);
  float* sRow = sS + threadIdx.x / 8 * kStride;  // not an array of its own: thread 0's begins where sS does
  float value = 0.0f;
  if (which == 0) value = float(sQ[at]);
  if (which == 1) value = float(sK[at]);
  if (which == 2) value = sS[at];
  if (which == 3) value = sRow[at];
  out[threadIdx.x] = value;
}

TEST(Arrays, PointersIntoDynamicMemory) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  const Launch launch{1, 1, 4096};
  EXPECT_TRUE(says(run(launch, three_arrays<float, 64>, out.get(), 0, 5),
                   "address is sQ[5] (byte 20 of \"pieces\"), which nothing has written"));
  EXPECT_TRUE(
      says(run(launch, three_arrays<float, 64>, out.get(), 1, 7), "is sK[7] (byte 284 of \"pieces\")"));
  EXPECT_TRUE(
      says(run(launch, three_arrays<float, 100>, out.get(), 1, 7), "is sK[7] (byte 428 of \"pieces\")"))
      << "in each instance of the template at its own place";
  EXPECT_TRUE(
      says(run(launch, three_arrays<float, 64>, out.get(), 2, 34), "is sS[34] (byte 1448 of \"pieces\")"));
  EXPECT_TRUE(
      says(run(launch, three_arrays<float, 64>, out.get(), 3, 2), "is sS[2] (byte 1320 of \"pieces\")"));
  EXPECT_TRUE(
      says(run(launch, three_arrays<float, 64>, out.get(), 0, 65), "is sK[1] (byte 260 of \"pieces\")"))
      << "whatever the pointer that was used";
  EXPECT_TRUE(says(run(launch, three_arrays<__nv_bfloat16, 64>, out.get(), 1, 7),
                   "is sK[7] (byte 142 of \"pieces\")"));
}

TEST(Arrays, PastTheEndThereIsNone) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(says(run({1, 1, 4096}, three_arrays<float, 64>, out.get(), 2, 1000),
                   "address is 1216 bytes after the end of \"pieces\" (4096 bytes)"));
}

__global__ void race_in_array(float* out) {
  float* sFirst = reinterpret_cast<float*>(pieces);
  float* sSecond = sFirst + 32;
  sFirst[threadIdx.x] = 0.0f;
  sSecond[threadIdx.x] = 1.0f;
  out[threadIdx.x] = sSecond[threadIdx.x ^ 1];
}

TEST(Arrays, InRaces) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(says(run({1, 32, 256}, race_in_array, out.get()),
                   "shared memory, sSecond[1] (byte 132 of \"pieces\") in block (0,0,0): no __syncwarp()"));
}

__global__ void array_of_each_warp(float* out) {
  float* sP = reinterpret_cast<float*>(pieces) + 8 + threadIdx.x / 32 * 16;
  if (threadIdx.x == 32) out[0] = sP[3];
}

TEST(Arrays, ThatWarpsHaveThemselves) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(says(run({1, 64, 256}, array_of_each_warp, out.get()),
                   "sP[19] of thread (0,0,0) (byte 108 of \"pieces\")"));
}

struct Tiles {
  float *k, *v;
  __device__ __forceinline__ explicit Tiles(float4* memory) {
    k = reinterpret_cast<float*>(memory);
    v = k + 48;
  }
};
__global__ void arrays_in_a_struct(float* out, int at) {
  const Tiles s(pieces);
  out[0] = s.k[at];
}

__global__ void array_and_struct(float* out) {
  float* sQ = reinterpret_cast<float*>(pieces) + threadIdx.x * 4;
  float* sRow = sQ + threadIdx.x;  // a part of sQ
  float4* sTiles = pieces + 8;
  const Tiles s(sTiles);
  if (threadIdx.x == 0) out[0] = sRow[3];
  if (threadIdx.x == 1) out[1] = s.k[1];
}

TEST(Arrays, ThatAreMadeOfAnotherKeepItsName) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run({1, 2, 512}, array_and_struct, out.get());
  EXPECT_TRUE(says(report, "is sQ[3] of thread (0,0,0) (byte 12 of \"pieces\")"));
  EXPECT_TRUE(says(report, "is sTiles[0] (byte 132 of \"pieces\")"));
}

TEST(Arrays, InAStruct) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(
      says(run({1, 1, 256}, arrays_in_a_struct, out.get(), 47), "is s.k[47] (byte 188 of \"pieces\")"));
  EXPECT_TRUE(
      says(run({1, 1, 256}, arrays_in_a_struct, out.get(), 50), "is s.v[2] (byte 200 of \"pieces\")"));
}

__global__ void same_place_twice(float* out) {
  float* sQ = reinterpret_cast<float*>(pieces);
  float* sK = sQ;  // overwrites it
  out[0] = sQ[1] + sK[2];
}

TEST(Arrays, ThatShareTheirPlace) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(
      says(run({1, 1, 256}, same_place_twice, out.get()), "is sQ[1] or sK[1] (byte 4 of \"pieces\")"));
}

__global__ void place_of_a_parameter(float* out, int size) {
  float* sQ = reinterpret_cast<float*>(pieces);
  float* sK = sQ + size;
  out[0] = sQ[1] + sK[2];
}

struct Sizes {
  int q, k;
};
__global__ void place_of_a_member(float* out, Sizes sizes) {
  float* sQ = reinterpret_cast<float*>(pieces);
  float* sK = sQ + sizes.q;
  out[0] = sQ[1] + sK[2];
}

TEST(Arrays, WhosePlaceIsNotAConstantHaveNoNames) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(
      says(run({1, 1, 256}, place_of_a_member, out.get(), Sizes{8, 8}), "address is byte 4 of \"pieces\","));
  EXPECT_TRUE(says(run({1, 1, 256}, place_of_a_parameter, out.get(), 8), "address is byte 4 of \"pieces\","));
}

__shared__ double totals[4];
__global__ void array_outside_of_functions(float* out, int at) {
  double local[4] = {};
  local[at] = totals[at];
  out[0] = float(local[at]);
  if (at < 0) totals[0] = 1.0;
}

TEST(Arrays, OutsideOfFunctions) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(
      says(run({1, 1}, array_outside_of_functions, out.get(), 3), "is totals[3] (byte 24 of \"totals\")"));
}

__global__ void one_dynamic_array(float* out, int at) { out[0] = smem[at]; }

TEST(Arrays, DynamicMemoryAsOneArray) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(says(run({1, 1, 64}, one_dynamic_array, out.get(), 3), "is smem[3] (byte 12 of \"smem\")"));
}

struct MaxSum {
  float m, l;
};
__global__ void static_arrays(float* out, int at) {
  __shared__ float tile[3][5];
  __shared__ MaxSum partials[4];
  if (at < 0) partials[0].m = tile[0][0] = 1.0f;  // the compiler knows the value of what nothing writes
  const float* first = &tile[0][0];
  out[0] = at < 15 ? first[at] : partials[at - 15].l;
}

TEST(Arrays, StaticOnesHaveAllTheirIndices) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(says(run({1, 1}, static_arrays, out.get(), 13), "address is tile[2][3] (byte 52 of \"tile\")"));
  EXPECT_TRUE(
      says(run({1, 1}, static_arrays, out.get(), 17), "address is partials[2] (byte 20 of \"partials\")"));
}

}  // namespace
}  // namespace gpusim_test
