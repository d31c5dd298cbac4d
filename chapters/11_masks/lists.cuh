/// @file
/// Lists of the tiles that masks do not hide, made on the GPU: for each query tile the key tiles to visit, and for each key
/// tile the query tiles.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "device/reduce.cuh"
#include "masks.cuh"

namespace fa::ch11 {

/// Lists of partial and full tiles. Heads with the same masks share a list.
struct TileLists {
  int* counts;  ///< [lists, rows, 2]: partial tiles, full ones
  int*
      tiles;  ///< [lists, rows, most]: partial tiles from the left, full ones from the right; between them nothing
  int rows;  ///< the tiles that have a list
  int most;  ///< the tiles that a list can name

  /// The list of a row in the masks of a head: where it is in counts, and `most` times that in tiles.
  __host__ __device__ std::size_t at(const Masks& masks, int head, int row) const {
    return std::size_t(masks.list_of(head)) * rows + row;
  }
};

/// For each tile of Br queries the tiles of Bc keys, as compressed_attention() visits them.
template <class Tile>
struct KeysOfQueries {
  __host__ __device__ static Kind kind(const Masks& masks, const HeadMasks& of_head, int row, int tile) {
    return masks.kind(of_head, row * Tile::Br, Tile::Br, tile * Tile::Bc, Tile::Bc);
  }
};
/// For each tile of Bc keys the tiles of Br queries, as the gradients visit them.
template <class Tile>
struct QueriesOfKeys {
  __host__ __device__ static Kind kind(const Masks& masks, const HeadMasks& of_head, int row, int tile) {
    return masks.kind(of_head, tile * Tile::Br, Tile::Br, row * Tile::Bc, Tile::Bc);
  }
};

/// Writes the lists. A warp makes one list; each of its lanes asks for the kind of every 32nd tile.
///
///   grid    lists * rows
///   block   32
///   HBM     writes two counts for each list, and the number of each tile that is not empty; reads what kind() reads
/// @tparam Of  KeysOfQueries or QueriesOfKeys
template <class Of>
__global__ void __launch_bounds__(32) list_tiles(Masks masks, TileLists lists) {
  const int lane = threadIdx.x, row = blockIdx.x % lists.rows;
  const HeadMasks of_head = masks.of(masks.head_of_list(blockIdx.x / lists.rows));
  int* tiles = lists.tiles + std::size_t(blockIdx.x) * lists.most;
  int partial = 0, full = 0;
  for (int first = 0; first < lists.most; first += 32) {
    const int tile = first + lane;
    const Kind kind = tile < lists.most ? Of::kind(masks, of_head, row, tile) : Kind::kEmpty;
    // EXERCISE 7: Append the lanes' tiles without gaps: partial ones from the left, full ones from the right. Add to the counts.
    const unsigned partial_lanes = __ballot_sync(kAllLanes, kind == Kind::kPartial);
    const unsigned full_lanes = __ballot_sync(kAllLanes, kind == Kind::kFull);
    const unsigned lanes_before = (1u << lane) - 1;
    if (kind == Kind::kPartial) tiles[partial + __popc(partial_lanes & lanes_before)] = tile;
    if (kind == Kind::kFull) tiles[lists.most - 1 - full - __popc(full_lanes & lanes_before)] = tile;
    partial += __popc(partial_lanes);
    full += __popc(full_lanes);
    // END 7
  }
  if (lane == 0) {
    lists.counts[2 * blockIdx.x] = partial;
    lists.counts[2 * blockIdx.x + 1] = full;
  }
}

}  // namespace fa::ch11
