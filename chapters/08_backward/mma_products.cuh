/// @file
/// Tensor cores in the backward pass: sizes, the two kinds of products, and rows on their way between HBM and shared
/// memory. The kernels are in mma.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "device/convert.cuh"
#include "device/cp_async.cuh"
#include "device/ldmatrix.cuh"
#include "device/mma.cuh"
#include "device/swizzle.cuh"

namespace fa {

inline constexpr float kLog2E = 1.44269504f;  ///< exp(x) = 2^(x * log2 e)

/// How `mma_key_gradients` cuts the problem.
template <class Element, int kHeadDimension, int kStagesOfQueries, bool kWithDq>
struct MmaKeyTiles {
  using T = Element;
  using Rows = Swizzled<kHeadDimension>;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = 64;   ///< queries of a step
  static constexpr int Bc = 128;  ///< keys of a block
  static constexpr int kWarps = kHeadDim <= 64 ? 4 : 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocksPerSm = 8 / kWarps;
  static constexpr int kWarpRows = Bc / kWarps;            ///< keys of a warp
  static constexpr int kRowTiles = kWarpRows / 16;         ///< fragments of a warp, from top to bottom
  static constexpr int kSlice = kHeadDim <= 64 ? 32 : 64;  ///< queries whose S and dP are in registers
  static constexpr int kStages = kStagesOfQueries;         ///< tiles of Q and dO in shared memory
  static constexpr bool kFused = kWithDq;                  ///< dQ here as well, by atomic additions

  // The warps' parts of dQ, [Br, kHeadDim]: 32 columns each.
  using DsRows = Swizzled<Br>;
  static constexpr int kColWarps = kHeadDim / 32;
  static constexpr int kDqRowTiles = Br / 16 * kColWarps / kWarps;

  static constexpr int kKeyTile = Bc * kHeadDim, kQueryTile = Br * kHeadDim;  ///< elements
  static constexpr int kSharedBytes =
      int(sizeof(T)) * (2 * kKeyTile + kStages * 2 * kQueryTile + kFused * Bc * Br) +
      kStages * 2 * Br * int(sizeof(float));
};

/// How `mma_query_gradients` cuts the problem.
template <class Element, int kHeadDimension>
struct MmaQueryTiles {
  using T = Element;
  using Rows = Swizzled<kHeadDimension>;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = 128;                       ///< queries of a block
  static constexpr int Bc = kHeadDim <= 64 ? 64 : 32;  ///< keys of a step
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocksPerSm = 2;
  static constexpr int kWarpRows = Br / kWarps;     ///< queries of a warp
  static constexpr int kRowTiles = kWarpRows / 16;  ///< fragments of a warp, from top to bottom
  static constexpr int kSlice = 32;                 ///< keys whose S and dP are in registers
  static constexpr int kStages = 2;                 ///< tiles of K and V in shared memory
  static constexpr int kQueryTile = Br * kHeadDim, kKeyTile = Bc * kHeadDim;  ///< elements
  static constexpr int kSharedBytes = int(sizeof(T)) * (2 * kQueryTile + kStages * 2 * kKeyTile);
};

// --- products --------------------------------------------------------------------------------------------

/// A warp's part of a product: fragments C, [rows / 16][columns / 8].
template <class Tile, int kCols>
using Fragments = float[Tile::kRowTiles][kCols / 8][4];

/// P^T or dS^T (P or dS where queries are rows) in 16 bits: fragments A, [rows / 16][columns / 16].
template <class Tile>
using Operand = std::uint32_t[Tile::kRowTiles][Tile::kSlice / 16][4];

/// C = A B^T, for kSlice rows of B: S^T = K Q^T and dP^T = V dO^T. A row of B is a column of its operand.
/// @param sA  the warp's rows
template <class Tile>
__device__ __forceinline__ void mma_nt(Fragments<Tile, Tile::kSlice>& rC, const typename Tile::T* sA,
                                       const typename Tile::T* sB) {
  using T = typename Tile::T;
  using Rows = typename Tile::Rows;
  const Coord from_a = row_for_a(threadIdx.x % 32), from_b = row_for_b(threadIdx.x % 32);
  const int at_a = Rows::offset(from_a.row, from_a.col), at_b = Rows::offset(from_b.row, from_b.col);
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < Tile::kSlice / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) rC[m][n][i] = 0.0f;
    }
  }
#pragma unroll 2  // all of them: addresses of 4 steps in registers, and 12 bytes spill at head_dim 64
  for (int step = 0; step < Tile::kHeadDim / 16; ++step) {
    std::uint32_t a[Tile::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < Tile::kRowTiles; ++m) ldmatrix(a[m], sA + Rows::advance(at_a, 16 * m, 16 * step));
#pragma unroll
    for (int n = 0; n < Tile::kSlice / 16; ++n) {
      std::uint32_t b[4];
      ldmatrix(b, sB + Rows::advance(at_b, 16 * n, 16 * step));
#pragma unroll
      for (int m = 0; m < Tile::kRowTiles; ++m) {
        mma<T>(rC[m][2 * n], a[m], {b[0], b[1]});
        mma<T>(rC[m][2 * n + 1], a[m], {b[2], b[3]});
      }
    }
  }
}

/// C += A B, for kSlice rows of B: dV += P^T dO, dK += dS^T Q, dQ += dS K. A row of B is a row of its operand.
template <class Tile>
__device__ __forceinline__ void mma_nn(Fragments<Tile, Tile::kHeadDim>& rC, const Operand<Tile>& rA,
                                       const typename Tile::T* sB) {
  using T = typename Tile::T;
  using Rows = typename Tile::Rows;
  const Coord from = row_for_a(threadIdx.x % 32);
  const int at = Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::kSlice / 16; ++step) {
#pragma unroll
    for (int n = 0; n < Tile::kHeadDim / 16; ++n) {
      std::uint32_t b[4];
      ldmatrix_transposed(b, sB + Rows::advance(at, 16 * step, 16 * n));
#pragma unroll
      for (int m = 0; m < Tile::kRowTiles; ++m) {
        mma<T>(rC[m][2 * n], rA[m][step], {b[0], b[1]});
        mma<T>(rC[m][2 * n + 1], rA[m][step], {b[2], b[3]});
      }
    }
  }
}

/// Two fragments C side by side are one fragment A (chapter 06).
template <class Tile>
__device__ __forceinline__ void to_operand(Operand<Tile>& rA, const Fragments<Tile, Tile::kSlice>& rC) {
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
    for (int step = 0; step < Tile::kSlice / 16; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &rC[m][2 * step + i / 2][i % 2 * 2];
        rA[m][step][i] = pack<typename Tile::T>(pair[0], pair[1]);
      }
    }
  }
}

// --- tiles -------------------------------------------------------------------------------------------------

/// Starts the copies of the first kRows rows of a matrix. Those that do not exist become zeros.
template <class Tile, int kRows>
__device__ __forceinline__ void send_rows(typename Tile::T* s, const typename Tile::T* g, int rows) {
  constexpr int kChunk = 8, kStep = Tile::kThreads * kChunk / Tile::kHeadDim;  // elements of 16 bytes, rows
  const int first = threadIdx.x * kChunk / Tile::kHeadDim, col = threadIdx.x * kChunk % Tile::kHeadDim;
#pragma unroll
  for (int row = first; row < first + kRows; row += kStep) {
    const bool inside = row < rows;
    cp_async_16_or_zero(s + Tile::Rows::offset(row, col), g + (inside ? row * Tile::kHeadDim + col : 0),
                        inside);
  }
}

/// Rounds a warp's rows to 16 bits and stores those that exist: through shared memory, 16 bytes at a time.
/// @param s  the warp's own rows, no longer in use
template <class Tile>
__device__ __forceinline__ void store_rows(typename Tile::T* g, typename Tile::T* s,
                                           const Fragments<Tile, Tile::kHeadDim>& rC, float factor,
                                           int rows) {
  constexpr int d = Tile::kHeadDim, kChunk = 8;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < 2 * Tile::kRowTiles; ++row) {
#pragma unroll
    for (int n = 0; n < d / 8; ++n) {
      const float* pair = &rC[row / 2][n][row % 2 * 2];
      auto* to =
          reinterpret_cast<std::uint32_t*>(s + Tile::Rows::offset(8 * row + lane / 4, 8 * n)) + lane % 4;
      *to = pack<typename Tile::T>(factor * pair[0], factor * pair[1]);
    }
  }
  __syncwarp();  // all rows of the warp are there
  for (int at = lane * kChunk; at < Tile::kWarpRows * d; at += 32 * kChunk) {
    const int row = at / d, col = at % d;
    if (row < rows) {
      *reinterpret_cast<uint4*>(g + size_t(row) * d + col) =
          *reinterpret_cast<const uint4*>(s + Tile::Rows::offset(row, col));
    }
  }
}

}  // namespace fa
