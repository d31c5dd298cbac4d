/// @file
/// What a block of chapter 10 computes: the tensors, its tiles, and in which order it takes them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "09_hopper/products.cuh"
#include "09_hopper/shared_tiles.cuh"
#include "device/attention.cuh"
#include "device/divisor.cuh"

namespace fa::ch10 {

// From chapter 09: rings of tiles, and how wgmma finds a tile.
using ch09::descriptor;
using ch09::init_ring;
using ch09::moved;
using ch09::Place;
using ch09::RingBarriers;
using ch09::warpgroup_index;

/// The arguments of the backward pass, passed to a kernel by value. O and LSE come from the forward pass.
///
/// log2_sum, delta and dq_sum are padded: each head has a whole number of query tiles.
template <class T>
struct Backward : Attention<T> {
  using Attention<T>::causal, Attention<T>::seq_k, Attention<T>::seq_q;

  const T* d_o;        ///< [batch, heads, seq_q, head_dim_v]
  int padded_queries;  ///< of a head: a multiple of each kernel's Br
  int interleaved;     ///< this many heads of K and V are interleaved: see KeyTile, key_tile_in_groups()
  int zero_rows;       ///< of a head: the first rows of dq_sum that prepare_rows() sets to zero
  float* log2_sum;     ///< [batch, heads, padded_queries]: LSE * log2 e; +inf where P must be 0
  float* delta;        ///< [batch, heads, padded_queries]: rowsum(dO * O), the papers' D
  float* dq_sum;  ///< [batch, heads, padded_queries, head_dim]: where dQ accumulates, tiles in fragment order
  int* turns;     ///< of `deterministic`: see turns.cuh
  T* dq;          ///< [batch, heads, seq_q, head_dim]
  Strides do_strides, dq_strides, dk_strides, dv_strides;

  /// The first query that sees a key; all later queries see it too.
  __host__ __device__ int first_query(int key) const {
    const int query = causal ? key - seq_k + seq_q : 0;
    return query > 0 ? query : 0;
  }
};

/// What kernels divide the numbers of blocks by that go through all rows of all heads.
struct BlocksOfHeads {
  Divisor blocks;  ///< of a head
  Divisor heads;   ///< of a batch
};

// --- tiles -------------------------------------------------------------------------------------------------

/// A block owns a key tile: two consumer warpgroups with 64 keys each. Their registers hold dK and dV, and S
/// and dP of a query tile: at head_dim 64 there is room for twice as many queries.
template <class Element, int kHeadDimension>
struct KeyTiles {
  using T = Element;
  static constexpr int kHeadDim = kHeadDimension, kHeadDimV = kHeadDim;
  static constexpr int Br = kHeadDim <= 64 ? 128 : 64;  ///< queries of a step
  static constexpr int Bc = 128;                        ///< keys of a block
  static constexpr int kStages = 2;                     ///< tiles of Q and of dO in shared memory
  static constexpr int kDsStages = 2;                   ///< tiles of dS
  static constexpr int kConsumers = 2;
  static constexpr int kDsWarps = 4 * kConsumers;  ///< that store dS
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
  static constexpr int kCols = (kHeadDim + 63) / 64 * 64;  ///< of a tile in shared memory
  static constexpr bool kPads = false;
  /// dQ of a query tile is divided into one part of 64 rows for each consumer.
  static constexpr int kDqCols = Br * kCols / 64 / kConsumers;
  static constexpr int kFirstDqCols = kDqCols;   ///< of the first consumer's part
  static constexpr int kQueryTile = Br * kCols;  ///< elements
};

/// The same tiles as V and dO have them, and dV.
template <class Tile>
struct OfValues : Tile {
  static constexpr int kHeadDim = Tile::kHeadDimV;
  static constexpr int kCols = (kHeadDim + 63) / 64 * 64;
  static constexpr int kQueryTile = Tile::Br * kCols;
};

/// The same tiles for tensors with fewer columns.
template <class Tile>
struct Padded : Tile {
  static constexpr bool kPads = true;
};

/// The tensors' columns: a constant, unless the tiles are wider.
template <class Tile>
__device__ __forceinline__ int head_dim(const Backward<typename Tile::T>& a) {
  return Tile::kPads ? a.head_dim : Tile::kHeadDim;
}

// --- key tiles and query tiles -----------------------------------------------------------------------------

/// A key tile of one head of K and V. Blocks of the same head are neighbours: they add to the same rows of
/// dQ, which stay in the L2 cache meanwhile. Under a causal mask the first key tiles have the most queries,
/// and come first. The last heads are interleaved: the first key tile of each, then the second. So the
/// blocks that end last are short ones.
struct KeyTile {
  int kv_head, first_key;

  template <class Tile>
  static __device__ __forceinline__ KeyTile of_block(int block, const Backward<typename Tile::T>& a) {
    const int tiles = (a.seq_k + Tile::Bc - 1) / Tile::Bc;
    const int heads = a.batch * a.kv_heads - a.interleaved, after = block - heads * tiles;
    if (after < 0) return {block / tiles, block % tiles * Tile::Bc};
    return {heads + after % a.interleaved, after / a.interleaved * Tile::Bc};
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
  /// The number of the tile among those of all heads.
  __device__ __forceinline__ int number() const { return head * end_tile + tile; }
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

/// The same tiles, in each head from the last one to the first.
template <class Tile>
struct BackwardWalk : QueryWalk<Tile> {
  using QueryWalk<Tile>::head, QueryWalk<Tile>::tile, QueryWalk<Tile>::end_tile;

  __device__ __forceinline__ BackwardWalk(const Backward<typename Tile::T>& a, const KeyTile& keys)
      : QueryWalk<Tile>(a, keys) {
    tile = end_tile - 1;
  }
  __device__ __forceinline__ bool at_first() const {
    return head == this->first_head && tile == end_tile - 1;
  }
  __device__ __forceinline__ void next() {
    if (tile-- == this->first_tile) {
      tile = end_tile - 1;
      ++head;
    }
  }
};

}  // namespace fa::ch10
