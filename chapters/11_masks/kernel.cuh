/// @file
/// FlashAttention of chapter 07 under masks that a head has in any combination: causal, a window, documents,
/// key lengths and blocks; with dropout; and with functions of the scores.
///
/// Tensors as in chapter 07: any lengths, strides and grouped heads, and any head_dim that is a multiple of 8
/// up to the kernel's d. A query that sees no key has O = 0 and LSE = -inf. Keys after the length of their
/// sequence are never read.
///
/// All kernels have the tiles of chapter 07's `final`, and
///
///   grid    batch * heads * ceil(seq_q / Br), in the order that Tile::Order gives
///   block   Tile::kThreads: one warp per kWarpRows queries
///   shared  Tile::kSharedBytes: a tile of Q, then of O; two stages of K and of V
///   HBM     reads Q once, and for each block the keys and values of the tiles that it visits, and of the
///           masks what each warp asks them; writes O and LSE
///
/// masks.cuh has the masks, lists.cuh the lists of tiles, walk.cuh which tiles a block visits, hide.cuh what
/// hides scores, kept.cuh and dropped.cuh dropout, scores.cuh functions of scores. What a warp does with a
/// slice of keys otherwise is in chapter 07.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "07_multi_stage/block.cuh"
#include "07_multi_stage/choices.cuh"
#include "07_multi_stage/copies.cuh"
#include "07_multi_stage/softmax.cuh"
#include "device/attention.cuh"
#include "device/cp_async.cuh"
#include "device/declare_rows.cuh"
#include "device/dropout.cuh"
#include "device/math.cuh"
#include "device/padding.cuh"
#include "dropped.cuh"
#include "hide.cuh"
#include "lists.cuh"
#include "masks.cuh"
#include "scores.cuh"
#include "walk.cuh"

namespace fa::ch11 {

using namespace ch07;

// --- masked_everywhere: every score is asked for -----------------------------------------------------------

/// Visits all key tiles, from the last to the first, and asks all masks for every score.
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
  TwoStages<Tile> stages = {block, sK, sV};

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
      const Hidden<Tile> hidden = hidden_in<Tile>(masks, block.masks, first_query, tile * Bc + key);
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      hidden.hide(rS);
      rescale<Tile>(acc, rS, block.factor);
      multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
    }
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, MaskedPairs(block.a, masks, block.head));
}

// --- skip_empty: only tiles of which something is visible --------------------------------------------------

/// Visits the key tiles that are not empty. Each warp looks for the next one while the others are at work.
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
  TwoStages<Tile> stages = {block, sK, sV};

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
      const Hidden<Tile> hidden = hidden_in<Tile>(masks, block.masks, first_query, tile * Bc + key);
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      hidden.hide(rS);
      rescale<Tile>(acc, rS, block.factor);
      multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
    }
    tile = next;
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, MaskedPairs(block.a, masks, block.head));
}

// --- three_kinds: full tiles pay nothing -------------------------------------------------------------------

/// Asks for no score of a full tile. Of a partial one, each warp asks about its share of a slice first: its
/// rows, and the slice's keys.
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
  TwoStages<Tile> stages = {block, sK, sV};

  load_q(sQ, block);
  cp_async_commit();
  Visit visit = visible.before((a.seq_k - 1) / Bc + 1);
  stages.start(visit.tile);
  const ShareQueries<Tile> queries(masks, block.first_query + block.warp_row);
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  while (visit.tile >= 0) {
    const Visit next = visible.before(visit.tile);
    stages.next();
    stages.start(next.tile);
    if (visit.kind == Kind::kFull) {
#pragma unroll
      for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
        const int slice = stages.used + key * d;
        Scores<Tile> rS = {};
        multiply_qk<Tile>(rS, rQ, sK + slice);
        rescale<Tile>(acc, rS, block.factor);
        multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
      }
    } else {
      const Shares<Tile> shares(masks, block.masks, queries, visit.tile * Bc);
#pragma unroll 1
      for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
        const int slice = stages.used + key * d;
        Scores<Tile> rS = {};
        if (!visible_scores<Tile>(rS, rQ, sK + slice, shares, key)) continue;
        rescale<Tile>(acc, rS, block.factor);
        multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
      }
    }
    visit = next;
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, MaskedPairs(block.a, masks, block.head));
}

// --- compressed: lists of tiles ----------------------------------------------------------------------------

/// The tiles that a block visits are in a list, which another kernel has made: partial ones in a loop that
/// asks, then full ones in a loop without masks, as in chapter 07. Nobody looks for tiles.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    compressed_attention(Attention<typename Tile::T> a, Masks masks, TileLists lists) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const HeadRow at = row_of_block(lists, masks, 1);
  const MaskedBlock<Tile> block(a, masks, at);
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::Br * d;
  T* sV = sK + 2 * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  ListedTiles tiles(lists, masks, at);
  TwoStages<Tile> stages = {block, sK, sV};

  load_q(sQ, block);
  cp_async_commit();
  int tile = at.first;
  stages.start(tile);
  const ShareQueries<Tile> queries(masks, block.first_query + block.warp_row);
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  while (tiles.is_partial()) {
    const int next = tiles.take();
    stages.next();
    stages.start(next);
    const Shares<Tile> shares(masks, block.masks, queries, tile * Bc);
#pragma unroll 1
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      Scores<Tile> rS = {};
      if (!visible_scores<Tile>(rS, rQ, sK + slice, shares, key)) continue;
      rescale<Tile>(acc, rS, block.factor);
      multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
    }
    tile = next;
  }
  while (!tiles.is_done()) {
    const int next = tiles.take_full();
    stages.next();
    stages.start_whole(next);
#pragma unroll
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      rescale<Tile>(acc, rS, block.factor);
      multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
    }
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, MaskedPairs(block.a, masks, block.head));
}

/// For blocks of 64 queries and 64 keys: tiles of that size, with half as many queries per warp as for larger
/// blocks.
template <int d>
struct SmallBlocks : FinalChoices<d> {
  static constexpr int kWarpRows = 16, Bc = 64;
};

// --- block_sparse: blocks of a pattern, and nothing else ---------------------------------------------------

/// Block-sparse FlashAttention (Algorithm 5 of Dao et al. 2022): `compressed` for a block mask alone, and
/// lengths that are multiples of its blocks. A tile is a block or a part of one, so all tiles of the lists
/// are full.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    block_sparse_attention(Attention<typename Tile::T> a, Masks masks, TileLists lists) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const HeadRow at = row_of_block(lists, masks, 1);
  const MaskedBlock<Tile> block(a, masks, at);
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::Br * d;
  T* sV = sK + 2 * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  ListedTiles tiles(lists, masks, at);
  TwoStages<Tile> stages = {block, sK, sV};

  load_q(sQ, block);
  cp_async_commit();
  stages.start_whole(at.first);
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  while (!tiles.is_done()) {
    const int next = tiles.take_full();
    stages.next();
    stages.start_whole(next);
#pragma unroll
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      rescale<Tile>(acc, rS, block.factor);
      multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
    }
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, MaskedPairs(block.a, masks, block.head));
}

// --- dropout: elements of P left out at random -------------------------------------------------------------

/// `compressed` with dropout.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    dropout_attention(Attention<typename Tile::T> a, Masks masks, TileLists lists, Dropout dropout) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const MaskedBlock<Tile> block(a, masks);
  // Of the warp: the same in all lanes, and the compiler knows that.
  const int first_query = __shfl_sync(kAllLanes, block.first_query + block.warp_row, 0);
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::Br * d;
  T* sV = sK + 2 * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  const HeadRow at = listed_row(lists, masks, block.head, block.first_query / Tile::Br);
  ListedTiles tiles(lists, masks, at);
  TwoStages<Tile> stages = {block, sK, sV};

  load_q(sQ, block);
  cp_async_commit();
  int tile = at.first;
  stages.start(tile);
  const ShareQueries<Tile> queries(masks, first_query);
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  while (tiles.is_partial()) {
    const int next = tiles.take();
    stages.next();
    stages.start(next);
    const Shares<Tile> shares(masks, block.masks, queries, tile * Bc);
#pragma unroll 1
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      Scores<Tile> rS = {};
      if (!visible_scores<Tile>(rS, rQ, sK + slice, shares, key)) continue;
      rescale<Tile>(acc, rS, block.factor);
      const Kept<Tile> kept = draw<Tile>(dropout, block.head, first_query, tile * Bc + key);
      multiply_dropped_pv<Tile>(acc, rS, sV + slice, block.factor, kept);
    }
    tile = next;
  }
  while (!tiles.is_done()) {
    const int next = tiles.take_full();
    stages.next();
    stages.start_whole(next);
#pragma unroll
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      rescale<Tile>(acc, rS, block.factor);
      const Kept<Tile> kept = draw<Tile>(dropout, block.head, first_query, tile * Bc + key);
      multiply_dropped_pv<Tile>(acc, rS, sV + slice, block.factor, kept);
    }
    tile = next;
  }
  scale<Tile>(acc, dropout.scale);
  store<Tile>(acc, block, sQ + block.warp_row * d,
              DroppedPairs<T>(MaskedPairs(block.a, masks, block.head), dropout));
}

// --- scores: functions of the scaled scores ----------------------------------------------------------------

/// `compressed` with a function of each score. Its result is a logit: from there on, only log2 e is missing
/// in the exponent.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    scores_attention(Attention<typename Tile::T> a, Masks masks, TileLists lists, ScoreFunctions functions) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const HeadRow at = row_of_block(lists, masks, 1);
  const MaskedBlock<Tile> block(a, masks, at);
  const int first_query = block.first_query + block.warp_row;  // of the warp
  const HeadScores function = functions.of(block.head);
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::Br * d;
  T* sV = sK + 2 * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  ListedTiles tiles(lists, masks, at);
  TwoStages<Tile> stages = {block, sK, sV};

  load_q(sQ, block);
  cp_async_commit();
  int tile = at.first;
  stages.start(tile);
  const ShareQueries<Tile> queries(masks, first_query);
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  while (tiles.is_partial()) {
    const int next = tiles.take();
    stages.next();
    stages.start(next);
    const Shares<Tile> shares(masks, block.masks, queries, tile * Bc);
#pragma unroll 1
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      Scores<Tile> rS = {};
      const auto change_all = [&] { change<Tile>(rS, function, a.scale, first_query, tile * Bc + key); };
      if (!visible_scores<Tile>(rS, rQ, sK + slice, shares, key, change_all)) continue;
      rescale<Tile>(acc, rS, kLog2e);
      multiply_pv<Tile>(acc, rS, sV + slice, kLog2e);
    }
    tile = next;
  }
  while (!tiles.is_done()) {
    const int next = tiles.take_full();
    stages.next();
    stages.start_whole(next);
#pragma unroll
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      change<Tile>(rS, function, a.scale, first_query, tile * Bc + key);
      rescale<Tile>(acc, rS, kLog2e);
      multiply_pv<Tile>(acc, rS, sV + slice, kLog2e);
    }
    tile = next;
  }
  store<Tile>(acc, block, sQ + block.warp_row * d,
              ChangedPairs<T>(MaskedPairs(block.a, masks, block.head), function));
}

}  // namespace fa::ch11
