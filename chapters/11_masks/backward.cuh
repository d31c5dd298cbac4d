/// @file
/// The gradients of attention under masks, with dropout and score mods, on tensor cores: chapter 08's
/// mma_pipelined_gradients(), which visits fewer query tiles.
///
/// Shapes and formulas are those of chapter 08. A score that a mask hides has P = 0 and dS = 0. Keys that no
/// query sees have gradients of 0, as do queries that see no key. All kernels here have
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: kWarpsPerKeys warps per kWarpRows keys
///   shared  Tile::kSharedBytes: K and V; two tiles of Q, dO, LSE and delta; dS^T, and P^T if warps exchange
///           it
///   HBM     reads K and V once, as far as this batch has keys; Q, dO, LSE and delta of each query tile that
///           it visits, and adds a whole tile to dq_sum; writes dK and dV
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "08_backward/key_tiles.cuh"
#include "08_backward/tensor_cores.cuh"
#include "block_mask.cuh"
#include "device/convert.cuh"
#include "device/dropout.cuh"
#include "device/fragments.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "dropped.cuh"
#include "mask_mod.cuh"
#include "mods.cuh"
#include "score_mod.cuh"

namespace fa::ch11 {

// The pieces of chapter 08's kernels: all but their walk over the query tiles, and their masks.
using ch08::add_dq, ch08::add_dv_and_dk, ch08::cols_of, ch08::ds_from_dp, ch08::mma_nn, ch08::mma_nt;
using ch08::Backward, ch08::Fragments, ch08::KeyBlock, ch08::KeyTileMemory, ch08::Operand, ch08::PartnerOf;
using ch08::probabilities, ch08::store_dk_and_dv, ch08::store_operand, ch08::to_operand;
using ch08::QueryTile, ch08::QueryWalk;

// --- the query tiles of a key tile -------------------------------------------------------------------------

/// The query head that a walk is at, counted through all batches.
template <class Tile>
__device__ __forceinline__ int head_of(const QueryWalk<Tile>& walk, const Masks& masks) {
  return walk.batch * masks.heads + walk.head;
}

/// The sums of dQ of a query tile. @param head  counts through all batches
template <class Tile>
__device__ __forceinline__ float* sums_of_dq(const Backward<typename Tile::T>& a, int head, int first_query) {
  const int padded_queries = (a.seq_q + Tile::Br - 1) / Tile::Br * Tile::Br;
  return a.dq_sum + (std::size_t(head) * padded_queries + first_query) * ch08::cols_of<Tile>(a);
}

/// The query tiles that are not empty. Each thread computes the kind of every tile.
template <class Tile>
struct VisibleQueries : QueryWalk<Tile> {
  const Masks& masks;
  int first_key;
  TileKind kind;  ///< of the current tile

  __device__ __forceinline__ VisibleQueries(const Backward<typename Tile::T>& a, const KeyBlock<Tile>& block,
                                            const Masks& all)
      : QueryWalk<Tile>(a, block), masks(all), first_key(block.first_key) {
    skip_empty();
  }
  __device__ __forceinline__ void next() {
    QueryWalk<Tile>::next();
    skip_empty();
  }

 private:
  __device__ __forceinline__ void skip_empty() {
    while (!this->done()) {
      const MaskMod head_mask = masks.of(head_of(*this, masks));
      kind = masks.kind(head_mask, this->first_query(), Tile::Br, first_key, Tile::Bc);
      if (kind != TileKind::kEmpty) return;
      QueryWalk<Tile>::next();
    }
  }
};

/// The listed query tiles: the partial ones of all heads, then the full ones of all heads.
template <class Tile>
struct ListedQueryTiles : QueryWalk<Tile> {
  const Backward<typename Tile::T>& a;
  const KeyBlock<Tile>& block;
  const Masks& masks;
  const BlockMask& block_mask;
  bool partial = true;  ///< whether the current tile is

  /// Without an order, no row is given: the first list is read like the next ones. With a row, dropout at
  /// head_dim 128 took 3 % longer.
  __device__ __forceinline__ ListedQueryTiles(const Backward<typename Tile::T>& attention,
                                              const KeyBlock<Tile>& keys, const Masks& all,
                                              const BlockMask& visited)
      : QueryWalk<Tile>(attention, keys), a(attention), block(keys), masks(all), block_mask(visited) {
    --this->head;
    next_list();
  }
  /// @param row  that of the first head that shares the key tile
  __device__ __forceinline__ ListedQueryTiles(const Backward<typename Tile::T>& attention,
                                              const KeyBlock<Tile>& keys, const Masks& all,
                                              const BlockMask& visited, const BlockMaskRow& row)
      : QueryWalk<Tile>(attention, keys), a(attention), block(keys), masks(all), block_mask(visited) {
    if (row.partial() == 0 && a.heads != a.kv_heads) {
      next_list();
    } else {
      partial = row.partial() > 0;
      begin(list(), partial ? row.partial() : row.full());
      this->tile = row.first;
      if (row.first < 0) this->head = this->end_head;
    }
  }
  __device__ __forceinline__ void next() {
    if (++entry == end) {
      next_list();
    } else {
      this->tile = block_mask.tiles[entry];
    }
  }

 private:
  unsigned entry = 0, end = 0;  ///< of all lists: the current one, and the one after the last of this list

  __device__ __forceinline__ std::size_t list() const {
    return block_mask.index_of(masks, head_of(*this, masks), block.first_key / Tile::Bc);
  }
  /// Goes to the first of the partial or the full tiles of a list. @param count  of these
  __device__ __forceinline__ void begin(std::size_t list, int count) {
    entry = unsigned(list * block_mask.most) + (partial ? 0 : block_mask.most - count);
    end = entry + count;
  }
  /// Goes to the first tile of the next list that has any.
  __device__ __forceinline__ void next_list() {
    do {
      if (++this->head == this->end_head) {
        if (!partial) return;
        partial = false;
        this->head -= a.heads / a.kv_heads;  // to the first head that shares the key tile
      }
      const std::size_t list = this->list();
      begin(list, block_mask.count(list, partial));
    } while (entry == end);
    this->tile = block_mask.tiles[entry];
  }
};

// --- P and dS of a warp ------------------------------------------------------------------------------------

/// The scores of a warp's keys and of kScoreCols queries: fragments C, transposed.
template <class Tile>
using TransposedScores = Fragments<Tile, Tile::kScoreCols>;

/// A warp's part of dK or dV.
template <class Tile>
using KeyGradient = Fragments<Tile, Tile::kCols>;

/// The parts of a block that its steps share.
template <class Tile>
struct BackwardBlock {
  const Backward<typename Tile::T>& a;
  const KeyBlock<Tile>& keys;
  const KeyTileMemory<Tile>& s;
  const PartnerOf<Tile>& partner;
};

/// The same arguments, known to hide nothing by themselves: the compiler drops what chapter 08 does under a
/// causal mask.
template <class T>
__device__ __forceinline__ Backward<T> without_mask(Backward<T> a) {
  a.causal = false;
  return a;
}

/// The same, and keys never end: the compiler drops what chapter 08 does about keys past seq_k, and no branch
/// separates the exponentials from the products. Keys that do not exist are zeros on the chip.
template <class T>
__device__ __forceinline__ Backward<T> without_end(Backward<T> a) {
  a.causal = false;
  a.seq_k = INT_MAX;
  return a;
}

/// Copies K and V. Keys past the end of this batch's are not read and become zeros.
template <class Tile>
__device__ __forceinline__ void load_keys(const KeyTileMemory<Tile>& s, const Backward<typename Tile::T>& a,
                                          const KeyBlock<Tile>& block, const Masks& masks) {
  Backward<typename Tile::T> existing = a;
  existing.seq_k = masks.of(block.batch * a.heads).keys;
  s.load_keys(existing, block);
}

// --- elements ----------------------------------------------------------------------------------------------

/// A bit for each element that a lane holds of TransposedScores<Tile>: bit_of(mi, ni, i) for rS[mi][ni][i].
/// Even queries come first.
using Bits = std::uint32_t;
inline constexpr Bits kAllBits = ~Bits(0);
__device__ constexpr int bit_of(int mi, int ni, int i) { return 16 * (i % 2) + 4 * ni + 2 * mi + i / 2; }

/// Which elements exist: those whose query sees their key. Rows are keys, columns are queries. Evaluates all
/// masks for each element.
/// @param first_query, first_key  of the fragments
template <class Tile>
__device__ __forceinline__ Bits visible(const Masks& masks, const MaskMod& head_mask, int first_query,
                                        int first_key) {
  constexpr int kRows = 2 * Tile::kRowFragments;
  static_assert(Tile::kRowFragments <= 2 && Tile::kScoreCols <= 32, "32 bits");
  const int lane = ptx::unknown(threadIdx.x) % 32;
  Token keys[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) keys[row] = masks.key(first_key + 8 * row + lane / 4);
  Bits bits = 0;
#pragma unroll 1
  for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const Token query = masks.query(first_query + 8 * ni + lane % 4 * 2 + odd);
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        bits |= Bits(head_mask.sees(query, keys[row])) << bit_of(row / 2, ni, row % 2 * 2 + odd);
      }
    }
  }
  return bits;
}

/// Elements without a bit become 0.
template <class Tile>
__device__ __forceinline__ void keep(TransposedScores<Tile>& r, Bits bits) {
#pragma unroll
  for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
#pragma unroll
    for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((bits >> bit_of(mi, ni, i) & 1) == 0) r[mi][ni][i] = 0.0f;
      }
    }
  }
}

/// ch08::probabilities() of the elements that exist. P is 0 where an element does not exist, even if LSE =
/// -inf.
/// @param sLse  LSE of the first query
template <class Tile>
__device__ __forceinline__ void existing_probabilities(TransposedScores<Tile>& rS, const float* sLse,
                                                       const Backward<typename Tile::T>& a, Bits exist) {
  probabilities<Tile>(rS, sLse, without_end(a), 0, 0);
  keep<Tile>(rS, exist);
}

/// P^T and dS^T of a warp, as operands, of the elements that exist: p_and_ds() of chapter 08.
template <class Tile>
__device__ __forceinline__ void p_and_ds(Operand<Tile>& p, Operand<Tile>& ds,
                                         const BackwardBlock<Tile>& block, const QueryTile<Tile>& tile,
                                         int query, Bits exist, int, const NoMods&) {
  constexpr int d = Tile::kHeadDim;
  TransposedScores<Tile> rP, rdS;
  mma_nt<Tile>(rP, block.s.k + block.keys.warp_key * d, tile.q + query * d);
  existing_probabilities<Tile>(rP, tile.lse + query, block.a, exist);
  to_operand<Tile>(p, rP);
  mma_nt<Tile>(rdS, block.s.v + block.keys.warp_key * d, tile.d_o + query * d);
  block.partner.pass_p(query, p);
  ds_from_dp<Tile>(rdS, rP, tile.delta + query);
  to_operand<Tile>(ds, rdS);
}

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

/// P^T o Z and dS^T / scale, as operands.
/// @param rdA     dA^T = V dO^T
/// @param sDelta  D of the first query
template <class Tile>
__device__ __forceinline__ void dropped_operands(Operand<Tile>& p, Operand<Tile>& ds,
                                                 const TransposedScores<Tile>& rP,
                                                 const TransposedScores<Tile>& rdA, Bits kept,
                                                 const float* sDelta, const Dropout& dropout) {
  using T = typename Tile::T;
#pragma unroll
  for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
    const float2 delta = *reinterpret_cast<const float2*>(sDelta + 8 * ni + threadIdx.x % 4 * 2);
    // -D / scale
    const float2 minus_delta = {dropout.minus_share * delta.x, dropout.minus_share * delta.y};
#pragma unroll
    for (int row = 0; row < 2 * Tile::kRowFragments; ++row) {
      const float *pP = row_pair(rP[row / 2][ni], row % 2), *pdA = row_pair(rdA[row / 2][ni], row % 2);
      const std::uint32_t mask = kept_pair(kept, bit_of(row / 2, ni, row % 2 * 2));
      std::uint32_t &of_p = p[row / 2][ni / 2][ni % 2 * 2 + row % 2],
                    &of_ds = ds[row / 2][ni / 2][ni % 2 * 2 + row % 2];
      // EXERCISE 11: Both elements of P o Z in of_p, and of dS / scale in of_ds.
      const float left = minus_delta.x * pP[0], right = minus_delta.y * pP[1];
      of_p = pack<T>(pP[0], pP[1]) & mask;
      of_ds =
          (pack<T>(pdA[0] * pP[0] + left, pdA[1] * pP[1] + right) & mask) | (pack<T>(left, right) & ~mask);
      // END 11
    }
  }
}

/// The same with dropout: P^T o Z and dS^T / scale.
///
/// Z is 1 for the elements of P that are kept, and 0 for the rest. With O = scale (P o Z) V,
///
///   dV = scale (P o Z)^T dO    dP = scale (dO V^T) o Z    dS = P o (dP - D)
///
/// dV, dK and dQ are summed without the factor `scale`, and multiplied by it at the end.
template <class Tile>
__device__ __forceinline__ void p_and_ds(Operand<Tile>& p, Operand<Tile>& ds,
                                         const BackwardBlock<Tile>& block, const QueryTile<Tile>& tile,
                                         int query, Bits exist, int head,
                                         const Mods<NoScoreMods, WithDropout>& mods) {
  const Dropout& dropout = mods.dropout.dropout;
  constexpr int d = Tile::kHeadDim;
  TransposedScores<Tile> rP, rdA;
  mma_nt<Tile>(rP, block.s.k + block.keys.warp_key * d, tile.q + query * d);
  existing_probabilities<Tile>(rP, tile.lse + query, block.a, exist);
  mma_nt<Tile>(rdA, block.s.v + block.keys.warp_key * d, tile.d_o + query * d);
  const Bits kept = draw_transposed<Tile>(dropout, head, tile.first_query + query,
                                          block.keys.first_key + block.keys.warp_key);
  dropped_operands<Tile>(p, ds, rP, rdA, kept, tile.delta + query, dropout);
  block.partner.pass_p(query, p);
}

/// From products q.k to P^T, rounded, as operand. P^T o f' remains in rS, not rounded. Both are 0
/// where an element does not exist.
/// @param sLse  LSE of the first query     @param first_key  of the warp
template <class Tile>
__device__ __forceinline__ void modified_probabilities(Operand<Tile>& p, TransposedScores<Tile>& rS,
                                                       const float* sLse, float scale,
                                                       const ScoreMod& score_mod, int first_query,
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

/// The same with a score_mod S = f(scale * Q K^T), element by element, and f' there:
///
///   P = exp(S - LSE)    dS = P o (dP - D) o f'
template <class Tile>
__device__ __forceinline__ void p_and_ds(Operand<Tile>& p, Operand<Tile>& ds,
                                         const BackwardBlock<Tile>& block, const QueryTile<Tile>& tile,
                                         int query, Bits exist, int head,
                                         const Mods<ScoreMods, NoDropout>& mods) {
  const ScoreMod score_mod = mods.score_mods.of(head);
  constexpr int d = Tile::kHeadDim;
  const int first_query = tile.first_query + query, first_key = block.keys.first_key + block.keys.warp_key;
  TransposedScores<Tile> rP, rdS;
  mma_nt<Tile>(rP, block.s.k + block.keys.warp_key * d, tile.q + query * d);
  modified_probabilities<Tile>(p, rP, tile.lse + query, block.a.scale, score_mod, first_query, first_key,
                               exist);
  mma_nt<Tile>(rdS, block.s.v + block.keys.warp_key * d, tile.d_o + query * d);
  block.partner.pass_p(query, p);
  ds_from_dp<Tile>(rdS, rP, tile.delta + query);  // P o f' instead of P
  to_operand<Tile>(ds, rdS);
}

/// p_and_ds() of a query tile without mods, for the functions below.
template <class Tile>
__device__ __forceinline__ auto p_and_ds_of(const BackwardBlock<Tile>& block, const QueryTile<Tile>& tile) {
  return [&](Operand<Tile>& p, Operand<Tile>& ds, int query, Bits exist) {
    p_and_ds(p, ds, block, tile, query, exist, 0, NoMods());
  };
}

// --- a query tile ------------------------------------------------------------------------------------------
//
// Each function adds to dV and dK what the queries of a tile contribute that the warp handles itself, and
// leaves dS^T in shared memory if others need it. P and dS are what make(p, ds, query, exist) makes of the
// elements that exist.

/// Stores dS^T for dQ, or for the partner. @param query  the first one, in its tile
template <class Tile>
__device__ __forceinline__ void store_ds(const BackwardBlock<Tile>& block, int query,
                                         const Operand<Tile>& ds) {
  if constexpr (Tile::kDsTile > 0) {
    store_operand<Tile>(block.s.ds + block.keys.warp_key * Tile::Br, query, ds);
  }
}

/// Every score exists.
template <class Tile, class Make>
__device__ __forceinline__ void add_full_tile(KeyGradient<Tile>& rdV, KeyGradient<Tile>& rdK,
                                              const BackwardBlock<Tile>& block, const QueryTile<Tile>& tile,
                                              const Make& make) {
#pragma unroll 1
  for (int n = 0; n < Tile::kScoreSteps; ++n) {
    const int query = block.keys.query(n);
    Operand<Tile> p, ds;
    make(p, ds, query, kAllBits);
    store_ds(block, query, ds);
    add_dv_and_dk(rdV, rdK, p, ds, block.keys, tile, query);
  }
}

/// Masks are evaluated for every score.
template <class Tile, class Make>
__device__ __forceinline__ void add_masked_tile(KeyGradient<Tile>& rdV, KeyGradient<Tile>& rdK,
                                                const BackwardBlock<Tile>& block, const QueryTile<Tile>& tile,
                                                const Masks& masks, int head, const Make& make) {
#pragma unroll 1
  for (int n = 0; n < Tile::kScoreSteps; ++n) {
    const int query = block.keys.query(n);
    const Bits exist = visible<Tile>(masks, masks.of(head), tile.first_query + query,
                                     block.keys.first_key + block.keys.warp_key);
    Operand<Tile> p, ds;
    make(p, ds, query, exist);
    store_ds(block, query, ds);
    add_dv_and_dk(rdV, rdK, p, ds, block.keys, tile, query);
  }
}

/// A warp computes the kind of its share first, and evaluates the masks for each score only if that is
/// partial.
template <class Tile, class Make>
__device__ __forceinline__ void add_partial_tile(KeyGradient<Tile>& rdV, KeyGradient<Tile>& rdK,
                                                 const BackwardBlock<Tile>& block,
                                                 const QueryTile<Tile>& tile, const Masks& masks, int head,
                                                 const Make& make) {
#pragma unroll 1
  for (int n = 0; n < Tile::kScoreSteps; ++n) {
    const int query = block.keys.query(n);
    const int first_query = tile.first_query + query, first_key = block.keys.first_key + block.keys.warp_key;
    const MaskMod head_mask = masks.of(head);
    const TileKind kind = masks.kind(head_mask, first_query, Tile::kScoreCols, first_key, Tile::kWarpRows);
    Operand<Tile> p = {}, ds = {};
    if (kind == TileKind::kEmpty) {  // zeros for the other warps
      block.partner.pass_p(query, p);
      store_ds(block, query, ds);
      continue;
    }
    Bits exist = kAllBits;
    if (kind == TileKind::kPartial) exist = visible<Tile>(masks, head_mask, first_query, first_key);
    make(p, ds, query, exist);
    store_ds(block, query, ds);
    add_dv_and_dk(rdV, rdK, p, ds, block.keys, tile, query);
  }
}

// --- masked_everywhere -------------------------------------------------------------------------------------

/// Visits all query tiles and evaluates all masks for every score.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    masked_gradients(Backward<typename Tile::T> given, Masks masks) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  QueryWalk<Tile> walk(a, keys);  // in the loop it is one tile ahead
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
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
    add_masked_tile(rdV, rdK, block, tile, masks, head, p_and_ds_of(block, tile));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  __syncthreads();  // no warp reads K and V any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

// --- skip_empty --------------------------------------------------------------------------------------------

/// Visits the query tiles that are not empty. If there is none, K and V may still be on their way when dK and
/// dV take their place.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    skipping_gradients(Backward<typename Tile::T> given, Masks masks) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  VisibleQueries<Tile> walk(a, keys, masks);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
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
    add_masked_tile(rdV, rdK, block, tile, masks, head, p_and_ds_of(block, tile));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

// --- three_kinds -------------------------------------------------------------------------------------------

/// Evaluates no mask in a full tile. In a partial one, each warp first computes the kind of its share.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    three_kinds_gradients(Backward<typename Tile::T> given, Masks masks) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  VisibleQueries<Tile> walk(a, keys, masks);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    const TileKind kind = walk.kind;
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    if (kind == TileKind::kFull) {
      add_full_tile(rdV, rdK, block, tile, p_and_ds_of(block, tile));
    } else {
      add_partial_tile(rdV, rdK, block, tile, masks, head, p_and_ds_of(block, tile));
    }
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

// --- sparse_gradients: lists of tiles ----------------------------------------------------------------------

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

/// The row of the key tile that a block computes, if there is an order. Otherwise blocks count through the
/// key tiles.
template <class Mods>
__device__ __forceinline__ HeadRow key_row_of_block(const BlockMask& block_mask, const Masks& masks,
                                                    int group) {
  if constexpr (Mods::kLongestFirst) return row_of_block(block_mask, masks, group);
  return {};
}
template <class Tile, class Mods>
__device__ __forceinline__ KeyBlock<Tile> key_block(const Backward<typename Tile::T>& a, const HeadRow& row) {
  if constexpr (Mods::kLongestFirst) return KeyBlock<Tile>(a, row.head, row.row);
  return KeyBlock<Tile>(a);
}
template <class Mods, class Tile>
__device__ __forceinline__ auto listed_query_tiles(const Backward<typename Tile::T>& a,
                                                   const KeyBlock<Tile>& keys, const Masks& masks,
                                                   const BlockMask& block_mask, const HeadRow& row) {
  using Walk = ListedQueryTiles<Tile>;
  if constexpr (Mods::kLongestFirst) {
    return Walk(a, keys, masks, block_mask, row);
  } else {
    return Walk(a, keys, masks, block_mask);
  }
}

/// Visits the listed query tiles: the partial ones of all heads in a loop with masks, then the full ones in a
/// loop without masks. There, a step is straight code: where branches meet, the compiler prepares no product
/// before those above have ended.
///
/// With dropout, what it adds to dq_sum lacks the factor of Z as well.
///
///   HBM     and reads its lists
template <class Tile, class Mods>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    sparse_gradients(Backward<typename Tile::T> given, Masks masks, BlockMask block_mask, Mods mods) {
  const Backward<typename Tile::T> a = without_mask(given);
  const HeadRow row = key_row_of_block<Mods>(block_mask, masks, a.heads / a.kv_heads);
  const KeyBlock<Tile> keys = key_block<Tile, Mods>(a, row);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  auto walk = listed_query_tiles<Mods>(a, keys, masks, block_mask, row);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  // In the kernel: with dropout, the compiler spills registers if it is p_and_ds_of() that returns this.
  const auto make = [&](const QueryTile<Tile>& tile, int head) {
    return [&, head](Operand<Tile>& p, Operand<Tile>& ds, int query, Bits exist) {
      p_and_ds(p, ds, block, tile, query, exist, head, mods);
    };
  };
  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
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
    add_partial_tile(rdV, rdK, block, tile, masks, head, make(tile, head));
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
    add_full_tile(rdV, rdK, block, tile, make(tile, head));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  if constexpr (!std::is_same_v<decltype(mods.dropout), NoDropout>) {
    scale_gradient<Tile>(rdV, mods.dropout.dropout.scale);
    scale_gradient<Tile>(rdK, mods.dropout.dropout.scale);
  }
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

}  // namespace fa::ch11
