/// @file
/// The three kinds of products of the backward pass in fp32: what each thread computes, and which rows and
/// columns it reads from shared memory.
#pragma once

#include <cuda_runtime.h>

#include "device/tile.cuh"

namespace fa::ch08 {

/// Tile sizes of the fp32 kernels. The threads of a block form a grid with one row for each 4 rows of a tile.
/// Each of them computes part of every product: S and dP, dK and dV, dQ.
template <int kHeadDimension, int kRowsOfTile, int kColumnThreads = kHeadDimension <= 64 ? 8 : 16>
struct SquareTiles {
  using T = float;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr bool kDense = false;
  static constexpr int Br = kRowsOfTile;  ///< queries
  static constexpr int Bc = kRowsOfTile;  ///< keys
  static constexpr int kRowThreads = Br / 4;
  static constexpr int kColThreads = kColumnThreads;
  static constexpr int kThreads = kRowThreads * kColThreads;
  static constexpr int kBlocksPerSm = 256 / kThreads;
  static constexpr int kRows = Br / kRowThreads;  ///< of a thread; for dK and dV too, since Br = Bc
  static constexpr int kCols = Bc / kColThreads;
  static constexpr int kDims = kHeadDim / kColThreads;  ///< columns of dQ, dK, dV
  // With these strides, the float4s that a warp loads from several rows at once are in different banks, and
  // so are the 4 x 8 floats of P that it stores at once.
  static constexpr int kStride = kHeadDim + 4;  ///< of a row of Q, dO, K or V
  static constexpr int kPStride = Bc + 8;       ///< of a row of P or dS
  static constexpr int kSharedBytes = int(sizeof(float)) * (2 * (Br + Bc) * kStride + Br * kPStride + 2 * Br);
  static_assert(Br == Bc);
};
template <int kHeadDimension>
struct Fp32Tiles : SquareTiles<kHeadDimension, 64> {};
template <>
struct Fp32Tiles<256> : SquareTiles<256, 32, 32> {};
/// For devices whose shared memory is too small for those. Smaller tiles for 256 columns would need more
/// registers than there are.
template <int kHeadDimension>
struct SmallFp32Tiles : SquareTiles<kHeadDimension, 32> {};

/// A thread's part of the products. A warp covers 4 x 8 threads of the grid: lane ^ 1 has the same row, lane
/// ^ 2 the same column, so that one wavefront loads the float4s of 16 lanes (chapter 05).
template <class Tile>
struct ThreadPart {
  int row, col;  ///< of the thread in the grid

  __device__ __forceinline__ ThreadPart() {
    constexpr int kWarpsInRow = Tile::kColThreads / 8;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    row = warp / kWarpsInRow * 4 + lane / 2 % 4;
    col = warp % kWarpsInRow * 8 + lane % 2 + lane / 8 * 2;
  }
  /// Row or column i of this thread if the product reads its operand along the rows: every kRowThreads-th
  /// row, or every kColThreads-th column.
  __device__ __forceinline__ int strided_row(int i) const { return row + i * Tile::kRowThreads; }
  __device__ __forceinline__ int strided_col(int i) const { return col + i * Tile::kColThreads; }
  /// If the product reads its operand down the columns, a thread has groups of four adjacent ones, each a
  /// float4. This is the first of the group that i belongs to.
  __device__ __forceinline__ int adjacent_row(int i) const { return 4 * (row + i / 4 * Tile::kRowThreads); }
  __device__ __forceinline__ int adjacent_col(int i) const { return 4 * (col + i / 4 * Tile::kColThreads); }
};

__device__ __forceinline__ void load_four(float (&r)[4], const float* s) {
  const float4 x = load_float4(s);
  r[0] = x.x, r[1] = x.y, r[2] = x.z, r[3] = x.w;
}

/// C = A B^T, this thread's [kRows, kCols]: S = Q K^T and dP = dO V^T. Reads both operands along their rows.
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

/// C += A^T B, this thread's [kRows, kDims]: dV += P^T dO and dK += dS^T Q. Reads both operands down their
/// columns, as a sum of outer products.
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

/// C += A B, this thread's [kRows, kDims]: dQ += dS K. Reads A along its rows and B down its columns.
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
