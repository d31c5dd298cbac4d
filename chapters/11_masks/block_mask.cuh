/// @file
/// BlockMask: for each query tile a list of the key tiles that masks do not hide, or for each key tile a list
/// of the query tiles; and which row of tiles a block takes. list_tiles.cuh makes the lists.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "device/reduce.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

/// A row of tiles: what a block needs before its first copy. One load brings it.
struct alignas(16) BlockMaskRow {
  int counts[2];  ///< of the tiles in its list: partial ones, full ones
  int row;
  int first;  ///< the tile to visit first; -1: there is none

  __host__ __device__ int partial() const { return counts[0]; }
  __host__ __device__ int full() const { return counts[1]; }
};

/// Which tiles are partial and which are full: a list of each for every row, as in FlexAttention's BlockMask.
/// Heads with the same masks share a list.
struct BlockMask {
  BlockMaskRow* listed;  ///< [lists, rows]
  int* tiles;  ///< [lists, rows, most]: partial tiles from the left, full ones from the right; between them
               ///< nothing
  BlockMaskRow* order;  ///< [lists, rows]: the same rows, from the longest list to the shortest; null: none
  int rows;             ///< the tiles that have a list
  int most;             ///< the tiles that a list can name

  /// The index of a head's row in `listed` and `order`. Its list begins at `most` times that in `tiles`.
  __host__ __device__ std::size_t index_of(const Masks& masks, int head, int row) const {
    return std::size_t(masks.list_of(head)) * rows + row;
  }
  /// One of the two counts of a list. As an index of all numbers: counts[..] of a BlockMaskRow takes more
  /// registers.
  __device__ __forceinline__ int count(std::size_t list, bool partial) const {
    constexpr int kNumbers = sizeof(BlockMaskRow) / sizeof(int);
    return reinterpret_cast<const int*>(listed)[kNumbers * list + (partial ? 0 : 1)];
  }
};

/// A row of tiles in a head, and what its list begins with.
struct HeadRow : BlockMaskRow {
  int head;  ///< counts through all batches
};

/// The key tiles of a list: partial ones in ascending order, then full ones in descending order. The first
/// one came with the row, and has been taken.
/// @tparam kOnlyFull  whether there are no partial ones
template <bool kOnlyFull = false>
struct TilesOfRow {
  const int* tiles;  ///< of all lists
  unsigned entry;    ///< of all lists: the one to take next
  int left, full;    ///< tiles that have not been taken; of all, how many are full
  int gap;           ///< entries between the partial ones and the full ones

  __device__ __forceinline__ TilesOfRow(const BlockMask& block_mask, const Masks& masks, const HeadRow& row)
      : tiles(block_mask.tiles), left(row.partial() + row.full() - 1), full(row.full()) {
    gap = block_mask.most - row.partial() - row.full();
    entry = unsigned(block_mask.index_of(masks, row.head, row.row) * block_mask.most) +
            (row.partial() == 0 ? gap : 0) + 1;
  }
  /// The next tile, or -1 after the last one.
  __device__ __forceinline__ int take() {
    if (left == full) entry += gap;
    return take_full();
  }
  /// The same, once a full one has been taken.
  __device__ __forceinline__ int take_full() { return left-- > 0 ? tiles[entry++] : -1; }
  /// Whether the tile that was taken last is partial.
  __device__ __forceinline__ bool is_partial() const { return !kOnlyFull && left >= full; }
  /// Whether there was none.
  __device__ __forceinline__ bool is_done() const { return left < 0; }
};

/// A row of a head, if there is no order. @param head  counts through all batches
__device__ __forceinline__ HeadRow listed_row(const BlockMask& block_mask, const Masks& masks, int head,
                                              int row) {
  return {block_mask.listed[block_mask.index_of(masks, head, row)], head};
}

/// The row that comes at a place in the order. @param group  query heads in each head: 1, or heads / kv_heads
__device__ __forceinline__ HeadRow row_at(const BlockMask& block_mask, const Masks& masks, int head,
                                          int place, int group) {
  HeadRow row = {block_mask.order[block_mask.index_of(masks, head * group, place)], head};
  row.row = __shfl_sync(kAllLanes, row.row, 0);  // uniform for the compiler too, as in KeyBlock
  return row;
}

/// The head and the row that a block computes, if there is an order. Blocks start in the order of x, y and z:
/// those with long lists first, and those with short ones fill the gaps at the end. Heads are taken gridDim.x
/// at a time: what concurrent blocks load is in the L2 cache then.
///
///   grid    (heads at once, rows, the rest of the heads)
/// @param group  as above
__device__ __forceinline__ HeadRow row_of_block(const BlockMask& block_mask, const Masks& masks, int group) {
  return row_at(block_mask, masks, int(blockIdx.z * gridDim.x + blockIdx.x), int(blockIdx.y), group);
}

}  // namespace fa::ch11
