/// @file
/// A private ring of tiles for each worker: its own copies, its own barriers. No worker waits for another
/// one.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "device/begin_early.cuh"
#include "device/hopper.cuh"
#include "plan.cuh"
#include "tiles.cuh"

namespace fa::ch14 {

/// K and V as TMA sees them: coordinates are column in a panel, token, panel, head, and page or batch. A box
/// is `box_keys` tokens with all their panels.
struct CacheMaps {
  CUtensorMap k, v;
  int box_keys;
};

/// A cache [batch, kv_heads, seq_k, d].
struct Contiguous : CacheMaps {
  /// The page of a key: here, the sequence.
  __device__ __forceinline__ int page(int batch, int) const { return batch; }
  __device__ __forceinline__ int token(int key) const { return key; }
};

/// A cache [pages, kv_heads, page_size, d].
struct Paged : CacheMaps {
  const std::int32_t* table;  ///< [batch, columns]: the page numbers of each sequence
  int columns, page_shift;    ///< a page has 2^page_shift keys

  __device__ __forceinline__ int page(int batch, int key) const {
    // EXERCISE 6: Which number in the table is the page of this key?
    return table[std::int64_t(batch) * columns + (key >> page_shift)];
    // END 6
  }
  __device__ __forceinline__ int token(int key) const { return key & ((1 << page_shift) - 1); }
};

/// A worker's ring: starts copies of its tiles, kStages ahead of the products. It walks through the granules
/// of the block on its own, and crosses from one head or sequence to the next without waiting for anything.
///
/// The first lanes of the worker start a copy each, one box of K and one of V.
template <class Tile, class Cache>
class Ring {
 public:
  /// @param place  of the worker's first tile     @param tiles  how many it has
  __device__ __forceinline__ Ring(SharedTiles<Tile>& s, const Cache& cache, const Granules& granules,
                                  int heads_of_rows, Place place, int tiles)
      : worker_(__shfl_sync(kAllLanes, int(threadIdx.x) / Tile::kWorkerThreads, 0)),
        s_(s),
        cache_(cache),
        granules_(granules),
        row_tiles_(heads_of_rows),
        place_(place),
        left_(tiles) {
    const int boxes = Tile::kKeys / cache.box_keys;
    copies_ = int(threadIdx.x) % Tile::kWorkerThreads < boxes;
    if (threadIdx.x == 0) {
      ptx::prefetch_tensor_map(&cache.k);
      ptx::prefetch_tensor_map(&cache.v);
    }
    if (threadIdx.x % Tile::kWorkerThreads == 0) {
      for (int stage = 0; stage < Tile::kStages; ++stage) ptx::mbarrier_init(&full(stage), boxes);
      ptx::fence_mbarrier_init();
    }
    __syncwarp();  // the first lanes start copies
  }

  /// Starts the copies to all stages. Those with any of the last `new_keys` keys of a sequence wait for the
  /// kernel before this one.
  __device__ __forceinline__ void fill(int new_keys) {
    look_up();
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      if ((place_.tile + 1) * Tile::kKeys > place_.length - new_keys) begin_early();
      start(stage);
    }
  }

  /// Waits for the next tile, and returns its stage.
  __device__ __forceinline__ Stage<Tile>& wait() {
    ptx::mbarrier_wait(&full(stage_), parity_);
    return s_.ring[worker_][stage_];
  }

  /// The worker has read the tile: its stage is free for the copy of the one kStages further on.
  __device__ __forceinline__ void release() {
    start(stage_);
    if (++stage_ == Tile::kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  __device__ __forceinline__ std::uint64_t& full(int stage) { return s_.full[worker_][stage]; }
  __device__ __forceinline__ int first_key() const {
    return place_.tile * Tile::kKeys + int(threadIdx.x) % 32 * cache_.box_keys;
  }
  /// Loads the page number of the next copy, long before it starts.
  __device__ __forceinline__ void look_up() {
    // EXERCISE 7: Find the bug: with which pages is this wrong, and for which keys of a tile? Mend it.
    if (copies_ && left_ > 0 && first_key() < place_.length) page_ = cache_.page(place_.batch, first_key());
    // END 7
  }
  /// Starts the copy of the next tile, if there is one.
  __device__ __forceinline__ void start(int stage) {
    if (left_ <= 0) return;
    if (copies_) {
      constexpr int d = Tile::kHeadDim, kBytes = 2 * int(sizeof(typename Tile::Element)) * d;  // of a key
      const int box = int(threadIdx.x) % 32 * cache_.box_keys, key = first_key();
      Stage<Tile>& to = s_.ring[worker_][stage];
      if (key < place_.length) {
        ptx::mbarrier_arrive_expect_tx(&full(stage), cache_.box_keys * kBytes);
        const int token = cache_.token(key), head = place_.head / row_tiles_;
        ptx::tma_load(to.k + box * d, &cache_.k, &full(stage), 0, token, 0, head, page_);
        ptx::tma_load(to.v + box * d, &cache_.v, &full(stage), 0, token, 0, head, page_);
      } else {
        ptx::mbarrier_arrive(&full(stage));  // nothing of the box is read
      }
    }
    if (--left_ > 0) {
      place_.advance(granules_, Tile::kWorkers);
      look_up();
    }
  }

  int worker_;  ///< the same in all lanes: the shuffle tells the compiler
  SharedTiles<Tile>& s_;
  const Cache& cache_;
  const Granules& granules_;
  int row_tiles_;
  Place place_;
  int left_;
  bool copies_;
  int page_ = 0;
  int stage_ = 0, parity_ = 0;
};

}  // namespace fa::ch14
