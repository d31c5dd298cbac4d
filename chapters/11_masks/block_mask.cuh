/// @file
/// Lists of the tiles that masks do not hide, made on the GPU: for each query tile the key tiles to visit,
/// and for each key tile the query tiles. And in which order blocks take them.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/launch.cuh"
#include "device/reduce.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

/// A row of tiles, and what a block must know before its first copy. One load brings it.
struct alignas(16) ListedRow {
  int counts[2];  ///< of the tiles in its list: partial ones, full ones
  int row;
  int first;  ///< the tile to visit first; -1: there is none

  __host__ __device__ int partial() const { return counts[0]; }
  __host__ __device__ int full() const { return counts[1]; }
};

/// Lists of partial and full tiles. Heads with the same masks share a list.
struct TileLists {
  ListedRow* listed;  ///< [lists, rows]
  int* tiles;  ///< [lists, rows, most]: partial tiles from the left, full ones from the right; between them
               ///< nothing
  ListedRow* order;  ///< [lists, rows]: the same rows, from the longest list to the shortest; null: none
  int rows;          ///< the tiles that have a list
  int most;          ///< the tiles that a list can name

  /// The list of a row in the masks of a head: where it is in `listed`, and `most` times that in `tiles`.
  __host__ __device__ std::size_t at(const Masks& masks, int head, int row) const {
    return std::size_t(masks.list_of(head)) * rows + row;
  }
  /// One of the two counts of a list. As an index of all numbers: counts[..] of a ListedRow takes more
  /// registers.
  __device__ __forceinline__ int count(std::size_t list, bool partial) const {
    constexpr int kNumbers = sizeof(ListedRow) / sizeof(int);
    return reinterpret_cast<const int*>(listed)[kNumbers * list + (partial ? 0 : 1)];
  }
};

/// For each tile of Br queries the tiles of Bc keys, as sparse_attention() visits them.
template <class Tile>
struct KeysOfQueries {
  static int rows(const Masks& masks) { return (masks.seq_q - 1) / Tile::Br + 1; }
  static int most(const Masks& masks) { return (masks.seq_k - 1) / Tile::Bc + 1; }
  __host__ __device__ static TileKind kind(const Masks& masks, const HeadMasks& of_head, int row, int tile) {
    return masks.kind(of_head, row * Tile::Br, Tile::Br, tile * Tile::Bc, Tile::Bc);
  }
};
/// For each tile of Bc keys the tiles of Br queries, as the gradients visit them.
template <class Tile>
struct QueriesOfKeys {
  static int rows(const Masks& masks) { return (masks.seq_k - 1) / Tile::Bc + 1; }
  static int most(const Masks& masks) { return (masks.seq_q - 1) / Tile::Br + 1; }
  __host__ __device__ static TileKind kind(const Masks& masks, const HeadMasks& of_head, int row, int tile) {
    return masks.kind(of_head, tile * Tile::Br, Tile::Br, row * Tile::Bc, Tile::Bc);
  }
};

/// Writes the list of a row. A warp makes it; each of its lanes asks for the kind of every 32nd tile.
/// @tparam Of  KeysOfQueries or QueriesOfKeys
/// @param entry  of all lists, those of the heads' rows one after the other
template <class Of>
__device__ __forceinline__ void list_tiles_of_row(const Masks& masks, const TileLists& lists, int entry) {
  const int lane = threadIdx.x % 32, row = entry % lists.rows;
  const HeadMasks of_head = masks.of(masks.head_of_list(entry / lists.rows));
  int* tiles = lists.tiles + std::size_t(entry) * lists.most;
  int partial = 0, full = 0, first_partial = lists.most, last_full = -1;
  for (int first = 0; first < lists.most; first += 32) {
    const int tile = first + lane;
    const TileKind kind = tile < lists.most ? Of::kind(masks, of_head, row, tile) : TileKind::kEmpty;
    // EXERCISE 7: Append the lanes' tiles without gaps: partial ones from the left, full ones from the right. Add to the counts.
    const unsigned partial_lanes = __ballot_sync(kAllLanes, kind == TileKind::kPartial);
    const unsigned full_lanes = __ballot_sync(kAllLanes, kind == TileKind::kFull);
    const unsigned lanes_before = (1u << lane) - 1;
    if (kind == TileKind::kPartial) tiles[partial + __popc(partial_lanes & lanes_before)] = tile;
    if (kind == TileKind::kFull) tiles[lists.most - 1 - full - __popc(full_lanes & lanes_before)] = tile;
    partial += __popc(partial_lanes);
    full += __popc(full_lanes);
    // END 7
    if (kind == TileKind::kPartial) first_partial = min(first_partial, tile);
    if (kind == TileKind::kFull) last_full = tile;
  }
  const int to_visit = partial > 0 ? -warp_reduce(-first_partial, Max()) : warp_reduce(last_full, Max());
  if (lane == 0) lists.listed[entry] = {{partial, full}, row, partial + full > 0 ? to_visit : -1};
}

/// Writes the lists.
///
///   grid    lists * rows
///   block   32
///   HBM     writes a ListedRow for each list, and the number of each tile that is not empty; reads what
///           kind() reads
/// @tparam Of  KeysOfQueries or QueriesOfKeys
template <class Of>
__global__ void __launch_bounds__(32) list_tiles(Masks masks, TileLists lists) {
  list_tiles_of_row<Of>(masks, lists, blockIdx.x);
}

/// A row of tiles in a head, and what its list begins with.
struct HeadRow : ListedRow {
  int head;  ///< counts through all batches
};

/// The key tiles of a list: partial ones in ascending order, then full ones in descending order. The first
/// one came with the row, and has been taken.
/// @tparam kOnlyFull  whether there are no partial ones
template <bool kOnlyFull = false>
struct ListedTiles {
  const int* tiles;  ///< of all lists
  unsigned entry;    ///< of all lists: the one to take next
  int left, full;    ///< tiles that have not been taken; of all, how many are full
  int gap;           ///< entries between the partial ones and the full ones

  __device__ __forceinline__ ListedTiles(const TileLists& lists, const Masks& masks, const HeadRow& at)
      : tiles(lists.tiles), left(at.partial() + at.full() - 1), full(at.full()) {
    gap = lists.most - at.partial() - at.full();
    entry = unsigned(lists.at(masks, at.head, at.row) * lists.most) + (at.partial() == 0 ? gap : 0) + 1;
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

// --- the order of the blocks -------------------------------------------------------------------------------

/// Writes in which order the rows are taken: the longest list first, equal ones by the numbers of their rows.
/// A thread counts for its row those that come before it.
/// @param list  which of the lists: heads with the same masks share one
template <int kThreads>
__device__ __forceinline__ void order_rows_of(const TileLists& lists, int list) {
  const std::size_t first = std::size_t(list) * lists.rows;
  const ListedRow* listed = lists.listed + first;
  for (int row = threadIdx.x; row < lists.rows; row += kThreads) {
    const ListedRow mine = listed[row];
    const int length = mine.partial() + mine.full();
    int before = 0;
    for (int other = 0; other < lists.rows; ++other) {
      const int of_other = listed[other].partial() + listed[other].full();
      before += of_other > length || (of_other == length && other < row);
    }
    lists.order[first + before] = mine;
  }
}

/// Orders the rows of lists that list_tiles() has made.
///
///   grid    lists
///   block   kThreads
///   HBM     reads each ListedRow, and for each 32 rows the counts of all; writes each once
template <int kThreads>
__global__ void __launch_bounds__(kThreads) order_rows(TileLists lists) {
  order_rows_of<kThreads>(lists, blockIdx.x);
}

/// Lists of one kind: KeysOfQueries or QueriesOfKeys.
template <class Of>
struct ListsOf : TileLists {
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
__global__ void __launch_bounds__(32 * kRows, 1) list_and_order(Masks masks, ListsOf<Of>... lists) {
  unsigned kind = 0;
  const auto make = [&](const auto& of_kind) {
    if (blockIdx.y == kind++) of_kind.template make_and_order<kRows>(masks, int(blockIdx.x));
  };
  (make(lists), ...);
}

/// A row of a head, if there is no order. @param head  counts through all batches
__device__ __forceinline__ HeadRow listed_row(const TileLists& lists, const Masks& masks, int head, int row) {
  return {lists.listed[lists.at(masks, head, row)], head};
}

/// The row that comes at a place in the order. @param group  query heads in each head: 1, or heads / kv_heads
__device__ __forceinline__ HeadRow row_at(const TileLists& lists, const Masks& masks, int head, int place,
                                          int group) {
  HeadRow at = {lists.order[lists.at(masks, head * group, place)], head};
  at.row = __shfl_sync(kAllLanes, at.row, 0);  // as in KeyBlock: the compiler knows that it is uniform
  return at;
}

/// The head and the row that a block computes, if there is an order. Blocks start in the order of x, y and z:
/// those with long lists first, and those with short ones fill the gaps at the end. Heads are taken gridDim.x
/// at a time: what concurrent blocks load is in the L2 cache then.
///
///   grid    (heads at once, rows, the rest of the heads)
/// @param group  as above
__device__ __forceinline__ HeadRow row_of_block(const TileLists& lists, const Masks& masks, int group) {
  return row_at(lists, masks, int(blockIdx.z * gridDim.x + blockIdx.x), int(blockIdx.y), group);
}

/// The grid of a kernel that takes its rows from row_of_block(). The heads that it takes at once are as many
/// as divide all heads, and have about two waves of blocks on an H100.
/// @param heads  of all batches    @param blocks_per_sm  of the kernel
inline dim3 grid_of_rows(const TileLists& lists, std::int64_t heads, int blocks_per_sm) {
  std::int64_t at_once = std::clamp<std::int64_t>(256 * blocks_per_sm / lists.rows, 1, heads);
  while (heads % at_once != 0) --at_once;
  while (heads % at_once != 0 || heads / at_once > kMostBlocksInYOrZ) ++at_once;
  return {unsigned(at_once), unsigned(lists.rows), unsigned(heads / at_once)};
}

}  // namespace fa::ch11
