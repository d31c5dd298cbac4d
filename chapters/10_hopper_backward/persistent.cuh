/// @file
/// `decoupled` with blocks that stay: one for each multiprocessor, which takes one key tile after the other.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/declare_members.cuh"
#include "device/hopper.cuh"
#include "dq_sums.cuh"
#include "products.cuh"
#include "shared_tiles.cuh"
#include "work.cuh"

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
  Place<Tile::kStages> at{};
  Place<1> of_keys{};
  for (int n = blockIdx.x; n < tiles;) {
    const int next = gridDim.x + atomicAdd(counter, 1);
    const KeyTile keys = KeyTile::of_block<Tile>(n, a);
    QueryWalk<Tile> walk(a, keys);
    load_query_tile<Tile>(a, maps, s.tiles, at, walk);
    at.advance();
    ptx::mbarrier_wait(&s.kv_empty, of_keys.parity ^ 1);
    s.key_tile = n;
    load_keys<Tile>(maps, s.tiles, keys);
    of_keys.advance();
    for (walk.next(); !walk.done(); walk.next()) {
      load_query_tile<Tile>(a, maps, s.tiles, at, walk);
      at.advance();
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
    Place<Tile::kStages> at{};
    Place<Tile::kDsStages> stored{}, multiplied{};
    Place<1> of_keys{};
    while (true) {
      ptx::mbarrier_wait(&s.kv_full, of_keys.parity);
      of_keys.advance();
      const int n = memory.key_tile;
      if (n < 0) break;
      const KeyTile keys = KeyTile::of_block<Tile>(n, a);
      Consumer<Tile> w(a, s, keys, warpgroup - 1);
      w.at = at;
      stored.wait_empty(s.ds_ring);
      w.store_zeros(stored);
      float* sums = nullptr;
      w.at.wait_full(s.q_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(w.rS, w.k_rows, w.in_stage(w.first_q));
      ptx::wgmma_commit();
      for (QueryWalk<Tile> walk(a, keys); !walk.done();) {
        ptx::wgmma_wait<0>(w.rS, w.rdK);
        w.release_q_before(walk);
        w.p_and_ds(walk);
        stored.wait_empty(s.ds_ring);
        store_ds<Tile>(s.ds[stored.stage], w.rdS, w.warp_key);
        ptx::fence_proxy_async();
        warp_arrives(s.ds_ring.full[stored.stage]);
        stored.advance();
        ptx::wgmma_wait<0>(w.rdV);
        w.at.leave(s.do_ring);
        multiplied.wait_full(s.ds_ring);
        ptx::wgmma_fence();
        issue_dq<Tile>(w.rdQ, w.ds(multiplied.stage), w.k_of_dq);
        ptx::wgmma_commit();
        issue_key_gradient<Tile>(w.rdK, w.rdS, w.in_stage(w.first_q_summed));
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>(w.rdQ);
        multiplied.release(s.ds_ring);
        if (sums != nullptr) add_to_sums<Tile>(sums, w.rdQ, w.index);
        sums = w.sums(walk);
        walk.next();
        w.issue_next_scores(walk);
      }
      ptx::wgmma_wait<0>(w.rS, w.rdK);
      at = w.at;
      if (threadIdx.x % 32 == 0)  // the last Q
        ptx::mbarrier_arrive(&s.q_ring.empty[(at.stage + Tile::kStages - 1) % Tile::kStages]);
      multiplied.wait_full(s.ds_ring);
      ptx::wgmma_fence();
      issue_dq<Tile>(w.rdQ, w.ds(multiplied.stage), w.k_of_dq);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(w.rdQ);
      multiplied.release(s.ds_ring);
      add_to_sums<Tile>(sums, w.rdQ, w.index);
      w.store_gradients(maps);
      warp_arrives(memory.kv_empty);
    }
  }
}

}  // namespace fa::ch10
