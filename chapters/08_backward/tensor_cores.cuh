/// @file
/// The gradients of attention on tensor cores, one block per key tile: 16-bit inputs, fp32 sums.
///
/// Shapes and formulas are those of fp32.cuh. Read query_gradients.cuh first: it is simpler.
///
/// A block owns a key tile, and its warps split the keys. They compute S^T = K Q^T and dP^T = V dO^T instead
/// of S and dP. The registers of P^T and dS^T then already form operand A of dV = P^T dO and dK = dS^T Q: no
/// element moves.
///
/// A warp computes scores for some queries that do not see its keys, and gives them weight 0. If V of such a
/// key is NaN or infinite, 0 times that is NaN.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "backward.cuh"
#include "device/cp_async.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "dq_sums.cuh"
#include "exchange.cuh"
#include "key_tiles.cuh"
#include "products.cuh"
#include "rows.cuh"

namespace fa::ch08 {

// --- P and dS ----------------------------------------------------------------------------------------------

/// Overwrites S^T with P^T, for the warp's keys and kScoreCols queries. Queries are columns.
/// @param sLse  LSE of the first query     @param first_key  first key of the warp
template <class Tile>
__device__ __forceinline__ void probabilities(Fragments<Tile, Tile::kScoreCols>& rS, const float* sLse,
                                              const Attention<typename Tile::T>& a, int first_query,
                                              int first_key) {
  const int lane = threadIdx.x % 32;
  const float factor = a.exp2_scale;
#pragma unroll
  for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
    // EXERCISE 7: rS[mi][ni] holds products q.k. Turn them into P, for all mi. A row is a key, a column is a query.
    const float2 lse = *reinterpret_cast<const float2*>(sLse + 8 * ni + lane % 4 * 2);
#pragma unroll
    for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        rS[mi][ni][i] = ptx::exp2_approx(fmaf(rS[mi][ni][i], factor, -(i % 2 ? lse.y : lse.x) * kLog2e));
      }
    }
    // END 7
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
        if (8 * row >= seen) row_pair(rS[row / 2][ni], row % 2)[odd] = 0.0f;
      }
    }
  }
}

/// Overwrites dP^T with dS^T = P^T * (dP^T - delta), for the same keys and queries.
/// @param sDelta  delta of the first query
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

/// P^T and dS^T of the warp's keys and kScoreCols queries, rounded, as operands A. Also passes P^T to the
/// partner.
/// @param query  the first of them, counted from tile.first_query
template <class Tile>
__device__ __forceinline__ void p_and_ds(Operand<Tile>& p, Operand<Tile>& ds, const KeyTileMemory<Tile>& s,
                                         const KeyBlock<Tile>& block, const PartnerOf<Tile>& partner,
                                         const Backward<typename Tile::T>& a, const QueryTile<Tile>& tile,
                                         int query) {
  constexpr int d = Tile::kHeadDim;
  Fragments<Tile, Tile::kScoreCols> rP, rdS;
  // EXERCISE 8: Compute S^T, then P^T in rP and, rounded, in p; and dP^T in rdS.
  mma_nt<Tile>(rP, s.k + block.warp_key * d, tile.q + query * d);
  probabilities<Tile>(rP, tile.lse + query, a, tile.first_query + query, block.first_key + block.warp_key);
  to_operand<Tile>(p, rP);
  mma_nt<Tile>(rdS, s.v + block.warp_key * d, tile.d_o + query * d);
  // END 8
  partner.pass_p(query, p);
  ds_from_dp<Tile>(rdS, rP, tile.delta + query);
  to_operand<Tile>(ds, rdS);
}

/// dV += P^T dO and dK += dS^T Q, for the same queries and the warp's columns.
template <class Tile>
__device__ __forceinline__ void add_dv_and_dk(Fragments<Tile, Tile::kCols>& rdV,
                                              Fragments<Tile, Tile::kCols>& rdK, const Operand<Tile>& p,
                                              const Operand<Tile>& ds, const KeyBlock<Tile>& block,
                                              const QueryTile<Tile>& tile, int query) {
  const int offset = query * Tile::kHeadDim + block.part * Tile::kCols;
  mma_nn<Tile>(rdV, p, tile.d_o + offset);
  mma_nn<Tile>(rdK, ds, tile.q + offset);
}

// --- dK and dV ---------------------------------------------------------------------------------------------

/// dK and dV of a key tile, which stays on the chip. The block loops over the query tiles of all heads that
/// share it, and prefetches the next one while it uses the current one.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: kWarpsPerKeys warps per kWarpRows keys
///   shared  Tile::kSharedBytes: K and V; two tiles of Q, dO, LSE and delta; P^T and dS^T if warps exchange
///           them
///   HBM     reads K and V once; Q, dO, LSE and delta for each key tile, from the first query tile that sees
///           it on; writes dK and dV
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_key_gradients(Backward<typename Tile::T> a) {
  const KeyBlock<Tile> block(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, block);
  QueryWalk<Tile> walk(a, block);  // in the loop it is one tile ahead
  const auto load_queries = [&](int stage) { s.load_queries(stage, a, walk); };
  s.pad_columns(cols_of<Tile>(a));
  s.load_keys(a, block);
  load_queries(0);
  cp_async_commit();

  Fragments<Tile, Tile::kCols> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    walk.next();
    if (!walk.done()) {
      load_queries(1 - stage);
      cp_async_commit();
    }
#pragma unroll 1
    for (int n = 0; n < Tile::kScoreSteps; ++n) {
      const int query = block.query(n);
      Operand<Tile> p, ds;
      p_and_ds(p, ds, s, block, partner, a, tile, query);
      partner.pass_ds(query, ds);
      add_dv_and_dk(rdV, rdK, p, ds, block, tile, query);
    }
    partner.wait();  // until its P and dS are stored: a barrier, or nothing without a partner
    partner.add_its_queries(rdV, rdK, tile);
    stage = 1 - stage;
  }
  __syncthreads();  // no warp reads K and V any more, whose buffers dK and dV pass through
  store_dk_and_dv(a, s, block, rdK, rdV);
}

// --- and dQ, by atomic additions ---------------------------------------------------------------------------

/// Adds dS K of the key tile, without the scale, to the sums of the query tile: this warp's rows and 32
/// columns. The product sums over the keys of all warps, so it reads dS^T from shared memory, where each warp
/// has stored its part. Queries that do not exist have dS = 0. Columns from head_dim on are not added.
/// @param sdS  dS^T, [Bc, Br]
template <class Tile>
__device__ __forceinline__ void add_dq(float* sums, const typename Tile::T* sdS, const typename Tile::T* sK,
                                       int head_dim) {
  using T = typename Tile::T;
  using Rows = typename Tile::Rows;
  using PRows = typename Tile::PRows;
  const int lane = threadIdx.x % 32;
  const Coord part = element_of_dq<Tile>(0, 0, 0), corner = element_of_c(lane, 0);
  // EXERCISE 9: Which row of a 16 x 16 tile must the lane pass to ldmatrix_transposed: of dS^T for A, of K for B?
  // A's registers hold its quarters down first, then right. In dS^T these quarters are right first, then
  // down.
  const Coord from_a = row_for_b(lane), from_b = row_for_a(lane);
  // END 9
  const int at_a = PRows::advance(PRows::offset(from_a.row, from_a.col), 0, part.row - corner.row);
  const int at_b = Rows::advance(Rows::offset(from_b.row, from_b.col), 0, part.col - corner.col);
  float rdQ[Tile::kDqRowFragments][4][4] = {};
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step) {
    std::uint32_t a[Tile::kDqRowFragments][4];
#pragma unroll
    for (int mi = 0; mi < Tile::kDqRowFragments; ++mi) {
      ldmatrix_transposed(a[mi], sdS + PRows::advance(at_a, 16 * step, 16 * mi));
    }
#pragma unroll
    for (int ni = 0; ni < 2; ++ni) {
      std::uint32_t b[4];
      ldmatrix_transposed(b, sK + Rows::advance(at_b, 16 * step, 16 * ni));
#pragma unroll
      for (int mi = 0; mi < Tile::kDqRowFragments; ++mi) {
        mma_16_columns<T>(rdQ[mi] + 2 * ni, a[mi], b);
      }
    }
  }
#pragma unroll
  for (int mi = 0; mi < Tile::kDqRowFragments; ++mi) {
#pragma unroll
    for (int ni = 0; ni < 4; ++ni) {
      if (part.col - corner.col + 8 * ni < head_dim)
        Tile::Sums::add(sums, fragment_of_dq<Tile>(mi, ni), rdQ[mi][ni]);
    }
  }
}

/// dK and dV as in mma_key_gradients(), with one query tile in shared memory; and this key tile's
/// contribution to dQ.
///
///   grid, block   as mma_key_gradients()
///   shared  Tile::kSharedBytes: K and V; Q, dO, LSE and delta; dS^T, and P^T if warps exchange it
///   HBM     as mma_key_gradients(), and adds a whole tile to dq_sum for each tile of Q that it reads
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_fused_gradients(Backward<typename Tile::T> a) {
  const KeyBlock<Tile> block(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, block);
  QueryWalk<Tile> walk(a, block);
  s.pad_columns(cols_of<Tile>(a));
  s.load_keys(a, block);
  cp_async_commit();

  Fragments<Tile, Tile::kCols> rdK = {}, rdV = {};
#pragma unroll 1
  while (!walk.done()) {
    __syncthreads();  // no warp reads the previous query tile, P or dS any more
    s.load_queries(0, a, walk);
    cp_async_commit();
    cp_async_wait<0>();
    s.resolve_lse(0);
    __syncthreads();  // the query tile has landed
    const QueryTile<Tile> tile = s.query_tile(0, walk.first_query());
    float* sums = walk.sums_of_dq(a);
    walk.next();
#pragma unroll 1
    for (int n = 0; n < Tile::kScoreSteps; ++n) {
      const int query = block.query(n);
      Operand<Tile> p, ds;
      p_and_ds(p, ds, s, block, partner, a, tile, query);
      store_operand<Tile>(s.ds + block.warp_key * Tile::Br, query, ds);
      add_dv_and_dk(rdV, rdK, p, ds, block, tile, query);
    }
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums, s.ds, s.k, cols_of<Tile>(a));
  }
  __syncthreads();  // no warp reads K and V any more
  store_dk_and_dv(a, s, block, rdK, rdV);
}

/// mma_fused_gradients() with two query tiles in shared memory: the next one is prefetched while the current
/// one is in use, and a step has one fewer barrier.
///
///   grid, block, shared, HBM   as mma_fused_gradients(), with two tiles of Q, dO, LSE and delta
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_pipelined_gradients(Backward<typename Tile::T> a) {
  const KeyBlock<Tile> block(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, block);
  QueryWalk<Tile> walk(a, block);  // in the loop it is one tile ahead
  const auto load_queries = [&](int stage) { s.load_queries(stage, a, walk); };
  s.pad_columns(cols_of<Tile>(a));
  s.load_keys(a, block);
  load_queries(0);
  cp_async_commit();

  Fragments<Tile, Tile::kCols> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (!walk.done()) {
    // EXERCISE 10: Wait for the tile that `walk` is at, and define its `tile` and `sums`. Start copying the next one.
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    float* sums = walk.sums_of_dq(a);
    walk.next();
    if (!walk.done()) {
      load_queries(1 - stage);
      cp_async_commit();
    }
    // END 10
#pragma unroll 1
    for (int n = 0; n < Tile::kScoreSteps; ++n) {
      const int query = block.query(n);
      Operand<Tile> p, ds;
      p_and_ds(p, ds, s, block, partner, a, tile, query);
      store_operand<Tile>(s.ds + block.warp_key * Tile::Br, query, ds);
      add_dv_and_dk(rdV, rdK, p, ds, block, tile, query);
    }
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums, s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  __syncthreads();  // no warp reads K and V any more
  store_dk_and_dv(a, s, block, rdK, rdV);
}

}  // namespace fa::ch08
