/// @file
/// The gradients under masks with functions of the scores: the variant `scores`.
///
/// With S = f(scale * Q K^T), element by element, and f' there:
///
///   P = exp(S - LSE)    dS = P o (dP - D) o f'
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward_tiles.cuh"
#include "backward_walks.cuh"
#include "block_mask.cuh"
#include "device/convert.cuh"
#include "device/fragments.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "mask_mod.cuh"
#include "score_mod.cuh"

namespace fa::ch11 {

/// From products q.k to P^T, rounded, as operand. What remains in rS is P^T o f', not rounded. Both are 0
/// where an element does not exist.
/// @param sLse  LSE of the first query     @param first_key  of the warp
template <class Tile>
__device__ __forceinline__ void changed_probabilities(Operand<Tile>& p, Scores<Tile>& rS, const float* sLse,
                                                      float scale, const ScoreMod& score_mod, int first_query,
                                                      int first_key, Bits exist) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
    const int query = 8 * ni + lane % 4 * 2;
    const float2 lse = *reinterpret_cast<const float2*>(sLse + query);
#pragma unroll
    for (int row = 0; row < 2 * Tile::kRowFragments; ++row) {
      float* pair = row_pair(rS[row / 2][ni], row % 2);
      float rounded[2];
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const ModifiedScore s =
            score_mod(scale * pair[odd], first_query + query + odd, first_key + 8 * row + lane / 4);
        const bool exists = (exist >> bit_of(row / 2, ni, row % 2 * 2 + odd) & 1) != 0;
        rounded[odd] = exists ? ptx::exp2_approx((s.score - (odd ? lse.y : lse.x)) * kLog2e) : 0.0f;
        pair[odd] = rounded[odd] * s.derivative;
      }
      p[row / 2][ni / 2][ni % 2 * 2 + row % 2] = pack<typename Tile::T>(rounded[0], rounded[1]);
    }
  }
}

/// P^T and dS^T as operands, of the elements that exist.
template <class Tile>
__device__ __forceinline__ void changed_p_and_ds(Operand<Tile>& p, Operand<Tile>& ds,
                                                 const BackwardBlock<Tile>& block,
                                                 const QueryTile<Tile>& tile, int query, Bits exist,
                                                 const ScoreMod& score_mod) {
  constexpr int d = Tile::kHeadDim;
  const int first_query = tile.first_query + query, first_key = block.keys.first_key + block.keys.warp_key;
  Scores<Tile> rP, rdS;
  mma_nt<Tile>(rP, block.s.k + block.keys.warp_key * d, tile.q + query * d);
  changed_probabilities<Tile>(p, rP, tile.lse + query, block.a.scale, score_mod, first_query, first_key,
                              exist);
  mma_nt<Tile>(rdS, block.s.v + block.keys.warp_key * d, tile.d_o + query * d);
  block.partner.pass_p(query, p);
  ds_from_dp<Tile>(rdS, rP, tile.delta + query);  // P o f' instead of P
  to_operand<Tile>(ds, rdS);
}

/// compressed_gradients() with a function of the scores.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    changed_gradients(Backward<typename Tile::T> given, Masks masks, TileLists lists, ScoreMods score_mods) {
  const Backward<typename Tile::T> a = without_mask(given);
  const HeadRow at = row_of_block(lists, masks, a.heads / a.kv_heads);
  const KeyBlock<Tile> keys(a, at.head, at.row);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  ListedQueryTiles<Tile> walk(a, keys, masks, lists, at);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
  const auto changed = [&](const QueryTile<Tile>& tile, int head) {
    return [&, head](Operand<Tile>& p, Operand<Tile>& ds, int query, Bits exist) {
      changed_p_and_ds(p, ds, block, tile, query, exist, score_mods.of(head));
    };
  };
#pragma unroll 1
  while (walk.partial) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    add_partial_tile(rdV, rdK, block, tile, masks, head, changed(tile, head));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    add_full_tile(rdV, rdK, block, tile, changed(tile, head));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

}  // namespace fa::ch11
