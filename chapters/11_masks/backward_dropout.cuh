/// @file
/// The gradients under masks and dropout: the variant `dropout`. It draws again what the forward pass drew; nothing is stored.
///
/// With Z, which is 1 / (1 - p) for the elements of P that are kept and 0 for the others, O = (P o Z) V. So
///
///   dV = (P o Z)^T dO    dP = (dO V^T) o Z    dS = P o (dP - D)
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward_tiles.cuh"
#include "backward_walks.cuh"
#include "device/dropout.cuh"
#include "lists.cuh"
#include "masks.cuh"

namespace fa::ch11 {

/// Which elements of P^T dropout keeps.
///
/// A lane holds two neighbouring queries and keys 8 apart: of 32 queries and 32 keys the elements of two calls of Philox. The top
/// bit of each byte of a call's word is the answer for a key and for queries 8 apart: this is the order of Bits.
///
/// @param head  counts through all batches     @param first_query, first_key  of the fragments
template <class Tile>
__device__ __forceinline__ Bits kept_by(const Dropout& dropout, int head, int first_query, int first_key) {
  static_assert(Tile::kWarpRows == 32 && 32 % Tile::kScoreCols == 0);
  const int lane = threadIdx.x % 32;
  Bits bits = 0;
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    std::uint32_t of_keys[4];
    dropout.keeps(of_keys, head, first_query + lane % 4 * 2 + odd, first_key + lane / 4);
#pragma unroll
    for (int row = 0; row < 4; ++row) {
      const int at = bit_of(row / 2, 0, row % 2 * 2 + odd);
      bits |= of_keys[row] >> (7 - at) & 0x01010101 << at;
    }
  }
  return bits >> first_query % 32;  // fragments of 16 queries may be the upper half of 32
}

/// dP = (dO V^T) o Z: a factor for what is kept, 0 for the rest. As a product, it shares an instruction with the subtraction of D.
template <class Tile>
__device__ __forceinline__ void multiply_by_z(Scores<Tile>& rdP, Bits kept, float factor) {
#pragma unroll
  for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
#pragma unroll
    for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
#pragma unroll
      for (int i = 0; i < 4; ++i) rdP[mi][ni][i] *= (kept >> bit_of(mi, ni, i) & 1) != 0 ? factor : 0.0f;
    }
  }
}

/// P^T o Z, without the factor of Z, and dS^T, as operands; of the elements that exist.
template <class Tile>
__device__ __forceinline__ void dropped_p_and_ds(Operand<Tile>& p, Operand<Tile>& ds,
                                                 const BackwardBlock<Tile>& block,
                                                 const QueryTile<Tile>& tile, int query, Bits exist, int head,
                                                 const Dropout& dropout) {
  constexpr int d = Tile::kHeadDim;
  const int first_query = tile.first_query + query, first_key = block.keys.first_key + block.keys.warp_key;
  const Bits kept = kept_by<Tile>(dropout, head, first_query, first_key);
  Scores<Tile> rP, rKept, rdS;
  mma_nt<Tile>(rP, block.s.k + block.keys.warp_key * d, tile.q + query * d);
  probabilities<Tile>(rP, tile.lse + query, block.a, first_query, first_key);
  keep<Tile>(rP, rP, exist);
  // EXERCISE 11: rP is P. Make p what dV needs, without the factor 1 / (1 - p), and compute dS in rdS.
  keep<Tile>(rKept, rP, kept);
  to_operand<Tile>(p, rKept);
  mma_nt<Tile>(rdS, block.s.v + block.keys.warp_key * d, tile.d_o + query * d);
  multiply_by_z<Tile>(rdS, kept, dropout.scale);  // dP
  ds_from_dp<Tile>(rdS, rP, tile.delta + query);
  // END 11
  block.partner.pass_p(query, p);
  to_operand<Tile>(ds, rdS);
}

template <class Tile>
__device__ __forceinline__ void scale_gradient(KeyGradient<Tile>& rdV, float factor) {
#pragma unroll
  for (auto& of_rows : rdV) {
#pragma unroll
    for (auto& fragment : of_rows) {
#pragma unroll
      for (float& x : fragment) x *= factor;
    }
  }
}

/// compressed_gradients() with dropout.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    dropped_gradients(Backward<typename Tile::T> given, Masks masks, TileLists lists, Dropout dropout) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  ListedQueries<Tile> walk(a, keys, masks, lists);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
  const auto dropped = [&](const QueryTile<Tile>& tile, int head) {
    return [&, head](Operand<Tile>& p, Operand<Tile>& ds, int query, Bits exist) {
      dropped_p_and_ds(p, ds, block, tile, query, exist, head, dropout);
    };
  };
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    const bool partial = walk.partial;
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    if (partial) {
      add_partial_tile(rdV, rdK, block, tile, masks, head, dropped(tile, head));
    } else {
      add_full_tile(rdV, rdK, block, tile, dropped(tile, head));
    }
    __syncthreads();  // dS and P of all warps are stored
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    partner.add_its_queries(rdV, rdK, tile);
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  scale_gradient<Tile>(rdV, dropout.scale);
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

}  // namespace fa::ch11
