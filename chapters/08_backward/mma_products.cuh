/// @file
/// Tensor cores in the backward pass: sizes, the two kinds of products, and rows on their way between HBM and shared
/// memory. The kernels are in mma.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "device/convert.cuh"
#include "device/cp_async.cuh"
#include "device/fragments.cuh"
#include "device/math.cuh"
#include "device/swizzle.cuh"
#include "device/tensor_core.cuh"

namespace fa::ch08 {

/// How `mma_key_gradients` cuts the problem.
///
/// A warp has 32 keys, for the sake of shared memory: what it loads of Q and dO feeds two rows of fragments. At head_dim
/// 128 its parts of dK and dV would fill all registers. There two warps share the keys: each has half the queries of S
/// and dP, half the columns of dK and dV, and reads the other one's P and dS in shared memory.
template <class Element, int kHeadDimension, int kStagesOfQueries, bool kWithDq>
struct MmaKeyTiles {
  using T = Element;
  using Rows = Swizzled<kHeadDimension>;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = 64;                            ///< queries of a step
  static constexpr int Bc = 128;                           ///< keys of a block
  static constexpr int kWarpRows = 32;                     ///< keys of a warp
  static constexpr int kSharing = kHeadDim <= 64 ? 1 : 2;  ///< warps that share them
  static constexpr int kWarps = Bc / kWarpRows * kSharing;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocksPerSm = 8 / kWarps;
  static constexpr int kRowTiles = kWarpRows / 16;   ///< fragments of a warp, from top to bottom
  static constexpr int kSlice = 32;                  ///< queries whose S and dP are in registers
  static constexpr int kCols = kHeadDim / kSharing;  ///< columns of dK and dV of a warp
  static constexpr int kStages = kStagesOfQueries;   ///< tiles of Q and dO in shared memory
  static constexpr bool kFused = kWithDq;            ///< dQ here as well, by atomic additions
  static constexpr bool kQuads = kStages > 1;        ///< four numbers in one of them, on sm_90
  static constexpr bool kStoresP = kSharing > 1, kStoresDs = kSharing > 1 || kFused;

  // The warps' parts of dQ, [Br, kHeadDim]: 32 columns each.
  using PRows = Swizzled<Br>;  ///< of P^T and dS^T
  static constexpr int kColWarps = kHeadDim / 32;
  static constexpr int kDqRowTiles = Br / 16 * kColWarps / kWarps;

  static constexpr int kKeyTile = Bc * kHeadDim, kQueryTile = Br * kHeadDim;  ///< elements
  static constexpr int kSharedBytes =
      int(sizeof(T)) * (2 * kKeyTile + kStages * 2 * kQueryTile + (kStoresP + kStoresDs) * Bc * Br) +
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
  static constexpr int kCols = kHeadDim;            ///< columns of dQ of a warp
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
#pragma unroll
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
/// @param sB  the first of the warp's columns
template <class Tile>
__device__ __forceinline__ void mma_nn(Fragments<Tile, Tile::kCols>& rC, const Operand<Tile>& rA,
                                       const typename Tile::T* sB) {
  using T = typename Tile::T;
  using Rows = typename Tile::Rows;
  const Coord from = row_for_a(threadIdx.x % 32);
  const int at = Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::kSlice / 16; ++step) {
#pragma unroll
    for (int n = 0; n < Tile::kCols / 16; ++n) {
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

/// The warp's part of P^T or dS^T to its place in [Bc, Br].
/// @param s  element (first key of the warp, 0)     @param query  of the slice
template <class Tile>
__device__ __forceinline__ void store_operand(typename Tile::T* s, int query, const Operand<Tile>& rA) {
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
    for (int step = 0; step < Tile::kSlice / 16; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Coord at = element_of_a(threadIdx.x % 32, 2 * i);  // and the element to the right of it
        *reinterpret_cast<std::uint32_t*>(
            s + Tile::PRows::offset(16 * m + at.row, query + 16 * step + at.col)) = rA[m][step][i];
      }
    }
  }
}
/// And back: another warp's, perhaps.
template <class Tile>
__device__ __forceinline__ void load_operand(Operand<Tile>& rA, const typename Tile::T* s, int query) {
  const Coord from = row_for_a(threadIdx.x % 32);
  const int at = Tile::PRows::offset(from.row, query + from.col);
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
    for (int step = 0; step < Tile::kSlice / 16; ++step) {
      ldmatrix(rA[m][step], s + Tile::PRows::advance(at, 16 * m, 16 * step));
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

/// Rounds a warp's part of rows to 16 bits and stores those that exist: through shared memory, 16 bytes at a time.
/// @param g, s  the first of the warp's columns; in shared memory they are no longer in use
template <class Tile>
__device__ __forceinline__ void store_rows(typename Tile::T* g, typename Tile::T* s,
                                           const Fragments<Tile, Tile::kCols>& rC, float factor, int rows) {
  constexpr int d = Tile::kHeadDim, kCols = Tile::kCols, kChunk = 8;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < 2 * Tile::kRowTiles; ++row) {
#pragma unroll
    for (int n = 0; n < kCols / 8; ++n) {
      const float* pair = &rC[row / 2][n][row % 2 * 2];
      auto* to =
          reinterpret_cast<std::uint32_t*>(s + Tile::Rows::offset(8 * row + lane / 4, 8 * n)) + lane % 4;
      *to = pack<typename Tile::T>(factor * pair[0], factor * pair[1]);
    }
  }
  __syncwarp();  // all rows of the warp are there
  for (int at = lane * kChunk; at < Tile::kWarpRows * kCols; at += 32 * kChunk) {
    const int row = at / kCols, col = at % kCols;
    if (row < rows) {
      *reinterpret_cast<uint4*>(g + size_t(row) * d + col) =
          *reinterpret_cast<const uint4*>(s + Tile::Rows::offset(row, col));
    }
  }
}

}  // namespace fa::ch08
