/// @file
/// Which query tile a block computes, which of its rows each warp handles, and which keys these rows see.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "device/attention.cuh"
#include "device/math.cuh"

namespace fa::ch07 {

/// One query tile of one head.
struct QueryTile {
  int head;  ///< counts through all batches
  int first_query;
};

/// The order of the blocks: one head after the other, and within a head the query tiles from first to last.
struct HeadAfterHead {
  template <class Tile>
  static __device__ __forceinline__ QueryTile tile_of(int block, const Attention<typename Tile::T>& a) {
    const int tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
    return {block / tiles, block % tiles * Tile::Br};
  }
};

/// Under a causal mask, the last query tiles see the most keys. They start first, so that short ones fill the
/// gaps at the end. Heads are divided into groups whose K and V fit into the L2 cache together, where
/// concurrent blocks share them.
///
/// @tparam kCachedBytes  the most bytes of K and V that a group of heads may have
template <int kCachedBytes>
struct LongestFirst {
  template <class Tile>
  static __device__ __forceinline__ QueryTile tile_of(int block, const Attention<typename Tile::T>& a) {
    const int heads = a.batch * a.heads, tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
    if (!a.causal) return HeadAfterHead::tile_of<Tile>(block, a);
    const size_t bytes =
        2 * sizeof(typename Tile::T) * size_t(a.seq_k) * size_t(a.head_dim);  // K and V of a head
    const int cached = int(max(size_t(1), min(size_t(heads), kCachedBytes / bytes)));
    const int groups = (heads + cached - 1) / cached, group = (heads + groups - 1) / groups;
    const int first_head = block / (group * tiles) * group, here = min(group, heads - first_head);
    const int in_group = block - first_head * tiles;
    return {first_head + in_group % here, (tiles - 1 - in_group / here) * Tile::Br};
  }
};

/// The work of a block, and this warp's share of it.
template <class Tile>
struct Block {
  using T = typename Tile::T;
  const Attention<T>& a;
  int head;           ///< counts through all batches
  int first_query;    ///< of the block's query tile
  int warp_row;       ///< the first of this warp's kWarpRows rows, counted within the tile
  int seen_by_first;  ///< how many keys the tile's first query sees; no other query sees fewer
  int seen_by_last;   ///< how many keys its last query sees, the most of all: the block loads these
  float factor;       ///< turns q.k into an exponent of 2: scale * log2 e
  HeadRows<const T> gQ, gK, gV;  ///< all rows of the head

  __device__ __forceinline__ explicit Block(const Attention<T>& attention)
      : Block(attention, Tile::Order::template tile_of<Tile>(blockIdx.x, attention)) {}
  __device__ __forceinline__ Block(const Attention<T>& attention, const QueryTile& tile) : a(attention) {
    head = tile.head;
    first_query = tile.first_query;
    warp_row = threadIdx.x / 32 * Tile::kWarpRows;
    factor = a.scale * kLog2e;
    gQ = a.q_rows(head);
    gK = a.k_rows(head);
    gV = a.v_rows(head);
    seen_by_last = a.visible_keys(min(first_query + Tile::Br, a.seq_q) - 1);
    seen_by_first = a.visible_keys(first_query);
  }

  /// How many key tiles the block needs.
  __device__ __forceinline__ int key_tiles() const { return (seen_by_last + Tile::Bc - 1) / Tile::Bc; }
};

}  // namespace fa::ch07
