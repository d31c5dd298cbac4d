/// @file
/// `compressed` on Hopper, backward: chapter 10's `decoupled`, which visits the query tiles that lists name.
///
/// Shapes and formulas are those of chapters 08 and 10. A score that a mask hides has P = 0 and dS = 0. Keys
/// that no query sees have gradients of 0, as do queries that see no key. The copy engine brings whole tiles:
/// keys after the length of their sequence are read too, and set to zero on the chip.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: a producer warpgroup and two consumers
///   shared  ListedKeyTileMemory<Tile>
///   HBM     reads the lists of the key tile, and K and V if they name any query tile; Q, dO, log2_sum and D
///           of each query tile, and adds a whole tile to dq_sum; what masks read for partial tiles; writes
///           dK and dV
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "10_hopper_backward/backward.cuh"
#include "10_hopper_backward/consumer.cuh"
#include "10_hopper_backward/copies.cuh"
#include "10_hopper_backward/dq_sums.cuh"
#include "10_hopper_backward/kernel.cuh"
#include "10_hopper_backward/shared_tiles.cuh"
#include "block_mask.cuh"
#include "device/hopper.cuh"
#include "device/reduce.cuh"
#include "hopper_masks.cuh"
#include "mask_mod.cuh"

namespace fa::ch11::hopper {

using ch09::Place;
using ch10::add_to_sums, ch10::decoupled_step, ch10::head_dim, ch10::init_barriers, ch10::load_keys;
using ch10::Backward, ch10::KeyTile, ch10::KeyTileMemory, ch10::QueryWalk;
using ch10::load_query_tile, ch10::multiply_last_ds, ch10::warpgroup_index;

/// A query tile, which the producer writes for the consumers.
struct ListedQueries {
  int head, first_query;  ///< the head counts through all batches
  std::size_t sums;       ///< those of its dQ begin here in dq_sum
};

/// The shared memory of a block: the tiles, and what the lists say of them.
template <class Tile>
struct __align__(1024) ListedKeyTileMemory {
  KeyTileMemory<Tile> tiles;
  ListedQueries queries[Tile::kStages];  ///< which ones are in q
  int partial, steps;                    ///< query tiles of all heads: partial ones, all
  int keys;                              ///< of the sequence
};

/// The producer: one thread, which alone reads the lists. First the partial tiles of all heads, then the full
/// ones.
template <class Tile>
struct ListedProducer {
  const Backward<typename Tile::T>& a;
  const ch10::TensorMaps& maps;
  const Masks& masks;
  const BlockMask& block_mask;
  ListedKeyTileMemory<Tile>& s;
  const KeyTile& keys;
  QueryWalk<Tile> walk{a, keys};
  Place<Tile::kStages> place{};

  __device__ __forceinline__ ListEntries list(int head) const {
    return ListEntries(block_mask, masks, head, keys.first_key / Tile::Bc);
  }
  __device__ __forceinline__ void load(int head, const ListEntries& list, int entry, int end) {
    for (; entry < end; ++entry) {
      walk.head = head, walk.tile = list[entry];
      place.wait_empty(s.tiles.q_ring);
      s.queries[place.stage] = {head, walk.first_query(), walk.padded_row() * head_dim<Tile>(a)};
      load_query_tile<Tile>(a, maps, s.tiles, place, walk);
      place.advance();
    }
  }
  __device__ __forceinline__ void run() {
    const int first_head = walk.first_head, end_head = walk.end_head;
    int partial = 0, steps = 0;
    for (int head = first_head; head < end_head; ++head) {
      const ListEntries of_head = list(head);
      partial += of_head.partial;
      steps += of_head.count;
    }
    s.partial = partial;
    s.steps = steps;
    s.keys = masks.of(first_head).keys;
    if (steps == 0) {
      ptx::mbarrier_arrive(&s.tiles.kv_full);
      return;
    }
    load_keys<Tile>(maps, s.tiles, keys);
    for (int head = first_head; head < end_head; ++head) {
      const ListEntries of_head = list(head);
      load(head, of_head, 0, of_head.partial);
    }
    for (int head = first_head; head < end_head; ++head) {
      const ListEntries of_head = list(head);
      load(head, of_head, of_head.partial, of_head.count);
    }
  }
};

/// Sets keys that do not exist in their sequence to zero, and their values, once they have landed.
template <class Tile>
__device__ __forceinline__ void clear_keys(ch10::Consumer<Tile>& consumer, const Masks& masks,
                                           int keys_of_sequence) {
  const int first_row = first_row_to_clear<Tile::Bc>(masks, keys_of_sequence, consumer.keys.first_key);
  if (first_row == Tile::Bc) return;
  constexpr int kThreads = 128 * Tile::kConsumers;
  const int thread = 128 * consumer.index + threadIdx.x % 128;
  clear_rows<Tile::Bc, Tile::kCols>(consumer.s.k, first_row, thread, kThreads);
  clear_rows<Tile::Bc, Tile::kCols>(consumer.s.v, first_row, thread, kThreads);
  ptx::fence_proxy_async();
  ptx::barrier_sync(1, kThreads);
}

/// A step, for decoupled_step() of chapter 10.
template <class Tile>
struct ListedStep {
  const Masks& masks;
  const ListedKeyTileMemory<Tile>& s;
  int number, partial;  ///< steps 0 to partial - 1 have a partial tile

  __device__ __forceinline__ bool at_first() const { return number == 0; }
};

/// For p_and_ds(): sets the scores of a partial tile to -inf that the masks hide.
template <class Tile>
__device__ __forceinline__ void hide_scores(ch10::Consumer<Tile>& consumer, const ListedStep<Tile>& step) {
  if (step.number >= step.partial) return;
  const ListedQueries queries = step.s.queries[consumer.place.stage];
  const int first_key = consumer.keys.first_key + consumer.warp_key;
  const auto mask_mod = MasksOfHead(step.masks, queries.head, step.s.keys)
                            .template of_keys<Tile::Br>(queries.first_query, first_key);
  mask_mod(consumer.rS);
}

/// `decoupled` with the steps that lists name. Without any, K and V are not read.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    listed_gradients(Backward<typename Tile::T> a, const __grid_constant__ ch10::TensorMaps maps, Masks masks,
                     BlockMask block_mask) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<ListedKeyTileMemory<Tile>*>(smem);
  init_barriers(s.tiles);
  const KeyTile keys = KeyTile::of_block<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      ListedProducer<Tile> producer{a, maps, masks, block_mask, s, keys};
      producer.run();
    }
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    ch10::Consumer<Tile> consumer(a, s.tiles, keys, warpgroup - 1);
    ptx::mbarrier_wait(&s.tiles.kv_full, 0);
    // The same for the whole warp: the shuffles tell the compiler, as in warpgroup_index().
    const int steps = __shfl_sync(kAllLanes, s.steps, 0), partial = __shfl_sync(kAllLanes, s.partial, 0);
    if (steps > 0) {
      Place<Tile::kDsStages> stored{}, multiplied{};
      clear_keys(consumer, masks, s.keys);
      consumer.store_zeros(stored);  // dS of the step before the first
      float* sums = nullptr;         // of the step before
      consumer.issue_first_scores();
      for (int step = 0; step < steps; ++step) {
        decoupled_step(consumer, stored, multiplied, sums, ListedStep<Tile>{masks, s, step, partial});
        sums = a.dq_sum + s.queries[consumer.place.stage].sums;
        __syncwarp();  // all lanes have read it before the next step releases the tile
        consumer.issue_next_scores(step + 1 < steps);
      }
      ptx::wgmma_wait<0>(consumer.rS, consumer.rdK);
      multiply_last_ds(consumer, multiplied);
      add_to_sums<Tile>(sums, consumer.rdQ, consumer.index, head_dim<Tile>(a));
    }
    consumer.store_gradients(maps);
  }
}

}  // namespace fa::ch11::hopper
