/// @file
/// The query tiles that a block with a key tile visits: in the order of chapter 08, without those that the
/// masks hide, or as listed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "08_backward/key_tiles.cuh"
#include "block_mask.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

using ch08::Backward;
using ch08::KeyBlock;
using ch08::QueryWalk;

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

/// Of all query tiles those that are not empty. Each thread asks for the kind of every tile.
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
      const HeadMasks of_head = masks.of(head_of(*this, masks));
      kind = masks.kind(of_head, this->first_query(), Tile::Br, first_key, Tile::Bc);
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
  const TileLists& lists;
  bool partial = true;  ///< whether the current tile is

  /// Without an order, no row is given: the first list is read like the others. With a row, dropout at
  /// head_dim 128 took 3 % longer.
  __device__ __forceinline__ ListedQueryTiles(const Backward<typename Tile::T>& attention,
                                              const KeyBlock<Tile>& keys, const Masks& all,
                                              const TileLists& visited)
      : QueryWalk<Tile>(attention, keys), a(attention), block(keys), masks(all), lists(visited) {
    --this->head;
    next_list();
  }
  /// @param at  the row of the first head that shares the key tile
  __device__ __forceinline__ ListedQueryTiles(const Backward<typename Tile::T>& attention,
                                              const KeyBlock<Tile>& keys, const Masks& all,
                                              const TileLists& visited, const ListedRow& at)
      : QueryWalk<Tile>(attention, keys), a(attention), block(keys), masks(all), lists(visited) {
    if (at.partial() == 0 && a.heads != a.kv_heads) {
      next_list();
    } else {
      partial = at.partial() > 0;
      begin(list(), partial ? at.partial() : at.full());
      this->tile = at.first;
      if (at.first < 0) this->head = this->end_head;
    }
  }
  __device__ __forceinline__ void next() {
    if (++entry == end) {
      next_list();
    } else {
      this->tile = lists.tiles[entry];
    }
  }

 private:
  unsigned entry = 0, end = 0;  ///< of all lists: the current one, and the one after the last of this list

  __device__ __forceinline__ std::size_t list() const {
    return lists.at(masks, head_of(*this, masks), block.first_key / Tile::Bc);
  }
  /// Goes to the first of the partial or the full tiles of a list. @param count  of these
  __device__ __forceinline__ void begin(std::size_t list, int count) {
    entry = unsigned(list * lists.most) + (partial ? 0 : lists.most - count);
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
      begin(list, lists.count(list, partial));
    } while (entry == end);
    this->tile = lists.tiles[entry];
  }
};

}  // namespace fa::ch11
