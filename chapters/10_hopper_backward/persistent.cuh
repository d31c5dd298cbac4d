/// @file
/// `decoupled` with blocks that stay: one for each multiprocessor, which takes one key tile after the other.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/begin_early.cuh"
#include "device/declare_members.cuh"
#include "device/hopper.cuh"
#include "dq_sums.cuh"
#include "kernel.cuh"
#include "shared_tiles.cuh"

namespace fa::ch10 {

/// KeyTileMemory, which is used again and again.
template <class Tile>
struct __align__(1024) PersistentMemory {
  KeyTileMemory<Tile> tiles;
  std::uint64_t kv_empty;  ///< dK and dV have left the room of K and V
  int key_tile;            ///< the number of the one whose keys land; -1: there are no more
};

/// Initialises all barriers of the block. Every thread calls it, once.
template <class Tile>
__device__ __forceinline__ void init_barriers(PersistentMemory<Tile>& s) {
  if (threadIdx.x == 0) {
    declare_members(s);
    init_tiles(s.tiles);
    ptx::mbarrier_init(&s.kv_empty, 4 * Tile::kConsumers);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

/// The producer: one thread. Takes the next key tile that no block has taken. Its first query tile lands
/// while dK and dV of the one before are stored.
template <class Tile>
__device__ __forceinline__ void produce_tiles(const Backward<typename Tile::T>& a, const TensorMaps& maps,
                                              PersistentMemory<Tile>& s, int* counter, int tiles) {
  Place<Tile::kStages> place{};
  Place<1> of_keys{};
  begin_early();
  for (int n = blockIdx.x; n < tiles;) {
    const int next = gridDim.x + atomicAdd(counter, 1);
    const KeyTile keys = KeyTile::of_block<Tile>(n, a);
    QueryWalk<Tile> walk(a, keys);
    load_query_tile<Tile>(a, maps, s.tiles, place, walk);
    place.advance();
    ptx::mbarrier_wait(&s.kv_empty, of_keys.parity ^ 1);
    s.key_tile = n;
    load_keys<Tile>(maps, s.tiles, keys);
    of_keys.advance();
    for (walk.next(); !walk.done(); walk.next()) {
      load_query_tile<Tile>(a, maps, s.tiles, place, walk);
      place.advance();
    }
    n = next;
  }
  ptx::mbarrier_wait(&s.kv_empty, of_keys.parity ^ 1);
  s.key_tile = -1;
  ptx::mbarrier_arrive(&s.tiles.kv_full);
}

///   grid    at most one block per multiprocessor
///   smem    sizeof(PersistentMemory<Tile>)
///   HBM     as `decoupled`, and 4 bytes read and written at the counter for each key tile
/// @param counter  0    @param tiles  key tiles of all heads
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    persistent_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps, int* counter,
                         int tiles) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& memory = *reinterpret_cast<PersistentMemory<Tile>*>(smem);
  init_barriers(memory);
  auto& s = memory.tiles;
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) produce_tiles<Tile>(a, maps, memory, counter, tiles);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    Place<Tile::kStages> place{};
    Place<Tile::kDsStages> stored{}, multiplied{};
    Place<1> of_keys{};
    while (true) {
      ptx::mbarrier_wait(&s.kv_full, of_keys.parity);
      of_keys.advance();
      const int n = memory.key_tile;
      if (n < 0) break;
      const KeyTile keys = KeyTile::of_block<Tile>(n, a);
      Consumer<Tile> consumer(a, s, keys, warpgroup - 1);
      consumer.place = place;
      stored.wait_empty(s.ds_ring);
      consumer.store_zeros(stored);
      float* sums = nullptr;
      consumer.issue_first_scores();
      for (QueryWalk<Tile> walk(a, keys); !walk.done();) {
        decoupled_step(consumer, stored, multiplied, sums, walk);
        sums = consumer.sums(walk);
        walk.next();
        consumer.issue_next_scores(!walk.done());
      }
      ptx::wgmma_wait<0>(consumer.rS, consumer.rdK);
      place = consumer.place;
      if (threadIdx.x % 32 == 0)  // the last Q
        ptx::mbarrier_arrive(&s.q_ring.empty[(place.stage + Tile::kStages - 1) % Tile::kStages]);
      multiply_last_ds(consumer, multiplied);
      multiplied.release(s.ds_ring);
      add_to_sums<Tile>(sums, consumer.rdQ, consumer.index);
      consumer.store_gradients(maps);
      warp_arrives(memory.kv_empty);
    }
  }
}

}  // namespace fa::ch10
