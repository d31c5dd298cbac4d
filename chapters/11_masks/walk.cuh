/// @file
/// The key tiles that a block of queries visits, and their way into shared memory.
#pragma once

#include <cuda_runtime.h>

#include "07_multi_stage/block.cuh"
#include "07_multi_stage/copies.cuh"
#include "device/attention.cuh"
#include "device/cp_async.cuh"
#include "device/unresolved_rows.cuh"
#include "lists.cuh"
#include "masks.cuh"

namespace fa::ch11 {

/// The work of a block, as in chapter 07, and the masks of its head.
template <class Tile>
struct MaskedBlock : ch07::Block<Tile> {
  HeadMasks masks;

  __device__ __forceinline__ MaskedBlock(const Attention<typename Tile::T>& attention, const Masks& all)
      : MaskedBlock(attention, all, Tile::Order::template tile_of<Tile>(blockIdx.x, attention)) {}
  __device__ __forceinline__ MaskedBlock(const Attention<typename Tile::T>& attention, const Masks& all,
                                         const HeadRow& at)
      : MaskedBlock(attention, all, ch07::QueryTile{at.head, at.row * Tile::Br}) {}

 private:
  __device__ __forceinline__ MaskedBlock(const Attention<typename Tile::T>& attention, const Masks& all,
                                         const ch07::QueryTile& tile)
      : ch07::Block<Tile>(attention, tile), masks(all.of(this->head)) {
    this->factor = attention.exp2_scale;  // a parameter: it needs no register
    if (Tile::kDense) this->gK.stride = this->gV.stride = Tile::kHeadDim;
    this->seen_by_last = masks.keys;  // keys after these are not loaded, and count as zeros
  }
};

/// What device/unresolved_rows.cuh needs to know of the scores under masks.
template <class T>
struct MaskedPairs : PlainPairs<T> {
  const Masks& masks;
  int head;

  /// ptx::unknown(): or what the masks of the head need would stay in registers since the kernel began
  __device__ __forceinline__ MaskedPairs(const Attention<T>& given, const Masks& of_all, int of_head)
      : PlainPairs<T>{given}, masks(of_all), head(ptx::unknown(of_head)) {}
  __device__ __forceinline__ bool exists(int query, int key) const {
    return masks.of(head).sees(masks.query(query), masks.key(key));
  }
};

/// A key tile, and what the masks leave of it. A negative number: there is none.
struct Visit {
  int tile;
  Kind kind;
};

/// The key tiles of which a block sees something, from the last to the first. Every warp asks for itself.
template <class Tile>
struct VisibleTiles {
  const Masks& all;
  const HeadMasks& masks;
  Span queries;  ///< of the block

  __device__ __forceinline__ VisibleTiles(const Masks& all_, const MaskedBlock<Tile>& block)
      : all(all_), masks(block.masks), queries(all.queries(block.first_query, Tile::Br)) {}

  /// The last of those before a tile.
  __device__ __forceinline__ Visit before(int tile) const {
    // EXERCISE 5: Find the next tile, towards tile 0, that is not empty.
    Visit visit = {tile, Kind::kEmpty};
    while (visit.kind == Kind::kEmpty && --visit.tile >= 0) {
      visit.kind = masks.kind({queries, all.keys(visit.tile * Tile::Bc, Tile::Bc)});
    }
    return visit;
    // END 5
  }
};

/// Two stages of K and V in shared memory: while a tile is in use, the next one is in flight.
template <class Tile>
struct TwoStages {
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
    __syncthreads();  // the tile has landed; nobody reads the previous one
    used = Tile::kTile - used;
  }
};

}  // namespace fa::ch11
