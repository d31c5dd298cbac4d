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
///           of each query tile, and adds a whole tile to dq_sum; of the masks what each warp asks about
///           partial tiles; writes dK and dV
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "10_hopper_backward/backward.cuh"
#include "10_hopper_backward/choices.cuh"
#include "10_hopper_backward/consumer.cuh"
#include "10_hopper_backward/copies.cuh"
#include "10_hopper_backward/dq_sums.cuh"
#include "10_hopper_backward/gradients.cuh"
#include "10_hopper_backward/products.cuh"
#include "10_hopper_backward/shared_tiles.cuh"
#include "10_hopper_backward/work.cuh"
#include "block_mask.cuh"
#include "device/hopper.cuh"
#include "device/reduce.cuh"
#include "hopper_masks.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

using namespace ch10;
using ch09::Place;

/// A query tile, as the producer tells the consumers.
struct ListedQueries {
  int head, first_query;  ///< the head counts through all batches
  std::size_t sums;       ///< those of its dQ begin here in dq_sum
};

/// The shared memory of a block: the tiles, and what the producer knows of them from the lists.
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
  const TensorMaps& maps;
  const Masks& masks;
  const TileLists& lists;
  ListedKeyTileMemory<Tile>& s;
  const KeyTile& keys;
  QueryWalk<Tile> walk{a, keys};
  Place<Tile::kStages> at{};

  __device__ __forceinline__ ListEntries list(int head) const {
    return ListEntries(lists, masks, head, keys.first_key / Tile::Bc);
  }
  __device__ __forceinline__ void load(int head, const ListEntries& list, int entry, int end) {
    for (; entry < end; ++entry) {
      walk.head = head, walk.tile = list[entry];
      at.wait_empty(s.tiles.q_ring);
      s.queries[at.stage] = {head, walk.first_query(), walk.padded_row() * head_dim<Tile>(a)};
      load_query_tile<Tile>(a, maps, s.tiles, at, walk);
      at.advance();
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

/// A consumer of chapter 10 with other steps: it does not walk, but is told.
template <class Tile>
struct ListedConsumer : Consumer<Tile> {
  using Consumer<Tile>::Consumer;

  /// Sets keys that do not exist in their sequence to zero, and their values, once they have landed.
  __device__ __forceinline__ void clear_keys(const Masks& masks, int keys_of_sequence) {
    const int first_row = first_row_to_clear<Tile::Bc>(masks, keys_of_sequence, this->keys.first_key);
    if (first_row == Tile::Bc) return;
    constexpr int kThreads = 128 * Tile::kConsumers;
    const int thread = 128 * this->index + threadIdx.x % 128;
    clear_rows<Tile::Bc, Tile::kCols>(this->s.k, first_row, thread, kThreads);
    clear_rows<Tile::Bc, Tile::kCols>(this->s.v, first_row, thread, kThreads);
    ptx::fence_proxy_async();
    ptx::barrier_sync(1, kThreads);
  }
  /// release_q_before() of chapter 10. @param step  this one
  __device__ __forceinline__ void release_q_of_step_before(int step) {
    __syncwarp();  // all lanes have read which queries these were
    if (step == 0 || threadIdx.x % 32 != 0) return;
    ptx::mbarrier_arrive(&this->s.q_ring.empty[(this->at.stage + Tile::kStages - 1) % Tile::kStages]);
  }
  /// S of a partial tile: what the masks hide becomes -inf.
  __device__ __forceinline__ void hide(const Masks& masks, int keys_of_sequence,
                                       const ListedQueries& queries) {
    KnownMasks(masks, queries.head, keys_of_sequence)
        .template hidden_queries<Tile::Br>(queries.first_query, this->keys.first_key + this->warp_key)
        .hide(this->rS);
  }
  /// p_and_ds() of chapter 10, after hide().
  __device__ __forceinline__ void p_and_ds() {
    const int stage = this->at.stage;
    this->at.wait_full(this->s.do_ring);
    ptx::wgmma_fence();
    issue_scores<Tile>(this->rdP, this->v_rows, this->in_stage(this->first_do));
    ptx::wgmma_commit();
    probabilities<Tile>(this->rS, this->s.log2_sum[stage], this->factor);
    pack_operand<Tile>(this->rP, this->rS);
    ptx::wgmma_fence();
    issue_key_gradient<Tile>(this->rdV, this->rP, this->in_stage(this->first_do_summed));
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>(this->rdP);
    score_gradients<Tile>(this->rdP, this->rS, this->s.delta[stage]);
    pack_operand<Tile>(this->rdS, this->rdP);
  }
  /// issue_next_scores() of chapter 10. @param more  whether there is a next step
  __device__ __forceinline__ void issue_scores_of_next(bool more) {
    this->at.advance();
    if (more) this->at.wait_full(this->s.q_ring);
    ptx::wgmma_fence();
    issue_scores<Tile>(this->rS, this->k_rows,
                       more ? this->in_stage(this->first_q) : descriptor(this->s.k, 16));
    ptx::wgmma_commit();
  }
};

/// `decoupled` with the steps that lists name. Without any, K and V are not read.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    listed_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps, Masks masks,
                     TileLists lists) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<ListedKeyTileMemory<Tile>*>(smem);
  init_barriers(s.tiles);
  const KeyTile keys = KeyTile::of_block<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      ListedProducer<Tile> producer{a, maps, masks, lists, s, keys};
      producer.run();
    }
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    ListedConsumer<Tile> w(a, s.tiles, keys, warpgroup - 1);
    ptx::mbarrier_wait(&s.tiles.kv_full, 0);
    // The same for the whole warp: the shuffles tell the compiler, as in warpgroup_index().
    const int steps = __shfl_sync(kAllLanes, s.steps, 0), partial = __shfl_sync(kAllLanes, s.partial, 0);
    if (steps > 0) {
      Place<Tile::kDsStages> stored{}, multiplied{};
      w.clear_keys(masks, s.keys);
      w.store_zeros(stored);  // dS of the step before the first
      float* sums = nullptr;  // nothing to add to
      w.at.wait_full(s.tiles.q_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(w.rS, w.k_rows, w.in_stage(w.first_q));
      ptx::wgmma_commit();
      for (int step = 0; step < steps; ++step) {
        ptx::wgmma_wait<0>(w.rS, w.rdK);
        w.release_q_of_step_before(step);
        if (step < partial) w.hide(masks, s.keys, s.queries[w.at.stage]);
        w.p_and_ds();
        stored.wait_empty(s.tiles.ds_ring);
        store_ds<Tile>(s.tiles.ds[stored.stage], w.rdS, w.warp_key);
        ptx::fence_proxy_async();
        warp_arrives(s.tiles.ds_ring.full[stored.stage]);
        stored.advance();
        ptx::wgmma_wait<0>(w.rdV);
        w.at.leave(s.tiles.do_ring);
        multiplied.wait_full(s.tiles.ds_ring);
        ptx::wgmma_fence();
        issue_dq<Tile>(w.rdQ, w.ds(multiplied.stage), w.k_of_dq);
        ptx::wgmma_commit();
        issue_key_gradient<Tile>(w.rdK, w.rdS, w.in_stage(w.first_q_summed));
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>(w.rdQ);
        multiplied.release(s.tiles.ds_ring);
        if (sums != nullptr) add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(a));
        sums = a.dq_sum + s.queries[w.at.stage].sums;
        w.issue_scores_of_next(step + 1 < steps);
      }
      ptx::wgmma_wait<0>(w.rS, w.rdK);
      multiplied.wait_full(s.tiles.ds_ring);
      ptx::wgmma_fence();
      issue_dq<Tile>(w.rdQ, w.ds(multiplied.stage), w.k_of_dq);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(w.rdQ);
      add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(a));
    }
    w.store_gradients(maps);
  }
}

}  // namespace fa::ch11
