/// @file
/// dQ on tensor cores, one block per query tile: 16-bit inputs, fp32 sums. The simplest of the tensor-core
/// kernels.
///
/// Shapes and formulas are those of fp32.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "backward.cuh"
#include "device/cp_async.cuh"
#include "device/declare_rows.cuh"
#include "device/math.cuh"
#include "device/padding.cuh"
#include "device/ptx.cuh"
#include "device/swizzle.cuh"
#include "products.cuh"
#include "rows.cuh"

namespace fa::ch08 {

/// Tile sizes of `mma_query_gradients`. @tparam kQueries  Br
template <class Element, int kHeadDimension, int kQueries = 128>
struct MmaQueryTiles {
  using T = Element;
  using Rows = Swizzled<kHeadDimension>;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = kQueries;                          ///< queries of a block
  static constexpr int Bc = kHeadDim <= 64 ? 64 : 32;          ///< keys of a step
  static constexpr int kWarpRows = kHeadDim <= 128 ? 32 : 16;  ///< queries of a warp
  static constexpr int kWarps = Br / kWarpRows;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocksPerSm = kHeadDim <= 128 ? 2 : 1;
  static constexpr int kRowFragments = kWarpRows / 16;  ///< rows of fragments of a warp
  static constexpr int kScoreCols = 32;                 ///< keys whose S and dP are in registers
  static constexpr int kCols = kHeadDim;                ///< columns of dQ of a warp
  static constexpr int kStages = 2;                     ///< tiles of K and V in shared memory
  static constexpr int kQueryTile = Br * kHeadDim, kKeyTile = Bc * kHeadDim;  ///< elements
  static constexpr int kSharedBytes = int(sizeof(T)) * (2 * kQueryTile + kStages * 2 * kKeyTile);
};

/// Overwrites dP with dS, for the warp's queries and kScoreCols keys. Queries are rows.
/// @param lse     of rows lane / 4 + 8 * row, times log2 e     @param delta  of the same rows
/// @param factor  scale * log2 e
/// @param key    the first key, counted from first_key
template <class Tile>
__device__ __forceinline__ void ds_of_queries(Fragments<Tile, Tile::kScoreCols>& rdS,
                                              const Fragments<Tile, Tile::kScoreCols>& rS,
                                              const float (&lse)[2 * Tile::kRowFragments],
                                              const float (&delta)[2 * Tile::kRowFragments],
                                              const Attention<typename Tile::T>& a, float factor, int lane,
                                              int first_query, int first_key, int key) {
  const bool masked =
      first_key + key + Tile::kScoreCols > a.visible_keys(first_query);  // it sees the fewest keys
#pragma unroll
  for (int row = 0; row < 2 * Tile::kRowFragments; ++row) {
    const int seen = a.visible_keys(first_query + 8 * row + lane / 4) - first_key - key - lane % 4 * 2;
#pragma unroll
    for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        float p = ptx::exp2_approx(fmaf(row_pair(rS[row / 2][ni], row % 2)[odd], factor, -lse[row]));
        if (masked && 8 * ni + odd >= seen) p = 0.0f;
        float& ds = row_pair(rdS[row / 2][ni], row % 2)[odd];
        ds = p * (ds - delta[row]);
      }
    }
  }
}

/// dQ of a query tile, which stays on the chip while the block loops over the keys. Queries are rows, so the
/// registers of dS already form operand A of dS K, and no warp needs another warp's dS. The next key tile is
/// prefetched while the current one is in use.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads: one warp per kWarpRows queries
///   shared  Tile::kSharedBytes: Q and dO, kStages tiles of K and V
///   HBM     reads Q, dO, LSE and delta once, and the keys and values that the tile's last query sees; writes
///           dQ
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_query_gradients(Backward<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kScoreCols = Tile::kScoreCols;
  constexpr int kLaneRows = 2 * Tile::kRowFragments;  // rows in which a lane has elements: lane / 4 + 8 * row
  const int query_tiles = (a.seq_q + Br - 1) / Br;
  const int head = blockIdx.x / query_tiles;
  const int first_query =
      (query_tiles - 1 - int(blockIdx.x % query_tiles)) * Br;  // under a mask, the longest blocks first
  // Broadcast by lane 0, as in KeyBlock.
  const int lane = threadIdx.x % 32, warp_row = __shfl_sync(kAllLanes, threadIdx.x / 32, 0) * Tile::kWarpRows;
  const int warp_query = first_query + warp_row;
  const auto gK = a.k_rows(head), gV = a.v_rows(head);
  const int keys = a.visible_keys(min(first_query + Br, a.seq_q) - 1);
  const float factor = a.exp2_scale;  // e^x = 2^(x * log2 e)

  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sdO = sQ + Tile::kQueryTile;
  T* sK = sdO + Tile::kQueryTile;               // [kStages]
  T* sV = sK + Tile::kStages * Tile::kKeyTile;  // [kStages]
  declare_rows<typename Tile::Rows>(sQ, sdO, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, 2 * (Br + Tile::kStages * Bc), a.head_dim);
  const auto load_keys = [&](int first_key, int stage) {
    copy_rows_async<Tile, Bc>(sK + stage * Tile::kKeyTile, gK, first_key, keys, a.head_dim);
    copy_rows_async<Tile, Bc>(sV + stage * Tile::kKeyTile, gV, first_key, keys, a.head_dim);
  };
  const auto gdO = a.rows_of_query_head(a.d_o, a.d_o_strides, head);
  copy_rows_async<Tile, Br>(sQ, a.q_rows(head), first_query, a.seq_q, a.head_dim);
  copy_rows_async<Tile, Br>(sdO, gdO, first_query, a.seq_q, a.head_dim);
  if (keys > 0) load_keys(0, 0);
  cp_async_commit();

  float lse[kLaneRows], delta[kLaneRows];
#pragma unroll
  for (int row = 0; row < kLaneRows; ++row) {
    const int query = warp_query + 8 * row + lane / 4;
    const bool inside = query < a.seq_q;
    lse[row] = inside ? resolved_lse(a.lse[size_t(head) * a.seq_q + query]) * kLog2e : 0.0f;
    delta[row] = inside ? a.delta[size_t(head) * a.seq_q + query] : 0.0f;
  }

  Fragments<Tile, d> rdQ = {};
  int stage = 0;
#pragma unroll 1
  for (int first_key = 0; first_key < keys; first_key += Bc) {
    cp_async_wait<0>();
    __syncthreads();  // the key tile has landed, and no warp still reads the previous one
    if (first_key + Bc < keys) {
      load_keys(first_key + Bc, 1 - stage);
      cp_async_commit();
    }
#pragma unroll 1
    for (int key = 0; key < Bc; key += kScoreCols) {
      const T *k = sK + stage * Tile::kKeyTile + key * d, *v = sV + stage * Tile::kKeyTile + key * d;
      Fragments<Tile, kScoreCols> rS, rdS;
      mma_nt<Tile>(rS, sQ + warp_row * d, k);
      mma_nt<Tile>(rdS, sdO + warp_row * d, v);  // dP
      ds_of_queries<Tile>(rdS, rS, lse, delta, a, factor, lane, warp_query, first_key, key);
      Operand<Tile> ds;
      to_operand<Tile>(ds, rdS);
      mma_nn<Tile>(rdQ, ds, k);
    }
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // for rows without any key: the loop has not waited for Q, whose buffer is reused now
  const auto gdQ = a.rows_of_query_head(a.dq, a.dq_strides, head);
  store_rows<Tile>(gdQ, sQ + warp_row * d, rdQ, a.scale, warp_query, a.seq_q, 0, a.head_dim);
}

}  // namespace fa::ch08
