/// @file
/// P and dS of a warp under masks, and what a query tile adds to dK and dV.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

#include "08_backward/tensor_cores.cuh"
#include "backward_walks.cuh"
#include "device/ptx.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

using namespace ch08;  // the pieces of chapter 08's kernels: all but their walk over the query tiles, and
                       // their masks

/// The scores of a warp's keys and of kScoreCols queries: fragments C, transposed.
template <class Tile>
using Scores = Fragments<Tile, Tile::kScoreCols>;

/// A warp's part of dK or dV.
template <class Tile>
using KeyGradient = Fragments<Tile, Tile::kCols>;

/// What a block has throughout.
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

/// A bit for each element that a lane holds of Scores<Tile>: bit_of(mi, ni, i) for rS[mi][ni][i]. Even
/// queries come first.
using Bits = std::uint32_t;
inline constexpr Bits kAllBits = ~Bits(0);
__device__ constexpr int bit_of(int mi, int ni, int i) { return 16 * (i % 2) + 4 * ni + 2 * mi + i / 2; }

/// Which elements exist: those whose query sees their key. Rows are keys, columns are queries. Asks for each
/// element.
/// @param first_query, first_key  of the fragments
template <class Tile>
__device__ __forceinline__ Bits visible(const Masks& masks, const HeadMasks& of_head, int first_query,
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
        bits |= Bits(of_head.sees(query, keys[row])) << bit_of(row / 2, ni, row % 2 * 2 + odd);
      }
    }
  }
  return bits;
}

/// Elements without a bit become 0.
template <class Tile>
__device__ __forceinline__ void keep(Scores<Tile>& r, Bits bits) {
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

/// ch08::probabilities() of the elements that exist. P of the others is 0, even if LSE = -inf.
/// @param sLse  LSE of the first query
template <class Tile>
__device__ __forceinline__ void existing_probabilities(Scores<Tile>& rS, const float* sLse,
                                                       const Backward<typename Tile::T>& a, Bits exist) {
  probabilities<Tile>(rS, sLse, without_end(a), 0, 0);
  keep<Tile>(rS, exist);
}

/// ch08::p_and_ds() of the elements that exist.
template <class Tile>
__device__ __forceinline__ void p_and_ds(Operand<Tile>& p, Operand<Tile>& ds,
                                         const BackwardBlock<Tile>& block, const QueryTile<Tile>& tile,
                                         int query, Bits exist) {
  constexpr int d = Tile::kHeadDim;
  Scores<Tile> rP, rdS;
  mma_nt<Tile>(rP, block.s.k + block.keys.warp_key * d, tile.q + query * d);
  existing_probabilities<Tile>(rP, tile.lse + query, block.a, exist);
  to_operand<Tile>(p, rP);
  mma_nt<Tile>(rdS, block.s.v + block.keys.warp_key * d, tile.d_o + query * d);
  block.partner.pass_p(query, p);
  ds_from_dp<Tile>(rdS, rP, tile.delta + query);
  to_operand<Tile>(ds, rdS);
}

/// p_and_ds() of a query tile, for the functions below.
template <class Tile>
__device__ __forceinline__ auto p_and_ds_of(const BackwardBlock<Tile>& block, const QueryTile<Tile>& tile) {
  return [&](Operand<Tile>& p, Operand<Tile>& ds, int query, Bits exist) {
    p_and_ds<Tile>(p, ds, block, tile, query, exist);
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

/// Every score is asked for.
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

/// A warp asks for the kind of its own share first, and for each score only if that is partial.
template <class Tile, class Make>
__device__ __forceinline__ void add_partial_tile(KeyGradient<Tile>& rdV, KeyGradient<Tile>& rdK,
                                                 const BackwardBlock<Tile>& block,
                                                 const QueryTile<Tile>& tile, const Masks& masks, int head,
                                                 const Make& make) {
#pragma unroll 1
  for (int n = 0; n < Tile::kScoreSteps; ++n) {
    const int query = block.keys.query(n);
    const int first_query = tile.first_query + query, first_key = block.keys.first_key + block.keys.warp_key;
    const HeadMasks of_head = masks.of(head);
    const TileKind kind = masks.kind(of_head, first_query, Tile::kScoreCols, first_key, Tile::kWarpRows);
    Operand<Tile> p = {}, ds = {};
    if (kind == TileKind::kEmpty) {  // zeros for the other warps
      block.partner.pass_p(query, p);
      store_ds(block, query, ds);
      continue;
    }
    Bits exist = kAllBits;
    if (kind == TileKind::kPartial) exist = visible<Tile>(masks, of_head, first_query, first_key);
    make(p, ds, query, exist);
    store_ds(block, query, ds);
    add_dv_and_dk(rdV, rdK, p, ds, block.keys, tile, query);
  }
}

}  // namespace fa::ch11
