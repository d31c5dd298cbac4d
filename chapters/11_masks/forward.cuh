/// @file
/// The steps that lead to sparse_attention(): kernels that evaluate all masks for every score, that skip
/// empty tiles, and that evaluate no mask in full ones. Their tensors, grid and shared memory are in
/// sparse_attention.cuh.
#pragma once

#include <cuda_runtime.h>

#include "07_multi_stage/choices.cuh"
#include "07_multi_stage/copies.cuh"
#include "07_multi_stage/softmax.cuh"
#include "device/attention.cuh"
#include "device/cp_async.cuh"
#include "device/declare_rows.cuh"
#include "device/padding.cuh"
#include "mask_mod.cuh"
#include "sparse_attention.cuh"

namespace fa::ch11 {

using ch07::multiply_pv;

// --- masked_everywhere: masks are evaluated for every score ------------------------------------------------

/// Visits all key tiles, from the last to the first, and evaluates all masks for every score.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    masked_everywhere_attention(Attention<typename Tile::T> a, Masks masks) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const MaskedBlock<Tile> block(a, masks);
  const int first_query = block.first_query + block.warp_row;  // of the warp
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::Br * d;
  T* sV = sK + 2 * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  KvStages<Tile> stages = {block, sK, sV};

  load_q(sQ, block);
  cp_async_commit();
  int tile = (a.seq_k - 1) / Bc;
  stages.start(tile);
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  for (; tile >= 0; --tile) {
    stages.next();
    stages.start(tile - 1);
#pragma unroll 1
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      const WarpMaskMod<Tile> mask_mod =
          warp_mask_mod<Tile>(masks, block.head_mask, first_query, tile * Bc + key);
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      mask_mod(rS);
      rescale<Tile>(acc, rS, block.factor);
      multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
    }
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, MarkedRows());
}

/// A key tile, and what the masks leave of it. A negative number: there is none.
struct NextTile {
  int tile;
  TileKind kind;
};

/// The key tiles of which a block sees something, from the last to the first. Every warp finds them
/// itself.
template <class Tile>
struct VisibleTiles {
  const Masks& masks;
  const MaskMod& head_mask;
  Span queries;  ///< of the block

  __device__ __forceinline__ VisibleTiles(const Masks& all, const MaskedBlock<Tile>& block)
      : masks(all), head_mask(block.head_mask), queries(masks.queries(block.first_query, Tile::Br)) {}

  /// The last of those before a tile.
  __device__ __forceinline__ NextTile before(int tile) const {
    // EXERCISE 5: Find the next tile, towards tile 0, that is not empty.
    NextTile next = {tile, TileKind::kEmpty};
    while (next.kind == TileKind::kEmpty && --next.tile >= 0) {
      next.kind = head_mask.kind({queries, masks.keys(next.tile * Tile::Bc, Tile::Bc)});
    }
    return next;
    // END 5
  }
};

// --- skip_empty: only tiles of which something is visible --------------------------------------------------

/// Visits the key tiles that are not empty. Each warp searches for the next one while the other warps
/// multiply.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    skip_empty_attention(Attention<typename Tile::T> a, Masks masks) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const MaskedBlock<Tile> block(a, masks);
  const int first_query = block.first_query + block.warp_row;  // of the warp
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::Br * d;
  T* sV = sK + 2 * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  const VisibleTiles<Tile> visible(masks, block);
  KvStages<Tile> stages = {block, sK, sV};

  load_q(sQ, block);
  cp_async_commit();
  int tile = visible.before((a.seq_k - 1) / Bc + 1).tile;
  stages.start(tile);
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  while (tile >= 0) {
    const int next = visible.before(tile).tile;
    stages.next();
    stages.start(next);
#pragma unroll 1
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      const WarpMaskMod<Tile> mask_mod =
          warp_mask_mod<Tile>(masks, block.head_mask, first_query, tile * Bc + key);
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      mask_mod(rS);
      rescale<Tile>(acc, rS, block.factor);
      multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
    }
    tile = next;
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, MarkedRows());
}

// --- three_kinds: full tiles pay nothing -------------------------------------------------------------------

/// Evaluates no mask in a full tile. In a partial one, each warp finds the kinds of its sub-tiles first.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    three_kinds_attention(Attention<typename Tile::T> a, Masks masks) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const MaskedBlock<Tile> block(a, masks);
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::Br * d;
  T* sV = sK + 2 * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  const VisibleTiles<Tile> visible(masks, block);
  KvStages<Tile> stages = {block, sK, sV};

  load_q(sQ, block);
  cp_async_commit();
  NextTile tile = visible.before((a.seq_k - 1) / Bc + 1);
  stages.start(tile.tile);
  const QueryTokens<Tile> queries(masks, block.first_query + block.warp_row);
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  while (tile.tile >= 0) {
    const NextTile next = visible.before(tile.tile);
    stages.next();
    stages.start(next.tile);
    if (tile.kind == TileKind::kFull) {
#pragma unroll
      for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
        const int slice = stages.used + key * d;
        Scores<Tile> rS = {};
        multiply_qk<Tile>(rS, rQ, sK + slice);
        rescale<Tile>(acc, rS, block.factor);
        multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
      }
    } else {
      const SubTiles<Tile> sub_tiles(masks, block.head_mask, queries, tile.tile * Bc);
#pragma unroll 1
      for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
        const int slice = stages.used + key * d;
        const WarpMaskMod<Tile> mask_mod = sub_tiles.mask_mod(key);
        if (mask_mod.kind == TileKind::kEmpty) continue;
        Scores<Tile> rS = {};
        multiply_qk<Tile>(rS, rQ, sK + slice);
        mask_mod(rS);
        rescale<Tile>(acc, rS, block.factor);
        multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
      }
    }
    tile = next;
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, MarkedRows());
}

/// For blocks of 64 queries and 64 keys: tiles of that size, with half as many queries per warp as for larger
/// blocks.
template <int d>
struct SmallBlocks : ch07::FinalChoices<d> {
  static constexpr int kWarpRows = 16, Bc = 64;
};

}  // namespace fa::ch11
