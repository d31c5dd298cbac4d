/// @file
/// Which query tiles there are, in which order they are taken, and which keys they see.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "device/attention.cuh"
#include "device/math.cuh"
#include "shared_tiles.cuh"

namespace fa::ch09 {

/// How many query tiles all heads have together.
template <class Tile>
__host__ __device__ int query_tiles(const Attention<typename Tile::T>& a) {
  return a.batch * a.heads * ((a.seq_q + Tile::Br - 1) / Tile::Br);
}

/// Where the first query tile of each head begins: at query 0, or before it by as many whole warpgroups as
/// have no queries. So these are in the first tile, which under a causal mask sees the fewest keys, and not
/// in the last one, which sees the most.
template <class Tile>
__host__ __device__ int first_query_of_head(int seq_q) {
  constexpr int kRows = Tile::Br / Tile::kConsumers;  // of a warpgroup
  const int past_the_end = (seq_q + Tile::Br - 1) / Tile::Br * Tile::Br - seq_q;
  return -(past_the_end / kRows * kRows);
}

/// Query tile n in the order of chapter 07: under a causal mask, the longest first. Heads are divided into
/// groups whose K and V fit into 32 MiB of the L2 cache together.
template <class Tile>
__device__ __forceinline__ QueryTile query_tile(int n, const Attention<typename Tile::T>& a) {
  const int heads = a.batch * a.heads, tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  const int first_query = first_query_of_head<Tile>(a.seq_q);
  if (!a.causal) return {n / tiles, first_query + n % tiles * Tile::Br};
  const size_t bytes =
      sizeof(typename Tile::T) * size_t(a.seq_k) * (Tile::kHeadDim + Tile::kHeadDimV);  // of a head
  const int cached = int(max(size_t(1), min(size_t(heads), (32 << 20) / bytes)));
  const int groups = (heads + cached - 1) / cached, group = (heads + groups - 1) / groups;
  const int first_head = n / (group * tiles) * group, here = min(group, heads - first_head);
  const int in_group = n - first_head * tiles;
  return {first_head + in_group % here, first_query + (tiles - 1 - in_group / here) * Tile::Br};
}

/// How many key tiles the rows from first_query on need, at least one: rows that see no key get O = 0 from a
/// tile whose keys are all masked.
/// @param rows  how many; those before the first query or past the last one need nothing
template <class Tile>
__device__ __forceinline__ int key_tiles(int first_query, int rows, const Attention<typename Tile::T>& a) {
  if (first_query + rows <= 0 || first_query >= a.seq_q) return 1;
  const int seen = a.visible_keys(min(first_query + rows, a.seq_q) - 1);
  return max(1, (seen + Tile::Bc - 1) / Tile::Bc);
}

/// The key tiles of a warpgroup's 64 queries. Tiles are taken from the last to the first, as in chapter 07.
struct KeyTiles {
  int hidden;        ///< tiles that the block takes before, because its other warpgroups need them
  int last;          ///< this warpgroup's first tile on its way down to tile 0
  int first_masked;  ///< from here on, some row does not see some key
};

/// @param number  of the warpgroup among the consumers
template <class Tile>
__device__ __forceinline__ KeyTiles keys_of_warpgroup(int first_query_of_tile, int number,
                                                      const Attention<typename Tile::T>& a) {
  const int first_query = first_query_of_tile + 64 * number;
  const int own = key_tiles<Tile>(first_query, 64, a);
  return {.hidden = key_tiles<Tile>(first_query_of_tile, Tile::Br, a) - own,
          .last = own - 1,
          .first_masked = a.visible_keys(first_query) / Tile::Bc};
}

}  // namespace fa::ch09
