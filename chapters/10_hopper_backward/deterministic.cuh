/// @file
/// The schedules of `final` with the same bits in every run: dQ is added in turns. Five products, as always.
///
///   grid, block   as in kernel.cuh
///   smem    sizeof(TurnMemory<Tile>), sizeof(OwnersMemory<Tile>) above 128 columns
///   HBM     as in kernel.cuh, except that the first visit of a query tile only writes to dq_sum; and writes
///           4 bytes for each turn
#pragma once

#include <cuda_runtime.h>

#include "backward.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/hopper.cuh"
#include "kernel.cuh"
#include "owners.cuh"
#include "shared_tiles.cuh"
#include "turns.cuh"
#include "uneven.cuh"

namespace fa::ch10 {

/// The producer warpgroup: a thread that loads, and one that adds for each consumer.
template <class Tile>
__device__ __forceinline__ void produce_and_add(const Backward<typename Tile::T>& a, const TensorMaps& maps,
                                                TurnMemory<Tile>& s, const KeyTile& keys) {
  const int warp = int(threadIdx.x) / 32;
  if (warp > Tile::kConsumers || !ptx::elect_sync()) return;
  if (warp == 0) {
    produce<Tile, BackwardWalk<Tile>>(a, maps, s.tiles, keys);
  } else {
    add_in_turns<Tile>(a, s, keys, warp - 1);
  }
}

/// `decoupled`, in turns.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    decoupled_in_turns(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& memory = *reinterpret_cast<TurnMemory<Tile>*>(smem);
  init_barriers(memory);
  auto& s = memory.tiles;
  const KeyTile keys = key_tile_in_groups<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    produce_and_add<Tile>(a, maps, memory, keys);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    Consumer<Tile> consumer(a, s, keys, warpgroup - 1);
    Place<Tile::kDsStages> stored{}, multiplied{};
    DqOut<Tile> dq{memory};
    consumer.store_zeros(stored);  // dS of the step before the first
    ptx::mbarrier_wait(&s.kv_full, 0);
    consumer.issue_first_scores();
    for (BackwardWalk<Tile> walk(a, keys); !walk.done();) {
      decoupled_step(consumer, stored, multiplied, dq, walk);
      walk.next();
      consumer.issue_next_scores(!walk.done());
    }
    ptx::wgmma_wait<0>(consumer.rS, consumer.rdK);
    multiply_last_ds(consumer, multiplied);
    put_dq(consumer, dq);
    consumer.store_gradients(maps);
  }
}

/// `uneven`, in turns.
/// @param index  of the consumer
template <class Tile, class Whole>
__device__ __forceinline__ void consume_uneven_in_turns(const Backward<typename Tile::T>& a,
                                                        const TensorMaps& maps, KeyTileMemory<Tile>& s,
                                                        TurnMemory<Whole>& memory, const KeyTile& keys,
                                                        int index) {
  Consumer<Tile> consumer(a, s, keys, index);
  Place<Tile::kDsStages> stored{}, multiplied{};
  DqOut<Whole> dq{memory};
  LaterOf<BackwardWalk<Tile>> walk(a, keys);
  ptx::mbarrier_wait(&s.kv_full, 0);
  consumer.issue_first_scores();
  first_step(consumer, stored, walk);
  for (walk.next(); !walk.done(); walk.next()) {
    consumer.issue_next_scores(true);
    decoupled_step(consumer, stored, multiplied, dq, walk);
  }
  ptx::wgmma_wait<0>(consumer.rdK);
  multiply_last_ds(consumer, multiplied);
  put_dq(consumer, dq);
  consumer.store_gradients(maps);
}
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    uneven_in_turns(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& memory = *reinterpret_cast<TurnMemory<Tile>*>(smem);
  init_barriers(memory);
  const KeyTile keys = key_tile_in_groups<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    produce_and_add<Tile>(a, maps, memory, keys);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    if (warpgroup == 1) {
      consume_uneven_in_turns<Tile>(a, maps, memory.tiles, memory, keys, 0);
    } else {
      using Second = SecondOfUneven<Tile>;
      consume_uneven_in_turns<Second>(a, maps, *reinterpret_cast<KeyTileMemory<Second>*>(smem), memory, keys,
                                      1);
    }
  }
}

/// `two_owners`, in turns.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    two_owners_in_turns(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& memory = *reinterpret_cast<OwnersMemory<Tile>*>(smem);
  init_barriers(memory);
  const KeyTile keys = key_tile_in_groups<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    const int warp = int(threadIdx.x) / 32;
    if (warp <= Tile::kConsumers && ptx::elect_sync()) {
      if (warp == 0) {
        produce<Tile, BackwardWalk<Tile>>(a, maps, memory.tiles, keys);
      } else {
        take_turns<Tile>(a, memory, keys, warp - 1);
      }
    }
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    own<Tile, OwnerInTurns>(a, maps, memory, keys, warpgroup - 1);
  }
}

}  // namespace fa::ch10
