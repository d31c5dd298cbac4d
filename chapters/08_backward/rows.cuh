/// @file
/// Moves rows between HBM and shared memory for the tensor-core kernels, and places the tiles of a block there.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/convert.cuh"
#include "device/cp_async.cuh"
#include "device/declare_rows.cuh"
#include "key_tiles.cuh"
#include "products.cuh"

namespace fa::ch08 {

/// Starts copying the first kRows rows of a matrix. Rows that do not exist become zeros.
template <class Tile, int kRows>
__device__ __forceinline__ void copy_rows_async(typename Tile::T* s, const typename Tile::T* g, int rows) {
  constexpr int kChunk = 8, kStep = Tile::kThreads * kChunk / Tile::kHeadDim;  // elements in 16 bytes; rows
  const int first = threadIdx.x * kChunk / Tile::kHeadDim, col = threadIdx.x * kChunk % Tile::kHeadDim;
#pragma unroll
  for (int row = first; row < first + kRows; row += kStep) {
    const bool inside = row < rows;
    cp_async_16_or_zero(s + Tile::Rows::offset(row, col), g + (inside ? row * Tile::kHeadDim + col : 0),
                        inside);
  }
}

/// Rounds a warp's part of a tile to 16 bits and stores the rows that exist, 16 bytes at a time via shared memory.
/// @param g, s  at the first of the warp's columns; overwrites what is in s
template <class Tile>
__device__ __forceinline__ void store_rows(typename Tile::T* g, typename Tile::T* s,
                                           const Fragments<Tile, Tile::kCols>& rC, float factor, int rows) {
  constexpr int d = Tile::kHeadDim, kCols = Tile::kCols, kChunk = 8;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < 2 * Tile::kRowFragments; ++row) {
#pragma unroll
    for (int ni = 0; ni < kCols / 8; ++ni) {
      const float* pair = row_pair(rC[row / 2][ni], row % 2);
      auto* to =
          reinterpret_cast<std::uint32_t*>(s + Tile::Rows::offset(8 * row + lane / 4, 8 * ni)) + lane % 4;
      *to = pack<typename Tile::T>(factor * pair[0], factor * pair[1]);
    }
  }
  __syncwarp();  // the warp has stored all its rows
  for (int at = lane * kChunk; at < Tile::kWarpRows * kCols; at += 32 * kChunk) {
    const int row = at / kCols, col = at % kCols;
    if (row < rows) {
      *reinterpret_cast<uint4*>(g + size_t(row) * d + col) =
          *reinterpret_cast<const uint4*>(s + Tile::Rows::offset(row, col));
    }
  }
}

/// A query tile in shared memory.
template <class Tile>
struct QueryTile {
  const typename Tile::T *q, *d_o;  ///< [Br, kHeadDim]
  const float *lse, *delta;         ///< [Br]
  int first_query;                  ///< of the tile, in its head
};

/// The shared memory of a block that owns a key tile.
template <class Tile>
struct KeyTileMemory {
  using T = typename Tile::T;
  T *k, *v;            ///< [Bc, kHeadDim]
  T *q, *d_o;          ///< [kStages, Br, kHeadDim]
  T *p, *ds;           ///< [Bc, Br], transposed
  float *lse, *delta;  ///< [kStages, Br]

  __device__ __forceinline__ explicit KeyTileMemory(float4* smem) {
    k = reinterpret_cast<T*>(smem);
    v = k + Tile::kKeyTile;
    q = v + Tile::kKeyTile;
    d_o = q + Tile::kStages * Tile::kQueryTile;
    p = d_o + Tile::kStages * Tile::kQueryTile;
    ds = p + Tile::kPTile;
    lse = reinterpret_cast<float*>(ds + Tile::kDsTile);
    delta = lse + Tile::kStages * Tile::Br;
    declare_rows<typename Tile::Rows>(k, v, q, d_o);
    declare_rows<typename Tile::PRows>(p, ds);
  }
  /// The query tile in a stage.
  __device__ __forceinline__ QueryTile<Tile> query_tile(int stage, int first_query) const {
    return {q + stage * Tile::kQueryTile, d_o + stage * Tile::kQueryTile, lse + stage * Tile::Br,
            delta + stage * Tile::Br, first_query};
  }
  /// Starts the copies of K and V.
  __device__ __forceinline__ void load_keys(const Backward<T>& a, size_t first_row, int rows) const {
    copy_rows_async<Tile, Tile::Bc>(k, a.k + first_row * Tile::kHeadDim, rows);
    copy_rows_async<Tile, Tile::Bc>(v, a.v + first_row * Tile::kHeadDim, rows);
  }
  /// Starts the copies of Q, dO, LSE and delta of a query tile.
  __device__ __forceinline__ void load_queries(int stage, const Backward<T>& a, int head,
                                               int first_query) const {
    constexpr int d = Tile::kHeadDim, Br = Tile::Br;
    const int rows = a.seq_q - first_query;
    const size_t first = size_t(head) * a.seq_q + first_query;
    copy_rows_async<Tile, Br>(q + stage * Tile::kQueryTile, a.q + first * d, rows);
    copy_rows_async<Tile, Br>(d_o + stage * Tile::kQueryTile, a.d_o + first * d, rows);
    if (threadIdx.x < Br) {
      const bool inside = int(threadIdx.x) < rows;
      const size_t row = first + (inside ? threadIdx.x : 0);
      cp_async_4_or_zero(lse + stage * Br + threadIdx.x, a.lse + row, inside);
      cp_async_4_or_zero(delta + stage * Br + threadIdx.x, a.delta + row, inside);
    }
  }
};

/// Stores the warp's part of dK and dV by way of the buffers of K and V, which are no longer in use.
template <class Tile>
__device__ __forceinline__ void store_dk_and_dv(const Backward<typename Tile::T>& a,
                                                const KeyTileMemory<Tile>& s, const KeyBlock<Tile>& block,
                                                const Fragments<Tile, Tile::kCols>& rdK,
                                                const Fragments<Tile, Tile::kCols>& rdV) {
  constexpr int d = Tile::kHeadDim;
  const int rows = a.seq_k - block.first_key - block.warp_key;
  const int part_of_tile = block.warp_key * d + block.part * Tile::kCols;
  const size_t part_of_all = block.first_row * d + part_of_tile;
  store_rows<Tile>(a.dk + part_of_all, s.k + part_of_tile, rdK, a.scale, rows);
  store_rows<Tile>(a.dv + part_of_all, s.v + part_of_tile, rdV, 1.0f, rows);
}

}  // namespace fa::ch08
