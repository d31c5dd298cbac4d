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
                   "sP[3] of thread (32,0,0) (byte 108 of \"pieces\")"));
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

enum class Room : char { kNone, kSome = 8 };
__global__ void place_of_a_parameter(float* out, int rows, Room room) {
  float* sQ = reinterpret_cast<float*>(pieces);
  float* sK = sQ + (rows * 4 + int(room));
  float* sP = sK + rows * 4 + threadIdx.x / 32 * rows;
  if (threadIdx.x == 0) out[0] = sQ[1];
  if (threadIdx.x == 0) out[0] += sK[2];
  if (threadIdx.x == 33) out[1] = sP[3];
}

TEST(Arrays, WhosePlaceIsAParameter) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run({1, 64, 512}, place_of_a_parameter, out.get(), 5, Room::kSome);
  EXPECT_TRUE(says(report, "address is sQ[1] (byte 4 of \"pieces\"),"));
  EXPECT_TRUE(says(report, "address is sK[2] (byte 120 of \"pieces\"),"));
  EXPECT_TRUE(says(report, "address is sP[3] of thread (33,0,0) (byte 224 of \"pieces\"),"));
  EXPECT_TRUE(says(run({1, 64, 512}, place_of_a_parameter, out.get(), 6, Room::kNone),
                   "address is sK[2] (byte 104 of \"pieces\"),"))
      << "in each launch at its own place";
}

template <int kDistance, class... Arrays>
__device__ __forceinline__ void declare_rows(const Arrays*...) {}
template <class Layout, class... Arrays>
__device__ __forceinline__ void declare_rows(const Arrays*...) {}

/// Element (row, col) lies in the row's chunk of four elements that is `row % 4` XOR the chunk of its column.
template <int kCols>
struct Permuted {
  __device__ static constexpr int offset(int row, int col) { return row * kCols + (col ^ row % 4 * 4); }
};
struct HalfRows {
  __device__ static constexpr int offset(int row, int col) {
    return row / 2 * 32 + ((row % 2 * 16 + col) ^ row / 2 % 4 * 4);
  }
};
struct Branching {
  __device__ static constexpr int offset(int row, int col) {
    return row < 3 ? row * 20 + col : row * 24 + col;
  }
};

/// Reads what nothing has written: element (row, col) of array `which`.
__global__ void arrays_with_rows(float* out, int which, int row, int col) {
  float* sPadded = reinterpret_cast<float*>(pieces);
  __nv_bfloat16* sPermuted = reinterpret_cast<__nv_bfloat16*>(sPadded + 4 * kStride);
  float* sHalf = reinterpret_cast<float*>(sPermuted + 8 * 32);
  float* sBranching = sHalf + 8 * 16;
  float* sFlat = sBranching + 8 * 24;
  declare_rows<kStride>(sPadded);
  declare_rows<Permuted<32>>(sPermuted);
  declare_rows<HalfRows>(sHalf);
  declare_rows<Branching>(sBranching);
  float value = 0.0f;
  if (which == 0) value = sPadded[row * kStride + col];
  if (which == 1) value = float(sPermuted[Permuted<32>::offset(row, col)]);
  if (which == 2) value = sHalf[HalfRows::offset(row, col)];
  if (which == 3) value = sBranching[Branching::offset(row, col)];
  if (which == 4) value = sFlat[row];
  out[0] = value;
}

TEST(Arrays, WithRows) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  const auto reads = [&](int which, int row, int col) {
    return run({1, 1, 4096}, arrays_with_rows, out.get(), which, row, col);
  };
  EXPECT_TRUE(says(reads(0, 0, 0), "is sPadded, row 0, column 0 (byte 0 of \"pieces\")"));
  EXPECT_TRUE(says(reads(0, 2, 31), "is sPadded, row 2, column 31 (byte 388 of \"pieces\")"));
  for (int row = 0; row < 8; ++row) {
    for (const int col : {0, 5, 15}) {
      const std::string place = ", row " + std::to_string(row) + ", column " + std::to_string(col) + " (";
      EXPECT_TRUE(says(reads(1, row, col), "is sPermuted" + place));
      EXPECT_TRUE(says(reads(2, row, col), "is sHalf" + place));
    }
  }
  EXPECT_TRUE(says(reads(3, 1, 2), "is sBranching[22] ("));
  EXPECT_TRUE(says(reads(4, 1, 0), "is sFlat[1] ("));
}

__global__ void rows_of_each_warp(float* out, int rows) {
  float* sK = reinterpret_cast<float*>(pieces);
  float* sP = sK + rows * kStride + threadIdx.x / 32 * 4 * 8;
  float* sRow = sP + threadIdx.x % 32 * 8;  // a part of sP
  declare_rows<8>(sP);
  if (threadIdx.x == 34) out[0] = sRow[3];
}

TEST(Arrays, WithRowsThatWarpsHaveThemselves) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(says(run({1, 64, 1024}, rows_of_each_warp, out.get(), 3),
                   "is sP of thread (34,0,0), row 2, column 3 (byte 600 of \"pieces\")"));
}

struct TilesWithRows {
  float *q, *k, *v;
  __device__ __forceinline__ explicit TilesWithRows(float4* memory) {
    q = reinterpret_cast<float*>(memory);
    k = q;  // overwrites it
    v = k + 4 * 16;
    declare_rows<16>(q);
    declare_rows<Permuted<32>>(v, k);
  }
};
__global__ void rows_in_a_struct(float* out, int at) {
  const TilesWithRows s(pieces);
  out[0] = s.q[at];
  out[0] += s.v[Permuted<32>::offset(at / 4, 3)];
}

TEST(Arrays, WithRowsInAStruct) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  const gpusim::Report report = run({1, 1, 1024}, rows_in_a_struct, out.get(), 17);
  EXPECT_TRUE(says(report, "is s.q, row 1, column 1, or s.k, row 0, column 17 (byte 68 of \"pieces\")"));
  EXPECT_TRUE(says(report, "is s.v, row 4, column 3 ("));
}

struct Sizes {
  int q, k;
};
__global__ void place_of_a_member(float* out, Sizes sizes) {
  float* sQ = reinterpret_cast<float*>(pieces);
  float* sK = sQ + sizes.q;
  out[0] = sQ[1] + sK[2];
}

__global__ void rows_in_a_lambda(float* out, int at) {
  float* sQ = reinterpret_cast<float*>(pieces);
  float* sK = sQ + 3 * 8;
  declare_rows<8>(sQ, sK);
  const auto read = [&](int row) { return sK[row * 8]; };
  if (at > 9) sK = sQ + 3 * 8;
  out[0] = read(at);
}

__global__ void rows_in_the_same_place(float* out) {
  float* sQ = reinterpret_cast<float*>(pieces);
  float* sK = sQ;
  declare_rows<8>(sQ, sK);
  out[0] = sQ[13] + sK[14];
}

TEST(Arrays, WithRowsThatShareTheirPlace) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(
      says(run({1, 1, 1024}, rows_in_the_same_place, out.get()), "is sQ or sK, row 1, column 5 (byte 52"));
}

TEST(Arrays, WithRowsThatALambdaUses) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(says(run({1, 1, 1024}, rows_in_a_lambda, out.get(), 5), "is sK, row 5, column 0 ("));
}

TEST(Arrays, WhosePlaceIsAMemberOfAParameterHaveNoNames) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 1);
  EXPECT_TRUE(
      says(run({1, 1, 256}, place_of_a_member, out.get(), Sizes{8, 8}), "address is byte 4 of \"pieces\","));
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
