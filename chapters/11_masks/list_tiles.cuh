/// @file
/// The kernels that make a BlockMask on the GPU: they list the tiles of each row, and order the rows.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "block_mask.cuh"
#include "device/launch.cuh"
#include "device/reduce.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

/// For each tile of Br queries the tiles of Bc keys, as sparse_attention() visits them.
template <class Tile>
struct KeysOfQueries {
  static int rows(const Masks& masks) { return (masks.seq_q - 1) / Tile::Br + 1; }
  static int most(const Masks& masks) { return (masks.seq_k - 1) / Tile::Bc + 1; }
  __host__ __device__ static TileKind kind(const Masks& masks, const MaskMod& head_mask, int row, int tile) {
    return masks.kind(head_mask, row * Tile::Br, Tile::Br, tile * Tile::Bc, Tile::Bc);
  }
};
/// For each tile of Bc keys the tiles of Br queries, as the gradients visit them.
template <class Tile>
struct QueriesOfKeys {
  static int rows(const Masks& masks) { return (masks.seq_k - 1) / Tile::Bc + 1; }
  static int most(const Masks& masks) { return (masks.seq_q - 1) / Tile::Br + 1; }
  __host__ __device__ static TileKind kind(const Masks& masks, const MaskMod& head_mask, int row, int tile) {
    return masks.kind(head_mask, tile * Tile::Br, Tile::Br, row * Tile::Bc, Tile::Bc);
  }
};

/// Writes the list of a row. A warp makes it; each of its lanes computes the kind of every 32nd tile.
/// @tparam Of  KeysOfQueries or QueriesOfKeys
/// @param entry  of all lists, those of the heads' rows one after the other
template <class Of>
__device__ __forceinline__ void list_tiles_of_row(const Masks& masks, const BlockMask& block_mask,
                                                  int entry) {
  const int lane = threadIdx.x % 32, row = entry % block_mask.rows;
  const MaskMod head_mask = masks.of(masks.head_of_list(entry / block_mask.rows));
  int* tiles = block_mask.tiles + std::size_t(entry) * block_mask.most;
  int partial = 0, full = 0, first_partial = block_mask.most, last_full = -1;
  for (int first = 0; first < block_mask.most; first += 32) {
    const int tile = first + lane;
    const TileKind kind = tile < block_mask.most ? Of::kind(masks, head_mask, row, tile) : TileKind::kEmpty;
    // EXERCISE 7: Append the lanes' tiles without gaps: partial ones from the left, full ones from the right. Add to the counts.
    const unsigned partial_lanes = __ballot_sync(kAllLanes, kind == TileKind::kPartial);
    const unsigned full_lanes = __ballot_sync(kAllLanes, kind == TileKind::kFull);
    const unsigned lanes_before = (1u << lane) - 1;
    if (kind == TileKind::kPartial) tiles[partial + __popc(partial_lanes & lanes_before)] = tile;
    if (kind == TileKind::kFull) tiles[block_mask.most - 1 - full - __popc(full_lanes & lanes_before)] = tile;
    partial += __popc(partial_lanes);
    full += __popc(full_lanes);
    // END 7
    if (kind == TileKind::kPartial) first_partial = min(first_partial, tile);
    if (kind == TileKind::kFull) last_full = tile;
  }
  const int to_visit = partial > 0 ? -warp_reduce(-first_partial, Max()) : warp_reduce(last_full, Max());
  if (lane == 0) block_mask.listed[entry] = {{partial, full}, row, partial + full > 0 ? to_visit : -1};
}

/// Writes the lists.
///
///   grid    lists * rows
///   block   32
///   HBM     writes a BlockMaskRow for each list, and the number of each tile that is not empty; reads what
///           kind() reads
/// @tparam Of  KeysOfQueries or QueriesOfKeys
template <class Of>
__global__ void __launch_bounds__(32) list_tiles(Masks masks, BlockMask block_mask) {
  list_tiles_of_row<Of>(masks, block_mask, blockIdx.x);
}

// --- the order of the blocks -------------------------------------------------------------------------------

/// Writes in which order the rows are taken: the longest list first, equal ones by the numbers of their rows.
/// A thread counts for its row those that come before it.
/// @param list  which of the lists: heads with the same masks share one
template <int kThreads>
__device__ __forceinline__ void order_rows_of(const BlockMask& block_mask, int list) {
  const std::size_t first = std::size_t(list) * block_mask.rows;
  const BlockMaskRow* listed = block_mask.listed + first;
  for (int row = threadIdx.x; row < block_mask.rows; row += kThreads) {
    const BlockMaskRow mine = listed[row];
    const int length = mine.partial() + mine.full();
    int before = 0;
    for (int other = 0; other < block_mask.rows; ++other) {
      const int of_other = listed[other].partial() + listed[other].full();
      before += of_other > length || (of_other == length && other < row);
    }
    block_mask.order[first + before] = mine;
  }
}

/// Orders the rows of lists that list_tiles() has made.
///
///   grid    lists
///   block   kThreads
///   HBM     reads each BlockMaskRow, and for each 32 rows the counts of all; writes each once
template <int kThreads>
__global__ void __launch_bounds__(kThreads) order_rows(BlockMask block_mask) {
  order_rows_of<kThreads>(block_mask, blockIdx.x);
}

/// Lists of one kind: KeysOfQueries or QueriesOfKeys.
template <class Of>
struct BlockMaskOf : BlockMask {
  /// Makes the lists of all rows, a warp for each, and orders them. All threads of a block of 32 * kRows take
  /// part.
  template <int kRows>
  __device__ __forceinline__ void make_and_order(const Masks& masks, int list) const {
    const int row = threadIdx.x / 32;
    if (row < rows) list_tiles_of_row<Of>(masks, *this, list * rows + row);
    __syncthreads();  // the counts of all rows are written
    order_rows_of<32 * kRows>(*this, list);
  }
};

/// list_tiles() and order_rows() in one kernel, for few rows, and for several kinds of lists.
///
///   grid    (lists, kinds)
///   block   32 * kRows
///   HBM     as these two
/// @tparam kRows  the most rows
template <int kRows, class... Of>
__global__ void __launch_bounds__(32 * kRows, 1) list_and_order(Masks masks, BlockMaskOf<Of>... block_masks) {
  unsigned kind = 0;
  const auto make = [&](const auto& of_kind) {
    if (blockIdx.y == kind++) of_kind.template make_and_order<kRows>(masks, int(blockIdx.x));
  };
  (make(block_masks), ...);
}

/// The grid of a kernel that takes its rows from row_of_block(). The heads that it takes at once are as many
/// as divide all heads, and have about two waves of blocks on an H100.
/// @param heads  of all batches    @param blocks_per_sm  of the kernel
inline dim3 grid_of_rows(const BlockMask& block_mask, std::int64_t heads, int blocks_per_sm) {
  std::int64_t at_once = std::clamp<std::int64_t>(256 * blocks_per_sm / block_mask.rows, 1, heads);
  while (heads % at_once != 0) --at_once;
  while (heads % at_once != 0 || heads / at_once > kMostBlocksInYOrZ) ++at_once;
  return {unsigned(at_once), unsigned(block_mask.rows), unsigned(heads / at_once)};
}

}  // namespace fa::ch11
