/// @file
/// A worker's ring without TMA, for every device since sm_80: each lane copies 16 bytes at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/cp_async.cuh"
#include "plan.cuh"
#include "tiles.cuh"

namespace fa::ch14 {

/// The warps of a block of `ampere`: so few that a GeForce has room for them.
template <class T_, int kHeadDimension, int kColumns>
struct CpAsyncTile : WarpTile<T_, T_, kHeadDimension, kColumns> {
  static constexpr int kWorkers = kHeadDimension == 256 ? 2 : 4, kThreads = 32 * kWorkers, kStages = 2;
  static constexpr bool kByTma = false;
};

/// Where K and V are: the same tensors as for TMA. [batches, kv_heads, tokens, d], a batch is a page or a
/// sequence.
template <class Element>
struct CachePointers {
  const Element *k, *v;
  int kv_heads, tokens;
  const std::int32_t* table;  ///< [batch, columns]: the page numbers of each sequence; null: contiguous
  int columns, page_shift;
  int heads_that_share;  ///< of the work; 1 unless the rows of one head of Q are a head of the work

  __device__ __forceinline__ int page(int batch, int key) const {
    return table == nullptr ? batch : table[std::int64_t(batch) * columns + (key >> page_shift)];
  }
  /// Elements from the cache's first to the first one of a key.
  __device__ __forceinline__ std::size_t offset(int page, int head, int key, int d) const {
    const int token = table == nullptr ? key : key & ((1 << page_shift) - 1);
    return ((std::size_t(page) * kv_heads + head / heads_that_share) * tokens + token) * d;
  }
};

/// Starts the copy of a tile by kThreads threads, each of which copies some chunks of 16 bytes. Keys from
/// `length` on become zeros. @param pages  page(first_key + 16 * i) for each group of 16 keys
template <class Tile, int kThreads, class Element>
__device__ __forceinline__ void copy_tile(Stage<Tile>& s, const CachePointers<Element>& cache,
                                          const int (&pages)[Tile::kKeys / 16], int head, int first_key,
                                          int length, int thread) {
  constexpr int d = Tile::kHeadDim, kChunks = d / 8;
  static_assert(kThreads % kChunks == 0 || kChunks % kThreads == 0);
#pragma unroll
  for (int group = 0; group < Tile::kKeys / 16; ++group) {
    const int first = first_key + 16 * group;
    const std::size_t from = cache.offset(pages[group], head, first, d);
#pragma unroll
    for (int n = 0; n < 16 * kChunks; n += kThreads) {
      const int row = (n + thread) / kChunks, col = (n + thread) % kChunks * 8;
      const int to = Grouped<d>::offset(16 * group + row, col);
      const bool inside = first + row < length;
      const std::size_t at = inside ? from + row * d + col : 0;
      cp_async_16_or_zero(s.k + to, cache.k + at, inside);
      cp_async_16_or_zero(s.v + to, cache.v + at, inside);
    }
  }
}

/// Has the interface of Ring.
template <class Tile, class Cache>
class CpAsyncRing {
 public:
  __device__ __forceinline__ CpAsyncRing(SharedTiles<Tile>& s, const Cache& cache, const Granules& granules,
                                         int row_tiles, Place place, int tiles)
      : s_(s), cache_(cache), granules_(granules), row_tiles_(row_tiles), place_(place), left_(tiles) {
    static_assert(Tile::kWorkerThreads == 32);
  }

  __device__ __forceinline__ void fill(int) {
    look_up();
    for (int stage = 0; stage < Tile::kStages; ++stage) start(stage);
  }
  __device__ __forceinline__ Stage<Tile>& wait() {
    cp_async_wait<Tile::kStages - 1>();
    __syncwarp();  // the other lanes' copies have landed too
    return s_.ring[threadIdx.x / 32][stage_];
  }
  __device__ __forceinline__ void release() {
    start(stage_);
    stage_ = stage_ + 1 == Tile::kStages ? 0 : stage_ + 1;
  }

 private:
  __device__ __forceinline__ void look_up() {
    if (left_ <= 0) return;
#pragma unroll
    for (int group = 0; group < Tile::kKeys / 16; ++group) {
      const int key = place_.tile * Tile::kKeys + 16 * group;
      if (key < place_.length) pages_[group] = cache_.page(place_.batch, key);
    }
  }
  __device__ __forceinline__ void start(int stage) {
    if (left_ > 0) {
      copy_tile<Tile, 32>(s_.ring[threadIdx.x / 32][stage], cache_, pages_, place_.head / row_tiles_,
                          place_.tile * Tile::kKeys, place_.length, int(threadIdx.x) % 32);
      if (--left_ > 0) {
        place_.advance(granules_, Tile::kWorkers);
        look_up();
      }
    }
    cp_async_commit();  // near the end an empty group: the wait counts groups
  }

  SharedTiles<Tile>& s_;
  const Cache& cache_;
  const Granules& granules_;
  int row_tiles_;
  Place place_;
  int left_;
  int pages_[Tile::kKeys / 16] = {};
  int stage_ = 0;
};

}  // namespace fa::ch14
