/// @file
/// The gradients of attention on tensor cores: 16 bits in, products summed in fp32.
///
/// Shapes and formulas as in kernel.cuh. A key that is hidden from a query, but not from all queries whose scores are
/// computed with its, has the weight 0 there. If its value is NaN or infinite, 0 times that is NaN.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "backward.cuh"
#include "device/cp_async.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "dq_sums.cuh"
#include "exchange.cuh"
#include "mma_tiles.cuh"
#include "products.cuh"
#include "rows.cuh"

namespace fa::ch08 {

// --- dQ by query tiles ---------------------------------------------------------------------------------------

/// dS from S and dP, in the place of dP, for the warp's queries and kScoreCols keys. Queries are rows.
/// @param lse  times log2 e     @param lse, delta  of rows lane / 4 + 8 * row
template <class Tile>
__device__ __forceinline__ void ds_of_queries(Fragments<Tile, Tile::kScoreCols>& rdS,
                                              const Fragments<Tile, Tile::kScoreCols>& rS,
                                              const float (&lse)[2 * Tile::kRowFragments],
                                              const float (&delta)[2 * Tile::kRowFragments],
                                              const Attention<typename Tile::T>& a, float factor, int lane,
                                              int first_query, int first_key, int key) {
  const bool masked =
      first_key + key + Tile::kScoreCols > a.visible_keys(first_query);  // which sees the fewest keys
#pragma unroll
  for (int row = 0; row < 2 * Tile::kRowFragments; ++row) {
    const int seen = a.visible_keys(first_query + 8 * row + lane / 4) - first_key - key - lane % 4 * 2;
#pragma unroll
    for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int i = row % 2 * 2 + odd;
        float p = ptx::exp2_approx(rS[row / 2][ni][i] * factor - lse[row]);
        if (masked && 8 * ni + odd >= seen) p = 0.0f;
        rdS[row / 2][ni][i] = p * (rdS[row / 2][ni][i] - delta[row]);
      }
    }
  }
}

/// dQ of a query tile, which stays while key tiles come by. Queries are rows: so dS is an operand A for dS K, and no warp
/// needs another one's.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads: a warp for kWarpRows queries
///   shared  Tile::kSharedBytes: Q and dO, kStages tiles of K and V
///   HBM     reads Q, dO, LSE and delta once, and the keys and values that the tile's last query sees; writes dQ
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_query_gradients(Backward<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kScoreCols = Tile::kScoreCols;
  constexpr int kLaneRows = 2 * Tile::kRowFragments;  // rows of which a lane has elements: lane / 4 + 8 * row
  const int query_tiles = (a.seq_q + Br - 1) / Br;
  const int head = blockIdx.x / query_tiles;
  const int first_query =
      (query_tiles - 1 - int(blockIdx.x % query_tiles)) * Br;  // under a mask, the longest first
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * Tile::kWarpRows;
  const int warp_query = first_query + warp_row;
  const size_t first = size_t(head) * a.seq_q + first_query;   // row of Q, dO and dQ
  const size_t first_row = size_t(a.kv_head(head)) * a.seq_k;  // of K and V
  const int keys = a.visible_keys(min(first_query + Br, a.seq_q) - 1);
  const float factor = a.scale * kLog2e;  // e^x = 2^(x * log2 e)

  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sdO = sQ + Tile::kQueryTile;
  T* sK = sdO + Tile::kQueryTile;               // [kStages]
  T* sV = sK + Tile::kStages * Tile::kKeyTile;  // [kStages]
  const auto load_keys = [&](int first_key, int stage) {
    const size_t at = (first_row + first_key) * d;
    copy_rows_async<Tile, Bc>(sK + stage * Tile::kKeyTile, a.k + at, keys - first_key);
    copy_rows_async<Tile, Bc>(sV + stage * Tile::kKeyTile, a.v + at, keys - first_key);
  };
  copy_rows_async<Tile, Br>(sQ, a.q + first * d, a.seq_q - first_query);
  copy_rows_async<Tile, Br>(sdO, a.d_o + first * d, a.seq_q - first_query);
  if (keys > 0) load_keys(0, 0);
  cp_async_commit();

  float lse[kLaneRows], delta[kLaneRows];
#pragma unroll
  for (int row = 0; row < kLaneRows; ++row) {
    const int query = warp_query + 8 * row + lane / 4;
    const bool inside = query < a.seq_q;
    lse[row] = inside ? a.lse[size_t(head) * a.seq_q + query] * kLog2e : 0.0f;
    delta[row] = inside ? a.delta[size_t(head) * a.seq_q + query] : 0.0f;
  }

  Fragments<Tile, d> rdQ = {};
  int stage = 0;
#pragma unroll 1
  for (int first_key = 0; first_key < keys; first_key += Bc) {
    cp_async_wait<0>();
    __syncthreads();  // the key tile is there; and no warp uses the one before
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
  __syncthreads();  // also without any key: the copies of Q have landed
  store_rows<Tile>(a.dq + (first + warp_row) * d, sQ + warp_row * d, rdQ, a.scale, a.seq_q - warp_query);
}

// --- dK and dV by key tiles ----------------------------------------------------------------------------------
//
// A block has a key tile, and its warps split the keys. They compute S^T = K Q^T and dP^T = V dO^T, not S and dP: then
// P^T and dS^T are already where an operand A has to be for dV = P^T dO and dK = dS^T Q. No element of them is moved.

/// P^T from S^T, in its place, for the warp's keys and kScoreCols queries. Queries are columns.
/// @param sLse  of the first query     @param first_key  of the warp
template <class Tile>
__device__ __forceinline__ void probabilities(Fragments<Tile, Tile::kScoreCols>& rS, const float* sLse,
                                              const Attention<typename Tile::T>& a, int first_query,
                                              int first_key) {
  const int lane = threadIdx.x % 32;
  const float factor = a.scale * kLog2e;
#pragma unroll
  for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
    const float2 lse = *reinterpret_cast<const float2*>(sLse + 8 * ni + lane % 4 * 2);
#pragma unroll
    for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        rS[mi][ni][i] = ptx::exp2_approx(rS[mi][ni][i] * factor - (i % 2 ? lse.y : lse.x) * kLog2e);
      }
    }
  }
  // The first query sees the fewest keys.
  if (first_key + Tile::kWarpRows <= a.visible_keys(first_query)) return;
#pragma unroll
  for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int seen = a.visible_keys(first_query + 8 * ni + lane % 4 * 2 + odd) - first_key - lane / 4;
#pragma unroll
      for (int row = 0; row < 2 * Tile::kRowFragments; ++row) {
        if (8 * row >= seen)
          rS[row / 2][ni][row % 2 * 2 + odd] = 0.0f;  // also where LSE is -inf, and P infinite
      }
    }
  }
}

/// dS^T = P^T * (dP^T - delta), for the same keys and queries, in the place of dP^T.
/// @param sDelta  of the first query
template <class Tile>
__device__ __forceinline__ void ds_from_dp(Fragments<Tile, Tile::kScoreCols>& rdS,
                                           const Fragments<Tile, Tile::kScoreCols>& rP, const float* sDelta) {
#pragma unroll
  for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
    const float2 delta = *reinterpret_cast<const float2*>(sDelta + 8 * ni + threadIdx.x % 4 * 2);
#pragma unroll
    for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        rdS[mi][ni][i] = rP[mi][ni][i] * (rdS[mi][ni][i] - (i % 2 ? delta.y : delta.x));
      }
    }
  }
}

/// P^T and dS^T, for the warp's keys and kScoreCols queries of a tile: in fp32, and as operands. P^T is passed to the
/// partner as well.
/// @param query  the first, in the tile     @param first_query  of the tile
template <class Tile>
__device__ __forceinline__ void p_and_ds(Fragments<Tile, Tile::kScoreCols>& rP,
                                         Fragments<Tile, Tile::kScoreCols>& rdS, Operand<Tile>& p,
                                         Operand<Tile>& ds, const KeyTileMemory<Tile>& s,
                                         const KeyBlock<Tile>& block, const PartnerOf<Tile>& partner,
                                         const Backward<typename Tile::T>& a, const typename Tile::T* q,
                                         const typename Tile::T* d_o, int stage, int query, int first_query) {
  constexpr int d = Tile::kHeadDim;
  mma_nt<Tile>(rP, s.k + block.warp_key * d, q + query * d);
  probabilities<Tile>(rP, s.lse + stage * Tile::Br + query, a, first_query + query,
                      block.first_key + block.warp_key);
  to_operand<Tile>(p, rP);
  mma_nt<Tile>(rdS, s.v + block.warp_key * d, d_o + query * d);
  partner.pass_p(query, p);
  ds_from_dp<Tile>(rdS, rP, s.delta + stage * Tile::Br + query);
  to_operand<Tile>(ds, rdS);
}

/// Stores the warp's part of dK and dV: K and V are no longer in use, and their place takes it.
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

/// dK and dV of a key tile, which stays while the query tiles of all heads that share it come by: the next one is on its
/// way while this one is in use.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: kWarpsPerKeys warps for kWarpRows keys
///   shared  Tile::kSharedBytes: K and V; two tiles of Q, dO, LSE and delta; P^T and dS^T if warps exchange them
///   HBM     reads K and V once; Q, dO, LSE and delta for each key tile, from the first query tile that sees it on;
///           writes dK and dV
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_key_gradients(Backward<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, kCols = Tile::kCols;
  const KeyBlock<Tile> block(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, block);
  QueryWalk<Tile> next(a, block);
  s.load_keys(a, block.first_row, a.seq_k - block.first_key);
  s.load_queries(0, a, next.head, next.first_query());
  cp_async_commit();

  Fragments<Tile, kCols> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (!next.done()) {
    cp_async_wait<0>();
    __syncthreads();  // the query tile is there; and no warp uses the one before, nor P and dS
    const int first_query = next.first_query();
    next.next();
    if (!next.done()) {
      s.load_queries(1 - stage, a, next.head, next.first_query());
      cp_async_commit();
    }
    const T *q = s.q + stage * Tile::kQueryTile, *d_o = s.d_o + stage * Tile::kQueryTile;
#pragma unroll 1
    for (int n = 0; n < Tile::Br / Tile::kScoreCols / Tile::kWarpsPerKeys; ++n) {
      const int query = (n * Tile::kWarpsPerKeys + block.part) * Tile::kScoreCols;
      Fragments<Tile, Tile::kScoreCols> rP, rdS;
      Operand<Tile> p, ds;
      p_and_ds(rP, rdS, p, ds, s, block, partner, a, q, d_o, stage, query, first_query);
      partner.pass_ds(query, ds);
      mma_nn<Tile>(rdV, p, d_o + query * d + block.part * kCols);
      mma_nn<Tile>(rdK, ds, q + query * d + block.part * kCols);
    }
    partner.wait();  // for its P and dS
    const int query = partner.first_query();
    Operand<Tile> other;
    partner.add_its_queries(rdV, rdK, other, query, q + query * d + block.part * kCols,
                            d_o + query * d + block.part * kCols);
    stage = 1 - stage;
  }
  __syncthreads();  // no warp uses K any more
  store_dk_and_dv(a, s, block, rdK, rdV);
}

// --- and dQ by atomic additions ------------------------------------------------------------------------------
//
// dQ = dS K sums over the keys of all warps, so each warp's dS goes to shared memory.

/// dK and dV as mma_key_gradients() computes them, with one tile of queries at a time; and this key tile's part of dQ.
///
///   grid, block   as mma_key_gradients()
///   shared  Tile::kSharedBytes: K and V; Q, dO, LSE and delta; dS^T, and P^T if warps exchange it
///   HBM     as mma_key_gradients(), and adds a whole tile to dq_sum each time that it reads one of Q
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_fused_gradients(Backward<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, kCols = Tile::kCols;
  const KeyBlock<Tile> block(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, block);
  QueryWalk<Tile> walk(a, block);
  s.load_keys(a, block.first_row, a.seq_k - block.first_key);
  cp_async_commit();

  Fragments<Tile, kCols> rdK = {}, rdV = {};
#pragma unroll 1
  while (!walk.done()) {
    __syncthreads();  // no warp uses the query tile before any more, nor P and dS
    s.load_queries(0, a, walk.head, walk.first_query());
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();  // the query tile is there
    const int first_query = walk.first_query();
    float* sums = a.dq_sum + (size_t(walk.head) * walk.end_tile + walk.tile) * Tile::kQueryTile;
    walk.next();
    const T *q = s.q, *d_o = s.d_o;
#pragma unroll 1
    for (int n = 0; n < Tile::Br / Tile::kScoreCols / Tile::kWarpsPerKeys; ++n) {
      const int query = (n * Tile::kWarpsPerKeys + block.part) * Tile::kScoreCols;
      Fragments<Tile, Tile::kScoreCols> rP, rdS;
      Operand<Tile> p, ds;
      p_and_ds(rP, rdS, p, ds, s, block, partner, a, q, d_o, 0, query, first_query);
      store_operand<Tile>(s.ds + block.warp_key * Tile::Br, query, ds);
      mma_nn<Tile>(rdV, p, d_o + query * d + block.part * kCols);
      mma_nn<Tile>(rdK, ds, q + query * d + block.part * kCols);
    }
    __syncthreads();  // dS of all warps is there, and P
    add_dq<Tile>(sums, s.ds, s.k);
    const int query = partner.first_query();
    Operand<Tile> other;
    partner.add_its_queries(rdV, rdK, other, query, q + query * d + block.part * kCols,
                            d_o + query * d + block.part * kCols);
  }
  __syncthreads();  // no warp uses K any more
  store_dk_and_dv(a, s, block, rdK, rdV);
}

/// mma_fused_gradients() with two tiles of queries: the next one is on its way while this one is in use. One barrier less
/// for each.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_pipelined_gradients(Backward<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, kCols = Tile::kCols;
  const KeyBlock<Tile> block(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, block);
  QueryWalk<Tile> next(a, block);
  s.load_keys(a, block.first_row, a.seq_k - block.first_key);
  s.load_queries(0, a, next.head, next.first_query());
  cp_async_commit();

  Fragments<Tile, kCols> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (!next.done()) {
    cp_async_wait<0>();
    __syncthreads();  // the query tile is there; and no warp uses the one before, nor P and dS
    const int first_query = next.first_query();
    float* sums = a.dq_sum + (size_t(next.head) * next.end_tile + next.tile) * Tile::kQueryTile;
    next.next();
    if (!next.done()) {
      s.load_queries(1 - stage, a, next.head, next.first_query());
      cp_async_commit();
    }
    const T *q = s.q + stage * Tile::kQueryTile, *d_o = s.d_o + stage * Tile::kQueryTile;
#pragma unroll 1
    for (int n = 0; n < Tile::Br / Tile::kScoreCols / Tile::kWarpsPerKeys; ++n) {
      const int query = (n * Tile::kWarpsPerKeys + block.part) * Tile::kScoreCols;
      Fragments<Tile, Tile::kScoreCols> rP, rdS;
      Operand<Tile> p, ds;
      p_and_ds(rP, rdS, p, ds, s, block, partner, a, q, d_o, stage, query, first_query);
      store_operand<Tile>(s.ds + block.warp_key * Tile::Br, query, ds);
      mma_nn<Tile>(rdV, p, d_o + query * d + block.part * kCols);
      mma_nn<Tile>(rdK, ds, q + query * d + block.part * kCols);
    }
    __syncthreads();  // dS of all warps is there, and P
    add_dq<Tile>(sums, s.ds, s.k);
    const int query = partner.first_query();
    Operand<Tile> other;
    partner.add_its_queries(rdV, rdK, other, query, q + query * d + block.part * kCols,
                            d_o + query * d + block.part * kCols);
    stage = 1 - stage;
  }
  __syncthreads();  // no warp uses K any more
  store_dk_and_dv(a, s, block, rdK, rdV);
}

}  // namespace fa::ch08
