/// @file
/// The first three steps: `one_block_a_head`, `packed_heads` and `split_keys`. The block copies tiles
/// together, by cp.async in two stages, as in chapter 07.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "columns.cuh"
#include "cp_async_ring.cuh"
#include "decoding.cuh"
#include "device/cp_async.cuh"
#include "merge.cuh"
#include "plan.cuh"
#include "tiles.cuh"

namespace fa::ch14 {

/// Two stages of 4 * kKeys keys; each of the four warps has a quarter of the keys.
template <class T_, int kHeadDimension, int kColumns>
struct StagedTile : WarpTile<T_, T_, kHeadDimension, kColumns> {
  static constexpr int kWorkers = 4, kThreads = 128, kStages = 2;
  static constexpr bool kByTma = false;
};

/// Starts the copies of the tiles of all warps, of keys before `end`.
template <class Tile, class Cache>
__device__ __forceinline__ void copy_tiles(SharedTiles<Tile>& s, int stage, const Cache& cache,
                                           const Unit& unit, int first_key, int end) {
  int pages[Tile::kKeys / 16];
#pragma unroll
  for (int& page : pages) page = unit.batch;
#pragma unroll
  for (int warp = 0; warp < Tile::kWorkers; ++warp)
    copy_tile<Tile, Tile::kThreads>(s.ring[warp][stage], cache, pages, unit.kv_head,
                                    first_key + warp * Tile::kKeys, end, int(threadIdx.x));
}

/// Multiplies the keys first_key to end - 1 of a unit. What the warps have of O is then in s.o.
template <class Tile, class Cache>
__device__ __forceinline__ void multiply_keys(SharedTiles<Tile>& s, const Decoding<typename Tile::T>& a,
                                              const Cache& cache, const Unit& unit, int first_key, int end) {
  constexpr int kKeys = Tile::kWorkers * Tile::kKeys;
  const int warp = threadIdx.x / 32;
  Warp<Tile> worker(a, unit, s);
  if (first_key < end) copy_tiles(s, 0, cache, unit, first_key, end);
  cp_async_commit();
  int stage = 0;
  for (int key = first_key; key < end; key += kKeys) {
    cp_async_wait<0>();
    __syncthreads();  // the tiles have landed; nobody reads the previous ones
    if (key + kKeys < end) copy_tiles(s, stage ^ 1, cache, unit, key + kKeys, end);
    cp_async_commit();
    const int own = key + warp * Tile::kKeys;
    if (own < end) worker.multiply(s.ring[warp][stage], a, unit, own);
    stage ^= 1;
  }
  worker.store(s);
  __syncthreads();  // every warp has stored its O
}

/// A block has all keys of a unit.
///
///   grid    batch * heads_of_work()
///   block   Tile::kThreads
///   shared  sizeof(SharedTiles<Tile>): two stages of tiles; O of each warp
///   HBM     reads Q once, the keys and values of a sequence once for each head of the work and kRows rows of
///           it; writes O and LSE
///
/// `one_block_a_head`: a head of the work is a head of Q. `packed_heads`: it is a head of K, with the rows of
/// all heads of Q that share it.
template <class Tile, class Cache>
__global__ void __launch_bounds__(Tile::kThreads)
    block_a_head_decoding(Decoding<typename Tile::T> a, Granules granules,
                          const __grid_constant__ Cache cache) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  declare_members(s);
  const int batch = blockIdx.x / granules.heads;
  const Unit unit = unit_of<Tile::kRows>(a, batch, blockIdx.x % granules.heads, a.length(batch));
  multiply_keys<Tile>(s, a, cache, unit, 0, unit.length);
  merge_workers<Tile>(s, unit.rows, [&](int row, int col, const Piece& piece) {
    store_result<Tile::kHeadDim>(a, unit.row_in(a) + row, col, piece, 1.0f);
  });
}

/// A block has a part of the keys: whole tiles, as many as the other blocks, give or take one.
///
///   grid    splits * batch * heads_of_work()
///   HBM     and writes O and RowState of each part, splits * rows * (d + 2) * 4 bytes per head
template <class Tile, class Cache>
__global__ void __launch_bounds__(Tile::kThreads)
    split_keys_decoding(Decoding<typename Tile::T> a, Granules granules, const __grid_constant__ Cache cache,
                        Workspace workspace, int splits) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  declare_members(s);
  const int head = blockIdx.x / splits, split = blockIdx.x % splits, batch = head / granules.heads;
  const Unit unit = unit_of<Tile::kRows>(a, batch, head % granules.heads, a.length(batch));
  const int tiles = granules.of_length(unit.length);
  const int first = int(std::int64_t(split) * tiles / splits);
  const int end = int((std::int64_t(split) + 1) * tiles / splits);
  multiply_keys<Tile>(s, a, cache, unit, first * Tile::kKeys, min(end * Tile::kKeys, unit.length));
  merge_workers<Tile>(s, unit.rows, [&](int row, int col, const Piece& piece) {
    store_part<Tile>(workspace, blockIdx.x, row, col, piece);
  });
}

}  // namespace fa::ch14
