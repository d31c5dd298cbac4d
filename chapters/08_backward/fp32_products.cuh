/// @file
/// The three kinds of products of the backward pass in fp32: which thread computes what of each, and from which rows and
/// columns in shared memory.
#pragma once

#include <cuda_runtime.h>

#include "device/tile.cuh"

namespace fa::ch08 {

/// How the fp32 kernels cut the problem. The threads of a block form a grid of 16 rows. Each has a part of every
/// product: of S and dP, of dK and dV, of dQ.
template <int kHeadDimension>
struct Fp32Tiles {
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = 64;  ///< queries
  static constexpr int Bc = 64;  ///< keys
  static constexpr int kThreads = kHeadDim <= 64 ? 128 : 256;
  static constexpr int kBlocksPerSm = 256 / kThreads;
  static constexpr int kRowThreads = 16;
  static constexpr int kColThreads = kThreads / kRowThreads;
  static constexpr int kRows = Br / kRowThreads;  ///< of a thread, also of dK and dV: Br = Bc
  static constexpr int kCols = Bc / kColThreads;
  static constexpr int kDims = kHeadDim / kColThreads;  ///< columns of dQ, dK, dV
  // The float4s of four rows that a warp loads at once are in different banks; P is stored in 4 x 8 single numbers.
  static constexpr int kStride = kHeadDim + 4;  ///< of Q, dO, K and V
  static constexpr int kPStride = Bc + 8;       ///< of P and dS
  static constexpr int kSharedBytes = int(sizeof(float)) * (2 * (Br + Bc) * kStride + Br * kPStride + 2 * Br);
  static_assert(Br == Bc);
};

/// A thread's part of the products. A warp is 4 x 8 threads of the grid: lane ^ 1 has the same row, lane ^ 2 the same
/// column, so that 16 lanes load their float4s in one wavefront (chapter 05).
template <class Tile>
struct ThreadPart {
  int row, col;  ///< of the thread in the grid

  __device__ __forceinline__ ThreadPart() {
    constexpr int kWarpsInRow = Tile::kColThreads / 8;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    row = warp / kWarpsInRow * 4 + lane / 2 % 4;
    col = warp % kWarpsInRow * 8 + lane % 2 + lane / 8 * 2;
  }
  /// The thread's row or column i where the product runs along the rows of its operand: every kRowThreads-th.
  __device__ __forceinline__ int strided_row(int i) const { return row + i * Tile::kRowThreads; }
  __device__ __forceinline__ int strided_col(int i) const { return col + i * Tile::kColThreads; }
  /// Where it runs down the columns: the first of four adjacent ones, a float4, to
  /// which i belongs.
  __device__ __forceinline__ int adjacent_row(int i) const { return 4 * (row + i / 4 * Tile::kRowThreads); }
  __device__ __forceinline__ int adjacent_col(int i) const { return 4 * (col + i / 4 * Tile::kColThreads); }
};

__device__ __forceinline__ void load_four(float (&r)[4], const float* s) {
  const float4 x = load_float4(s);
  r[0] = x.x, r[1] = x.y, r[2] = x.z, r[3] = x.w;
}

/// C = A B^T, [kRows, kCols] of it: S = Q K^T and dP = dO V^T. Both operands are read along their rows.
template <class Tile>
__device__ __forceinline__ void multiply_nt(float (&rC)[Tile::kRows][Tile::kCols], const float* sA,
                                            const float* sB) {
  const ThreadPart<Tile> my;
  for (auto& row : rC)
    for (float& c : row) c = 0.0f;
#pragma unroll 2
  for (int k = 0; k < Tile::kHeadDim; k += 4) {
    float a[Tile::kRows][4];
    for (int r = 0; r < Tile::kRows; ++r) load_four(a[r], sA + my.strided_row(r) * Tile::kStride + k);
    for (int c = 0; c < Tile::kCols; ++c) {
      float b[4];
      load_four(b, sB + my.strided_col(c) * Tile::kStride + k);
      for (int r = 0; r < Tile::kRows; ++r) {
        for (int i = 0; i < 4; ++i) rC[r][c] += a[r][i] * b[i];
      }
    }
  }
}

/// C += A^T B, [kRows, kDims] of it: dV += P^T dO and dK += dS^T Q. Both are read down their columns: outer products.
template <class Tile>
__device__ __forceinline__ void multiply_tn(float (&rC)[Tile::kRows][Tile::kDims], const float* sA,
                                            const float* sB) {
  const ThreadPart<Tile> my;
  static_assert(Tile::kRows == 4);
#pragma unroll 4
  for (int k = 0; k < Tile::Br; ++k) {
    float a[4];
    load_four(a, sA + k * Tile::kPStride + my.adjacent_row(0));
    for (int c = 0; c < Tile::kDims; c += 4) {
      float b[4];
      load_four(b, sB + k * Tile::kStride + my.adjacent_col(c));
      for (int r = 0; r < 4; ++r) {
        for (int i = 0; i < 4; ++i) rC[r][c + i] += a[r] * b[i];
      }
    }
  }
}

/// C += A B, [kRows, kDims] of it: dQ += dS K. A is read along its rows, B down its columns.
template <class Tile>
__device__ __forceinline__ void multiply_nn(float (&rC)[Tile::kRows][Tile::kDims], const float* sA,
                                            const float* sB) {
  const ThreadPart<Tile> my;
#pragma unroll 1
  for (int k = 0; k < Tile::Bc; k += 4) {
    float a[Tile::kRows][4];
    for (int r = 0; r < Tile::kRows; ++r) load_four(a[r], sA + my.strided_row(r) * Tile::kPStride + k);
    for (int n = 0; n < 4; ++n) {
      for (int c = 0; c < Tile::kDims; c += 4) {
        float b[4];
        load_four(b, sB + (k + n) * Tile::kStride + my.adjacent_col(c));
        for (int r = 0; r < Tile::kRows; ++r) {
          for (int i = 0; i < 4; ++i) rC[r][c + i] += a[r][n] * b[i];
        }
      }
    }
  }
}

}  // namespace fa::ch08
