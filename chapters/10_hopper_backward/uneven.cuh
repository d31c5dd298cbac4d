/// @file
/// head_dim 72 to 96: `decoupled`, except that dQ is computed at its width. Tiles have panels of 64 columns,
/// so the first consumer has 64 columns of dQ and the second one the 32 columns that remain, not 64 of which
/// half are zeros. This leaves registers for a first step of its own, without the dQ of a tile of zeros.
#pragma once

#include <cuda_runtime.h>

#include "backward.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/hopper.cuh"
#include "dq_sums.cuh"
#include "gradients.cuh"
#include "kernel.cuh"
#include "products.cuh"
#include "shared_tiles.cuh"

namespace fa::ch10 {

/// The tiles as the second consumer has them.
template <class Tile>
struct SecondOfUneven : Tile {
  static constexpr int kDqCols = 32;
};

/// The query tiles after the first.
template <class Walk>
struct LaterOf : Walk {
  using Walk::Walk;
  static __device__ __forceinline__ constexpr bool at_first() { return false; }
};

/// The first step: there is no dS before, and so no dQ.
template <class Tile>
__device__ __forceinline__ void first_step(Consumer<Tile>& consumer, Place<Tile::kDsStages>& stored,
                                           const QueryWalk<Tile>& walk) {
  auto& s = consumer.s;
  ptx::wgmma_wait<0>(consumer.rS);
  consumer.p_and_ds(walk);
  store_ds<Tile>(s.ds[stored.stage], consumer.rdS, consumer.warp_key);
  ptx::fence_proxy_async();
  warp_arrives(s.ds_ring.full[stored.stage]);
  stored.advance();
  ptx::wgmma_wait<0>(consumer.rdV);
  consumer.place.leave(s.do_ring);
  ptx::wgmma_fence();
  issue_key_gradient<Tile>(consumer.rdK, consumer.rdS, consumer.in_stage(consumer.first_q_summed));
  ptx::wgmma_commit();
}

/// A consumer. @param index  its number
template <class Tile>
__device__ __forceinline__ void consume_uneven(const Backward<typename Tile::T>& a, const TensorMaps& maps,
                                               KeyTileMemory<Tile>& s, const KeyTile& keys, int index) {
  Consumer<Tile> consumer(a, s, keys, index);
  Place<Tile::kDsStages> stored{}, multiplied{};
  LaterOf<QueryWalk<Tile>> walk(a, keys);
  ptx::mbarrier_wait(&s.kv_full, 0);
  consumer.issue_first_scores();
  first_step(consumer, stored, walk);
  float* sums = consumer.sums(walk);
  for (walk.next(); !walk.done(); walk.next()) {
    consumer.issue_next_scores(true);
    decoupled_step(consumer, stored, multiplied, sums, walk);
    sums = consumer.sums(walk);
  }
  ptx::wgmma_wait<0>(consumer.rdK);
  multiply_last_ds(consumer, multiplied);
  add_to_sums<Tile>(sums, consumer.rdQ, consumer.index, head_dim<Tile>(a));
  consumer.store_gradients(maps);
}

/// Grid, block, shared memory and HBM bytes as in kernel.cuh.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    uneven_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<KeyTileMemory<Tile>*>(smem);
  init_barriers(s);
  const KeyTile keys = KeyTile::of_block<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) produce<Tile>(a, maps, s, keys);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    if (warpgroup == 1) {
      consume_uneven<Tile>(a, maps, s, keys, 0);
    } else {
      using Second = SecondOfUneven<Tile>;
      consume_uneven<Second>(a, maps, *reinterpret_cast<KeyTileMemory<Second>*>(smem), keys, 1);
    }
  }
}

}  // namespace fa::ch10
