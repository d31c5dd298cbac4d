/// @file
/// The gradients under masks and dropout: the variant `dropout`. It draws again what the forward pass drew;
/// nothing is stored.
///
/// With Z, which is 1 / (1 - p) for the elements of P that are kept and 0 for the others, O = (P o Z) V. So
///
///   dV = (P o Z)^T dO    dP = (dO V^T) o Z    dS = P o (dP - D)
///
/// Z is a factor s = 1 / (1 - p) times a mask M of zeros and ones. dV, dK and dQ are summed without the
/// factor, and multiplied by it at the end.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward_tiles.cuh"
#include "backward_walks.cuh"
#include "block_mask.cuh"
#include "device/dropout.cuh"
#include "dropout.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

/// Which elements of P^T dropout keeps.
///
/// A lane holds two neighbouring queries and keys 8 apart: of 32 queries and 32 keys the elements of two
/// calls of Philox. Their places are those of Bits.
///
/// @param head  counts through all batches     @param first_query, first_key  of the fragments
template <class Tile>
__device__ __forceinline__ Bits draw_transposed(const Dropout& dropout, int head, int first_query,
                                                int first_key) {
  static_assert(Tile::kWarpRows == 32 && 32 % Tile::kScoreCols == 0);
  static_assert(Dropout::place(8, 16) == bit_of(1, 1, 0));
  const int query = first_query + threadIdx.x % 4 * 2, key = first_key + threadIdx.x % 32 / 4;
  const uint4 even = philox(Dropout::counter(head, query, key), dropout.keys),
              odd = philox(Dropout::counter(head, query + 1, key), dropout.keys);
  const Bits bits = kept_by(dropout, even, odd);
  return bits >> Dropout::place(first_query, 0);  // fragments of 16 queries may be the lower half of 32
}

/// P^T o M and dS^T / s = P^T o (M o dA^T - D / s), as operands.
/// @param rdA     dA^T = V dO^T
/// @param sDelta  D of the first query
template <class Tile>
__device__ __forceinline__ void dropped_operands(Operand<Tile>& p, Operand<Tile>& ds, const Scores<Tile>& rP,
                                                 const Scores<Tile>& rdA, Bits kept, const float* sDelta,
                                                 const Dropout& dropout) {
  using T = typename Tile::T;
#pragma unroll
  for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
    const float2 delta = *reinterpret_cast<const float2*>(sDelta + 8 * ni + threadIdx.x % 4 * 2);
    const float2 minus_delta = {dropout.minus_share * delta.x, dropout.minus_share * delta.y};  // -D / s
#pragma unroll
    for (int row = 0; row < 2 * Tile::kRowFragments; ++row) {
      const float *pP = row_pair(rP[row / 2][ni], row % 2), *pdA = row_pair(rdA[row / 2][ni], row % 2);
      const std::uint32_t mask = kept_pair(kept, bit_of(row / 2, ni, row % 2 * 2));
      std::uint32_t &of_p = p[row / 2][ni / 2][ni % 2 * 2 + row % 2],
                    &of_ds = ds[row / 2][ni / 2][ni % 2 * 2 + row % 2];
      // EXERCISE 11: Both elements of P o M in of_p, and of dS / s in of_ds.
      const float left = minus_delta.x * pP[0], right = minus_delta.y * pP[1];
      of_p = pack<T>(pP[0], pP[1]) & mask;
      of_ds =
          (pack<T>(pdA[0] * pP[0] + left, pdA[1] * pP[1] + right) & mask) | (pack<T>(left, right) & ~mask);
      // END 11
    }
  }
}

/// P^T o M and dS^T / s as operands, of the elements that exist.
template <class Tile>
__device__ __forceinline__ void dropped_p_and_ds(Operand<Tile>& p, Operand<Tile>& ds,
                                                 const BackwardBlock<Tile>& block,
                                                 const QueryTile<Tile>& tile, int query, Bits exist, int head,
                                                 const Dropout& dropout) {
  constexpr int d = Tile::kHeadDim;
  Scores<Tile> rP, rdA;
  mma_nt<Tile>(rP, block.s.k + block.keys.warp_key * d, tile.q + query * d);
  existing_probabilities<Tile>(rP, tile.lse + query, block.a, exist);
  mma_nt<Tile>(rdA, block.s.v + block.keys.warp_key * d, tile.d_o + query * d);
  const Bits kept = draw_transposed<Tile>(dropout, head, tile.first_query + query,
                                          block.keys.first_key + block.keys.warp_key);
  dropped_operands<Tile>(p, ds, rP, rdA, kept, tile.delta + query, dropout);
  block.partner.pass_p(query, p);
}

template <class Tile>
__device__ __forceinline__ void scale_gradient(KeyGradient<Tile>& r, float factor) {
#pragma unroll
  for (auto& of_rows : r) {
#pragma unroll
    for (auto& fragment : of_rows) {
#pragma unroll
      for (float& x : fragment) x *= factor;
    }
  }
}

/// compressed_gradients() with dropout. What it adds to dq_sum lacks the factor of Z as well.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    dropped_gradients(Backward<typename Tile::T> given, Masks masks, TileLists lists, Dropout dropout) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  ListedQueryTiles<Tile> walk(a, keys, masks, lists);
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
    add_partial_tile(rdV, rdK, block, tile, masks, head, dropped(tile, head));
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
    add_full_tile(rdV, rdK, block, tile, dropped(tile, head));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  scale_gradient<Tile>(rdV, dropout.scale);
  scale_gradient<Tile>(rdK, dropout.scale);
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

}  // namespace fa::ch11
