/// @file
/// Which key tile a block owns, and over which query tiles it loops.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "backward.cuh"
#include "device/math.cuh"

namespace fa::ch10 {

/// A key tile of one head of K and V. Blocks of the same head are neighbours: they add to the same rows of
/// dQ, which stay in the L2 cache meanwhile. Under a causal mask the first key tiles have the most queries,
/// and come first.
struct KeyTile {
  int kv_head, first_key;

  template <class Tile>
  static __device__ __forceinline__ KeyTile of_block(int block, const Attention<typename Tile::T>& a) {
    const int tiles = (a.seq_k + Tile::Bc - 1) / Tile::Bc;
    return {block / tiles, block % tiles * Tile::Bc};
  }
};

/// Iterates over the query tiles of all heads that share a key tile, in each head from the first tile that
/// sees it.
template <class Tile>
struct QueryWalk {
  int head, tile;  ///< the current ones
  int first_head, first_tile, end_head, end_tile;

  __device__ __forceinline__ QueryWalk(const Backward<typename Tile::T>& a, const KeyTile& keys) {
    const int group = a.heads / a.kv_heads;
    end_tile = a.padded_queries / Tile::Br;
    first_tile = a.first_query(keys.first_key) / Tile::Br;
    head = first_head = keys.kv_head * group, tile = first_tile;
    end_head = head + group;
  }
  __device__ __forceinline__ bool at_first() const { return head == first_head && tile == first_tile; }
  __device__ __forceinline__ bool done() const { return head == end_head; }
  __device__ __forceinline__ int first_query() const { return tile * Tile::Br; }
  /// The first row of the tile in tensors of padded_queries rows per head.
  __device__ __forceinline__ size_t padded_row() const { return (size_t(head) * end_tile + tile) * Tile::Br; }
  /// Whether some query of the tile does not see some key of the block.
  __device__ __forceinline__ bool masked(const Backward<typename Tile::T>& a, const KeyTile& keys) const {
    return a.visible_keys(first_query()) < keys.first_key + Tile::Bc;
  }
  __device__ __forceinline__ void next() {
    if (++tile == end_tile) {
      tile = first_tile;
      ++head;
    }
  }
};

}  // namespace fa::ch10
