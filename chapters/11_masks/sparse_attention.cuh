/// @file
/// sparse_attention(): FlashAttention of chapter 07 that visits the tiles of a BlockMask, with mods.
///
/// Tensors as in chapter 07: any lengths, strides and grouped heads, and any head_dim that is a multiple of 8
/// up to the kernel's d. A query that sees no key has O = 0 and LSE = -inf, or its head's sink. Keys after
/// the length of their sequence are never read.
///
/// This kernel and those of forward.cuh have the tiles of chapter 07's `final`, and
///
///   grid    batch * heads * ceil(seq_q / Br) blocks, in the order of Tile::Order or of the BlockMask's rows
///   block   Tile::kThreads: one warp per kWarpRows queries
///   shared  Tile::kSharedBytes: a tile of Q, then of O; two stages of K and of V
///   HBM     reads Q once, and for each block the keys and values of the tiles that it visits, and the
///           documents, lengths and blocks that masks need, and the sink; writes O and LSE, which
///           repair_marked_rows() reads
///
/// mask_mod.cuh has the masks, block_mask.cuh the lists of tiles, mods.cuh the mods, which do nothing in
/// `compressed`. Chapter 07 has the rest of what a warp does with a slice of keys.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "07_multi_stage/block.cuh"
#include "07_multi_stage/copies.cuh"
#include "07_multi_stage/softmax.cuh"
#include "block_mask.cuh"
#include "device/attention.cuh"
#include "device/cp_async.cuh"
#include "device/declare_rows.cuh"
#include "device/padding.cuh"
#include "device/ptx.cuh"
#include "device/unresolved_rows.cuh"
#include "mask_mod.cuh"
#include "mods.cuh"

namespace fa::ch11 {

using ch07::Accumulators, ch07::QueryFragments, ch07::Scores;
using ch07::load_q, ch07::load_queries, ch07::multiply_qk, ch07::rescale, ch07::store;

// --- the tiles of a block ----------------------------------------------------------------------------------

/// The work of a block, as in chapter 07, and the mask_mod of its head.
template <class Tile>
struct MaskedBlock : ch07::Block<Tile> {
  MaskMod head_mask;

  __device__ __forceinline__ MaskedBlock(const Attention<typename Tile::T>& attention, const Masks& masks)
      : MaskedBlock(attention, masks, Tile::Order::template tile_of<Tile>(blockIdx.x, attention)) {}
  __device__ __forceinline__ MaskedBlock(const Attention<typename Tile::T>& attention, const Masks& masks,
                                         const HeadRow& row)
      : MaskedBlock(attention, masks, ch07::QueryTile{row.head, row.row * Tile::Br}) {}

 private:
  __device__ __forceinline__ MaskedBlock(const Attention<typename Tile::T>& attention, const Masks& masks,
                                         const ch07::QueryTile& tile)
      : ch07::Block<Tile>(attention, tile), head_mask(masks.of(this->head)) {
    this->factor = attention.exp2_scale;  // a parameter: it needs no register
    if (Tile::kDense) this->gK.stride = this->gV.stride = Tile::kHeadDim;
    this->seen_by_last = head_mask.keys;  // keys after these are not loaded, and count as zeros
  }
};

/// Two stages of K and V in shared memory: while a tile is in use, the next one is in flight.
template <class Tile>
struct KvStages {
  using T = typename Tile::T;
  static_assert(Tile::kStages == 2);
  const MaskedBlock<Tile>& block;
  T *sK, *sV;
  int used = 0;  ///< elements from the first stage to the one in use

  /// Starts the copy of a tile to the stage that is not in use, as a group. Keys that do not exist become
  /// zeros.
  __device__ __forceinline__ void start(int tile) const {
    if (tile >= 0) {
      ch07::load_kv(sK + (Tile::kTile - used), block.gK, tile * Tile::Bc, block);
      ch07::load_kv(sV + (Tile::kTile - used), block.gV, tile * Tile::Bc, block);
    }
    cp_async_commit();
  }
  /// The same for a tile whose keys all exist.
  __device__ __forceinline__ void start_whole(int tile) const {
    if (tile >= 0) {
      ch07::TilesBackwards<Tile>(block.gK, tile, block.a.head_dim).load(sK + (Tile::kTile - used));
      ch07::TilesBackwards<Tile>(block.gV, tile, block.a.head_dim).load(sV + (Tile::kTile - used));
    }
    cp_async_commit();
  }
  /// Waits for the tile in flight, which is now in use. The other stage is free.
  __device__ __forceinline__ void next() {
    cp_async_wait<0>();
    __syncthreads();  // the tile has landed; no warp reads the previous one
    used = Tile::kTile - used;
  }
};

// --- the sub-tiles of a warp -------------------------------------------------------------------------------

/// The queries of a warp, for masks. If a tile has several sub-tiles, their documents are loaded once.
template <class Tile, bool = kSeveralSubTiles<Tile>>
class QueryTokens {
 public:
  __device__ __forceinline__ QueryTokens(const Masks& masks, int first)
      : span_(masks.queries(first, Tile::kWarpRows)), of_lanes_(masks, first) {}
  __device__ __forceinline__ const Span& span() const { return span_; }
  __device__ __forceinline__ const LaneQueries<Tile>& of_lanes() const { return of_lanes_; }

 private:
  Span span_;
  LaneQueries<Tile> of_lanes_;
};
/// With one sub-tile, they are loaded when it is visited: for head_dim 128, no register is left to keep them.
template <class Tile>
class QueryTokens<Tile, false> {
 public:
  __device__ __forceinline__ QueryTokens(const Masks& masks, int first) : masks_(masks), first_(first) {}
  __device__ __forceinline__ Span span() const { return masks_.queries(first_, Tile::kWarpRows); }
  __device__ __forceinline__ LaneQueries<Tile> of_lanes() const { return {masks_, first_}; }

 private:
  const Masks& masks_;
  int first_;
};

/// The kinds of a warp's sub-tiles of a partial tile. If there are several, each lane computes the
/// kind of one, and a ballot distributes the kinds.
template <class Tile>
struct SubTiles {
  const Masks& masks;
  const MaskMod& head_mask;
  const QueryTokens<Tile>& queries;
  int first_key;                ///< of the tile
  Rect own;                     ///< the sub-tile whose kind this lane computes
  unsigned seen = 0, full = 0;  ///< a bit for each of several sub-tiles

  __device__ __forceinline__ SubTiles(const Masks& all, const MaskMod& of_head,
                                      const QueryTokens<Tile>& tokens, int first)
      : masks(all), head_mask(of_head), queries(tokens), first_key(first) {
    const int number = kSeveralSubTiles<Tile> ? ptx::unknown(threadIdx.x) % (Tile::Bc / Tile::kSlice) : 0;
    own = rect(number * Tile::kSlice);
    if constexpr (kSeveralSubTiles<Tile>) {
      const TileKind kind = head_mask.kind(own);
      seen = __ballot_sync(kAllLanes, kind != TileKind::kEmpty);
      full = __ballot_sync(kAllLanes, kind == TileKind::kFull);
    }
  }

  /// The sub-tile that begins at a key of the tile.
  __device__ __forceinline__ Rect rect(int key) const {
    return {queries.span(), masks.keys(first_key + key, Tile::kSlice)};
  }
  __device__ __forceinline__ TileKind kind(int key) const {
    if constexpr (!kSeveralSubTiles<Tile>) return head_mask.kind(own);
    const unsigned bit = 1u << key / Tile::kSlice;
    return (seen & bit) == 0 ? TileKind::kEmpty : (full & bit) == 0 ? TileKind::kPartial : TileKind::kFull;
  }
  /// The mask_mod of a partial sub-tile.
  __device__ __forceinline__ WarpMaskMod<Tile> partial_mask_mod(int key) const {
    return ch11::partial_mask_mod<Tile>(masks, head_mask, queries.of_lanes(),
                                        kSeveralSubTiles<Tile> ? rect(key) : own);
  }
  /// The mask_mod of a sub-tile: sets the scores that masks hide to -inf. Its `kind` says whether any is
  /// left.
  __device__ __forceinline__ WarpMaskMod<Tile> mask_mod(int key) const {
    // EXERCISE 6: What do the masks leave of the sub-tile that begins at `key`? Evaluate them for single scores only if it is partial.
    WarpMaskMod<Tile> result;
    const TileKind kind = this->kind(key);
    if (kind == TileKind::kPartial) result = partial_mask_mod(key);
    result.kind = kind;
    return result;
    // END 6
  }
};

// --- sparse_attention: lists of tiles ----------------------------------------------------------------------

/// The head and the query tile that a block computes.
template <class Tile, class Mods>
__device__ __forceinline__ HeadRow query_row_of_block(const Attention<typename Tile::T>& a,
                                                      const BlockMask& block_mask, const Masks& masks) {
  if constexpr (Mods::kLongestFirst) return row_of_block(block_mask, masks, 1);
  const ch07::QueryTile tile = Tile::Order::template tile_of<Tile>(blockIdx.x, a);
  return listed_row(block_mask, masks, tile.head, tile.first_query / Tile::Br);
}

/// FlashAttention on the tiles that are listed for a block: partial ones in a loop with masks, then full ones
/// in a loop without, as in chapter 07. list_tiles() has made the lists. The order of the tiles does not
/// matter for the sums.
///
/// In a step, the copy of the next tile starts before the products of this one. mask_mod is evaluated before
/// Q K^T, so that what it needs is no longer in registers when the scores are. The scores go through
/// score_mod before mask_mod: softcap would turn -inf into a finite number.
///
/// For OnlyBlocks, this is Algorithm 5 of Dao et al. 2022, block-sparse FlashAttention: the first loop is
/// gone.
template <class Tile, class Mods>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    sparse_attention(Attention<typename Tile::T> a, Masks masks, BlockMask block_mask, Mods mods) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const HeadRow row = query_row_of_block<Tile, Mods>(a, block_mask, masks);
  const MaskedBlock<Tile> block(a, masks, row);
  // The warp's first. With dropout, a shuffle shows the compiler that it is uniform: fewer registers spill.
  const int first_query = mods.dropout.same_in_warp(block.first_query + block.warp_row);
  const auto score_mod = mods.score_mods.template of_warp<Tile>(block.a, block.head, first_query);
  const auto draw = mods.dropout.template of_warp<Tile>(block.head, first_query);
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::Br * d;
  T* sV = sK + 2 * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  TilesOfRow<Mods::kOnlyFullTiles> tiles(block_mask, masks, row);
  KvStages<Tile> stages = {block, sK, sV};

  load_q(sQ, block);
  cp_async_commit();
  int tile = row.first;
  stages.start(tile);
  const QueryTokens<Tile> queries(masks, first_query);
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  while (tiles.is_partial()) {
    const int next = tiles.take();
    stages.next();
    stages.start(next);
    const SubTiles<Tile> sub_tiles(masks, block.head_mask, queries, tile * Bc);
#pragma unroll 1
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stages.used + key * d;
      const WarpMaskMod<Tile> mask_mod = sub_tiles.mask_mod(key);
      if (mask_mod.kind == TileKind::kEmpty) continue;
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      score_mod(rS, tile * Bc + key);
      mask_mod(rS);
      rescale<Tile>(acc, rS, score_mod.factor());
      multiply_pv<Tile>(acc, rS, sV + slice, score_mod.factor(), draw(tile * Bc + key));
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
      score_mod(rS, tile * Bc + key);
      rescale<Tile>(acc, rS, score_mod.factor());
      multiply_pv<Tile>(acc, rS, sV + slice, score_mod.factor(), draw(tile * Bc + key));
    }
    tile = next;
  }
  draw.scale(acc);
  mods.sinks.join(acc, block.head);
  store<Tile>(acc, block, sQ + block.warp_row * d, MarkedRows());
}

// --- rows whose exponents fp32 does not resolve ------------------------------------------------------------

/// The scores of a head with all that a kernel does to them.
template <class T, class Mods>
struct ModifiedPairs : MaskedPairs<T> {
  const Mods& mods;

  __device__ __forceinline__ float exponent(int query, int key, float product) const {
    return mods.score_mods.exponent(this->a, this->head, query, key, product);
  }
  __device__ __forceinline__ float kept(int query, int key) const {
    return mods.dropout.factor(this->head, query, key);
  }
  __device__ __forceinline__ float sink() const { return mods.sinks.exponent(this->head); }
};

/// Computes the rows again that a kernel has marked in LSE instead of repairing them itself: at the end of
/// sparse_attention(), the code of attend_again() takes registers that its loops need. See
/// device/unresolved_rows.cuh.
///
///   grid    ceil(batch * heads * seq_q / 128)
///   block   128: a lane reads the mark of a row, and a warp computes one row at a time
///   HBM     reads LSE; of a marked row, what the mask_mods leave of K and V, and writes O and LSE
template <class T, class Mods>
__global__ void __launch_bounds__(128) repair_marked_rows(Attention<T> a, Masks masks, Mods mods) {
  const std::size_t rows = std::size_t(a.batch) * a.heads * a.seq_q;
  const std::size_t first = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x / 32 * 32;  // of the warp
  const std::size_t mine = first + threadIdx.x % 32;
  const bool marked = mine < rows && is_marked(a.lse[mine]);
  for (unsigned left = __ballot_sync(kAllLanes, marked); left != 0; left &= left - 1) {
    const std::size_t row = first + __ffs(int(left)) - 1;
    const int head = int(row / a.seq_q), query = int(row % a.seq_q);
    T* o = a.o_rows(head)[query];
    const float lse = attend_again(a, head, query, ModifiedPairs<T, Mods>{{a, masks, head}, mods}, 0,
                                   a.head_dim, [&](int col, float x) { o[col] = T(x); });
    if (threadIdx.x % 32 == 0) a.lse[row] = lse;
  }
}

}  // namespace fa::ch11
