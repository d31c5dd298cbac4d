/// @file
/// Moves rows between HBM and shared memory for the tensor-core kernels, and places the tiles of a block
/// there.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/convert.cuh"
#include "device/cp_async.cuh"
#include "device/declare_rows.cuh"
#include "device/math.cuh"
#include "device/padding.cuh"
#include "key_tiles.cuh"
#include "products.cuh"

namespace fa::ch08 {

/// The rows of a head. @param head  of the batch
template <class Tile, class T>
__device__ __forceinline__ HeadRows<T> rows_of(T* tensor, const Strides& strides, int batch, int head) {
  return known_rows<Tile>(Attention<typename Tile::T>::rows_of(tensor, strides, batch, head));
}

/// Starts copying kRows rows of a matrix from row `first` on. Rows from `end` on do not exist and become
/// zeros; columns from `cols` on do not exist either and stay as they are.
/// @param thread  among the Tile::kThreads that copy together
template <class Tile, int kRows>
__device__ __forceinline__ void copy_rows_async(typename Tile::T* s, HeadRows<const typename Tile::T> g,
                                                int first, int end, int cols, unsigned thread = threadIdx.x) {
  constexpr int kChunk = 8, kStep = Tile::kThreads * kChunk / Tile::kHeadDim;  // elements in 16 bytes; rows
  const int first_row = thread * kChunk / Tile::kHeadDim, col = thread * kChunk % Tile::kHeadDim;
  if (col >= cols) return;
#pragma unroll
  for (int row = first_row; row < first_row + kRows; row += kStep) {
    const bool inside = first + row < end;
    cp_async_16_or_zero(s + Tile::Rows::offset(row, col), g[inside ? first + row : first] + col, inside);
  }
}

/// Rounds a warp's part of a tile to 16 bits and stores what exists of it, 16 bytes at a time via shared
/// memory.
/// @param s     at the first of the warp's columns; overwrites what is there
/// @param first, end, first_col, cols  the warp's first row; how many rows there are; the same for columns
template <class Tile>
__device__ __forceinline__ void store_rows(HeadRows<typename Tile::T> g, typename Tile::T* s,
                                           const Fragments<Tile, Tile::kCols>& rC, float factor, int first,
                                           int end, int first_col, int cols) {
  constexpr int kCols = Tile::kCols, kChunk = 8;
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
  for (int element = lane * kChunk; element < Tile::kWarpRows * kCols; element += 32 * kChunk) {
    const int row = element / kCols, col = element % kCols;
    if (first + row < end && first_col + col < cols) {
      *reinterpret_cast<uint4*>(g[first + row] + first_col + col) =
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
  /// Zeros in the columns that do not exist in HBM.
  __device__ __forceinline__ void pad_columns(int head_dim) const {
    pad<typename Tile::Rows, Tile::kThreads, Tile::kHeadDim>(k, 2 * (Tile::Bc + Tile::kStages * Tile::Br),
                                                             head_dim);
  }
  /// The query tile in a stage.
  __device__ __forceinline__ QueryTile<Tile> query_tile(int stage, int first_query) const {
    return {q + stage * Tile::kQueryTile, d_o + stage * Tile::kQueryTile, lse + stage * Tile::Br,
            delta + stage * Tile::Br, first_query};
  }
  /// Starts the copies of K and V.
  __device__ __forceinline__ void load_keys(const Backward<T>& a, const KeyBlock<Tile>& block) const {
    constexpr int Bc = Tile::Bc;
    const auto gK = rows_of<Tile>(a.k, a.k_strides, block.batch, block.kv_head);
    const auto gV = rows_of<Tile>(a.v, a.v_strides, block.batch, block.kv_head);
    copy_rows_async<Tile, Bc>(k, gK, block.first_key, a.seq_k, cols_of<Tile>(a));
    copy_rows_async<Tile, Bc>(v, gV, block.first_key, a.seq_k, cols_of<Tile>(a));
  }
  /// Makes P zero where a rounded LSE does not determine it, or the query sees no key: see resolved_lse().
  /// Each thread does so for the element that it has copied, after its wait and before the barrier.
  __device__ __forceinline__ void resolve_lse(int stage) const {
    if (threadIdx.x >= Tile::Br) return;
    float& of_row = lse[stage * Tile::Br + threadIdx.x];
    if (fabsf(of_row) >= kLargestLse) of_row = INFINITY;
  }
  /// Starts the copies of Q, dO, LSE and delta of a query tile.
  __device__ __forceinline__ void load_queries(int stage, const Backward<T>& a,
                                               const QueryWalk<Tile>& walk) const {
    load_queries(stage, a, walk,
                 [](float* s, const float* g, bool inside) { cp_async_4_or_zero(s, g, inside); });
  }
  /// The same. @param copy_delta  starts the copy of an element of delta, as cp_async_4_or_zero() does
  template <class CopyDelta>
  __device__ __forceinline__ void load_queries(int stage, const Backward<T>& a, const QueryWalk<Tile>& walk,
                                               const CopyDelta& copy_delta) const {
    constexpr int Br = Tile::Br;
    const int first_query = walk.first_query(), rows = a.seq_q - first_query;
    const auto gQ = rows_of<Tile>(a.q, a.q_strides, walk.batch, walk.head);
    const auto gdO = rows_of<Tile>(a.d_o, a.d_o_strides, walk.batch, walk.head);
    copy_rows_async<Tile, Br>(q + stage * Tile::kQueryTile, gQ, first_query, a.seq_q, cols_of<Tile>(a));
    copy_rows_async<Tile, Br>(d_o + stage * Tile::kQueryTile, gdO, first_query, a.seq_q, cols_of<Tile>(a));
    const size_t first = (size_t(walk.batch) * a.heads + walk.head) * a.seq_q + first_query;
    if (threadIdx.x < Br) {
      const bool inside = int(threadIdx.x) < rows;
      const size_t row = first + (inside ? threadIdx.x : 0);
      cp_async_4_or_zero(lse + stage * Br + threadIdx.x, a.lse + row, inside);
      copy_delta(delta + stage * Br + threadIdx.x, a.delta + row, inside);
    }
  }
};

/// Stores the warp's part of dK and dV by way of the buffers of K and V, which are no longer in use.
template <class Tile>
__device__ __forceinline__ void store_dk_and_dv(const Backward<typename Tile::T>& a,
                                                const KeyTileMemory<Tile>& s, const KeyBlock<Tile>& block,
                                                const Fragments<Tile, Tile::kCols>& rdK,
                                                const Fragments<Tile, Tile::kCols>& rdV) {
  const int first_key = block.first_key + block.warp_key, first_col = block.part * Tile::kCols;
  const int offset = block.warp_key * Tile::kHeadDim + first_col;
  const auto gdK = a.rows_of(a.dk, a.dk_strides, block.batch, block.kv_head);
  const auto gdV = a.rows_of(a.dv, a.dv_strides, block.batch, block.kv_head);
  store_rows<Tile>(gdK, s.k + offset, rdK, a.scale, first_key, a.seq_k, first_col, a.head_dim);
  store_rows<Tile>(gdV, s.v + offset, rdV, 1.0f, first_key, a.seq_k, first_col, a.head_dim);
}

}  // namespace fa::ch08
