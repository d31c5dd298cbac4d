/// @file
/// The producer warpgroup: copies by TMA, started by one thread.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "09_hopper/shared_tiles.cuh"
#include "backward.cuh"
#include "device/begin_early.cuh"
#include "device/hopper.cuh"
#include "shared_tiles.cuh"

namespace fa::ch10 {

using ch09::TensorMap;

/// How the tensors lie in global memory, as in chapter 09.
struct TensorMaps {
  TensorMap q, d_o;  ///< boxes of 64 columns and Br rows
  TensorMap k, v;    ///< boxes of 64 columns and Bc rows
  TensorMap dk, dv;  ///< boxes of 64 columns and a warp's 16 rows
};

/// Starts the copies of a tile's panels.
/// @tparam kCols  a multiple of 64    @param head  counts through all batches
template <int kRows, int kCols, class T>
__device__ __forceinline__ void load_panels(T* s, const TensorMap& map, std::uint64_t& full, int first_row,
                                            int head) {
  for (int panel = 0; panel < kCols / 64; ++panel)
    ptx::tma_load(s + panel * kRows * 64, &map, &full, 64 * panel, first_row, head % map.heads,
                  head / map.heads);
}

/// A tile of queries or of their dO, with one float per row that belongs to it.
template <class Tile, class Walk>
__device__ __forceinline__ void load_queries(typename Tile::T* s, float* of_rows, const TensorMap& map,
                                             const float* of_padded_rows, std::uint64_t& full,
                                             const Walk& walk) {
  // EXERCISE 1: Let a phase of `full` cover the tile and the floats of its rows: one arrival, two kinds of copies.
  ptx::mbarrier_arrive_expect_tx(&full, Tile::kQueryTile * int(sizeof *s) + Tile::Br * int(sizeof(float)));
  load_panels<Tile::Br, Tile::kCols>(s, map, full, walk.first_query(), walk.head);
  ptx::bulk_load(of_rows, of_padded_rows + walk.padded_row(), Tile::Br * int(sizeof(float)), &full);
  // END 1
}

/// K and V, once.
template <class Tile>
__device__ __forceinline__ void load_keys(const TensorMaps& maps, KeyTileMemory<Tile>& s,
                                          const KeyTile& keys) {
  ptx::mbarrier_arrive_expect_tx(&s.kv_full, sizeof s.k + sizeof s.v);
  load_panels<Tile::Bc, Tile::kCols>(s.k, maps.k, s.kv_full, keys.first_key, keys.kv_head);
  load_panels<Tile::Bc, OfValues<Tile>::kCols>(s.v, maps.v, s.kv_full, keys.first_key, keys.kv_head);
}

/// Q and dO of a query tile, as soon as there is room for them.
template <class Tile>
__device__ __forceinline__ void load_query_tile(const Backward<typename Tile::T>& a, const TensorMaps& maps,
                                                KeyTileMemory<Tile>& s, const Place<Tile::kStages>& place,
                                                const QueryWalk<Tile>& walk) {
  place.wait_empty(s.q_ring);
  load_queries<Tile>(s.q[place.stage], s.log2_sum[place.stage], maps.q, a.log2_sum,
                     s.q_ring.full[place.stage], walk);
  place.wait_empty(s.do_ring);
  load_queries<OfValues<Tile>>(s.d_o[place.stage], s.delta[place.stage], maps.d_o, a.delta,
                               s.do_ring.full[place.stage], walk);
}

/// The producer: one thread. K and V do not depend on prepare_rows(), which may still run.
template <class Tile, class Walk = QueryWalk<Tile>>
__device__ __forceinline__ void produce(const Backward<typename Tile::T>& a, const TensorMaps& maps,
                                        KeyTileMemory<Tile>& s, const KeyTile& keys) {
  load_keys<Tile>(maps, s, keys);
  begin_early();
  Place<Tile::kStages> place{};
  for (Walk walk(a, keys); !walk.done(); walk.next()) {
    load_query_tile<Tile>(a, maps, s, place, walk);
    place.advance();
  }
}

}  // namespace fa::ch10
