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
#include "device/reduce.cuh"
#include "lists.cuh"
#include "masks.cuh"

namespace fa::ch11 {

/// The lower or the upper halves of two words.
__device__ __forceinline__ std::uint32_t halves(std::uint32_t a, std::uint32_t b, bool upper) {
  return upper ? a >> 16 | (b & 0xffff0000) : (a & 0xffff) | b << 16;
}

/// Which elements of P^T dropout keeps.
///
/// A call of Philox decides elements of two neighbouring keys and of queries 8 apart: what a lane holds of P. Of P^T, a lane
/// holds two neighbouring queries and keys 8 apart. It needs one half of each word of two calls, and the lane 4 further on needs
/// the other halves. Each of the two makes one call, and they exchange halves.
///
/// @param head  counts through all batches     @param first_query, first_key  of the fragments, multiples of 16
template <class Tile>
__device__ __forceinline__ Bits kept_by(const Dropout& dropout, int head, int first_query, int first_key) {
  const int lane = threadIdx.x % 32, key = lane / 4, odd = key % 2;
  Bits bits = 0;
#pragma unroll 1
  for (int step = 0; step < Tile::kScoreCols / 16; ++step) {
#pragma unroll
    for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
      const int query =
          lane % 4 * 2 + odd;  // of this lane's call; the other lane makes the one of its neighbour
      const uint4 word = dropout.bits(head, first_query + 16 * step + query, first_key + 16 * mi + key);
      const std::uint32_t mine[2] = {halves(word.x, word.y, odd), halves(word.z, word.w, odd)};
      const std::uint32_t from[2] = {__shfl_xor_sync(kAllLanes, halves(word.x, word.y, !odd), 4),
                                     __shfl_xor_sync(kAllLanes, halves(word.z, word.w, !odd), 4)};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int below = i / 2 % 2;                                          // whether 8 keys further on
        const std::uint32_t both = i % 2 == odd ? mine[below] : from[below];  // queries 8 apart
        const std::uint32_t random = i / 4 == 0 ? both & 0xffff : both >> 16;
        bits |= Bits(dropout.keeps(random)) << bit_of(mi, 2 * step + i / 4, i % 4);
      }
    }
  }
  return bits;
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
  keep<Tile>(rdS, rdS, kept, dropout.scale);  // dP
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
  const auto wait_and_prefetch = [&] {
    cp_async_wait<0>();
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
  };
  const auto add_to_dq = [&](const QueryTile<Tile>& tile, int head) {
    __syncthreads();  // dS and P of all warps are stored
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    partner.add_its_queries(rdV, rdK, tile);
    stage = 1 - stage;
  };
#pragma unroll 1
  while (walk.partial) {
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    wait_and_prefetch();
    add_partial_tile(rdV, rdK, block, tile, masks, head, dropped(tile, head));
    add_to_dq(tile, head);
  }
#pragma unroll 1
  while (!walk.done()) {
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    wait_and_prefetch();
    add_full_tile(rdV, rdK, block, tile, dropped(tile, head));
    add_to_dq(tile, head);
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  scale_gradient<Tile>(rdV, dropout.scale);
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

}  // namespace fa::ch11
