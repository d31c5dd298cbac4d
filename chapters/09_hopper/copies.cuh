/// @file
/// Copies by TMA: whole tiles, started by one thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/attention.cuh"
#include "device/hopper.cuh"
#include "shared_tiles.cuh"
#include "work.cuh"

namespace fa::ch09 {

/// The maps of a call.
struct TensorMaps {
  TensorMap q, k, v;  ///< boxes of 64 columns and a tile's rows
  TensorMap o;        ///< boxes of 64 columns and a warp's 16 rows
};

/// Starts the copy of a tile of kRows rows and kCols columns. `full` completes its phase when all of it has
/// landed. Rows and columns past the end of the tensor become zeros. @param head  counts through all batches
template <int kRows, int kCols, class T>
__device__ __forceinline__ void load_tile(T* s, const TensorMap& map, std::uint64_t& full, int first_row,
                                          int head) {
  // EXERCISE 1: Announce the bytes of the tile, and start the copies of its panels.
  ptx::mbarrier_arrive_expect_tx(&full, kRows * kCols * int(sizeof(T)));
  for (int panel = 0; panel < kCols / 64; ++panel)
    ptx::tma_load(s + panel * kRows * 64, &map, &full, 64 * panel, first_row, head % map.heads,
                  head / map.heads);
  // END 1
}

/// The producer's side of a block: one thread that copies tiles as soon as there is room for them.
template <class Tile>
struct Producer {
  const TensorMaps& maps;
  SharedTiles<Tile>& s;
  Place<Tile::kQueryBuffers> q{};
  Place<Tile::kStages> k{}, v{};

  __device__ __forceinline__ void load_q(QueryTile tile) {
    q.wait_empty(s.q_ring);
    s.query_tile[q.stage] = tile;
    load_tile<Tile::Br, Tile::kCols>(s.q[q.stage], maps.q, s.q_ring.full[q.stage], tile.first_query,
                                     tile.head);
    q.advance();
  }
  /// All that a query tile needs.
  __device__ __forceinline__ void load(QueryTile tile, const Attention<typename Tile::T>& a) {
    load_all_but_last_v(tile, a);
    load_last_v(tile, a);
  }
  /// Instead of another query tile: there are no more.
  __device__ __forceinline__ void end() {
    q.wait_empty(s.q_ring);
    s.query_tile[q.stage] = {-1, 0};
    ptx::mbarrier_arrive(&s.q_ring.full[q.stage]);
  }
  __device__ __forceinline__ void load_k(int first_key, int kv_head) {
    k.wait_empty(s.k_ring);
    load_tile<Tile::Bc, Tile::kCols>(s.k[k.stage], maps.k, s.k_ring.full[k.stage], first_key, kv_head);
    k.advance();
  }
  __device__ __forceinline__ void load_v(int first_key, int kv_head) {
    v.wait_empty(s.v_ring);
    load_tile<Tile::Bc, Tile::kColsV>(s.v[v.stage], maps.v, s.v_ring.full[v.stage], first_key, kv_head);
    v.advance();
  }
  /// Queries, then keys and values from the last tile to the first, in the order in which the products need
  /// them.
  __device__ __forceinline__ void load_all_but_last_v(QueryTile query_tile,
                                                      const Attention<typename Tile::T>& a) {
    load_q(query_tile);
    const int kv_head = a.kv_head(query_tile.head);
    int tile = key_tiles<Tile>(query_tile.first_query, Tile::Br, a) - 1;
    load_k(tile * Tile::Bc, kv_head);
    for (; tile > 0; --tile) {
      load_k((tile - 1) * Tile::Bc, kv_head);
      load_v(tile * Tile::Bc, kv_head);
    }
  }
  __device__ __forceinline__ void load_last_v(QueryTile query_tile, const Attention<typename Tile::T>& a) {
    load_v(0, a.kv_head(query_tile.head));
  }
};

}  // namespace fa::ch09
