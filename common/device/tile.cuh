/// @file
/// A tile of rows in shared memory, and its multiplication by a warp. Taught by chapter 04.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace fa {

/// Loads four neighbouring floats (16 aligned bytes) at once.
__device__ __forceinline__ float4 load_float4(const float* address) {
  return *reinterpret_cast<const float4*>(address);
}

/// Stores four neighbouring floats at once.
__device__ __forceinline__ void store_float4(float* address, float4 x) {
  *reinterpret_cast<float4*>(address) = x;
}

/// Copies rows first .. first + rows - 1 of a matrix of kHeadDim columns to shared memory, scaled by
/// `factor`. Rows from `end` on become zeros. In each step, neighbouring threads copy neighbouring columns.
///
/// @tparam kThreads  threads that copy together, a warp or a block, numbered threadIdx.x % kThreads
/// @tparam kStride   floats from one row in shared memory to the next
template <int kThreads, int kHeadDim, int kStride>
__device__ __forceinline__ void load_tile(float* sTile, const float* gMatrix, int first, int rows, int end,
                                          float factor = 1.0f) {
  for (int n = threadIdx.x % kThreads; n < rows * kHeadDim; n += kThreads) {
    const int row = n / kHeadDim, col = n % kHeadDim;
    const bool inside = first + row < end;
    sTile[row * kStride + col] = inside ? factor * gMatrix[size_t(first + row) * kHeadDim + col] : 0.0f;
  }
}

/// rS[r] = q_r.k for kRows queries and the key of this lane. 16 bytes of the key serve all queries; 16 bytes
/// of a query are the same for all lanes.
///
/// @param sQ  [kRows, kHeadDim]     @param sKey  [kHeadDim]
template <int kHeadDim, int kRows>
__device__ __forceinline__ void multiply_qk(float (&rS)[kRows], const float* sQ, const float* sKey) {
  for (int r = 0; r < kRows; ++r) rS[r] = 0.0f;
  for (int col = 0; col < kHeadDim; col += 4) {
    const float4 k = load_float4(sKey + col);
    for (int r = 0; r < kRows; ++r) {
      const float4 q = load_float4(sQ + r * kHeadDim + col);
      rS[r] += q.x * k.x + q.y * k.y + q.z * k.z + q.w * k.w;
    }
  }
}

/// Adds P V of 32 keys: rO[r][c] is column lane + 32 * c of row r.
///
/// @param sP  [kRows, 32]     @param sV  [32, 32 * kCols]
template <int kRows, int kCols>
__device__ __forceinline__ void multiply_pv(float (&rO)[kRows][kCols], const float* sP, const float* sV) {
  constexpr int d = 32 * kCols;
  for (int key = 0; key < 32; key += 4) {
    float4 p[kRows];
    for (int r = 0; r < kRows; ++r) p[r] = load_float4(sP + r * 32 + key);
    for (int c = 0; c < kCols; ++c) {
      const float* v = sV + key * d + threadIdx.x % 32 + 32 * c;
      const float v0 = v[0], v1 = v[d], v2 = v[2 * d], v3 = v[3 * d];
      for (int r = 0; r < kRows; ++r) rO[r][c] += p[r].x * v0 + p[r].y * v1 + p[r].z * v2 + p[r].w * v3;
    }
  }
}

}  // namespace fa
