/// @file
/// The kernels of chapter 10 that compute all three gradients, one block per key tile. From one to the next,
/// one thing changes.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: a producer warpgroup and two consumers
///   smem    sizeof(KeyTileMemory<Tile>), or KeyTileMemoryWithDq
///   HBM     8 * batch * kv_heads * seq_k * d bytes: reads K and V, writes dK and dV
///           + batch * heads * (4 * d * rows + 8 * padded): reads Q and dO, log2_sum and D
///           + batch * heads * 8 * d * padded: adds to dq_sum
///
/// `rows` and `padded` count the rows that the key tiles of a head visit. They are sums over key tiles: of
/// seq_q - first and of padded_queries - first, where first = first_query(first key) / Br * Br.
#pragma once

#include <cuda_runtime.h>

#include "backward.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/hopper.cuh"
#include "dq_sums.cuh"
#include "gradients.cuh"
#include "products.cuh"
#include "shared_tiles.cuh"

namespace fa::ch10 {

// --- wgmma: chapter 08's fused kernel with chapter 09's instructions ---------------------------------------

/// The second warp of the producer warpgroup: adds every tile of dQ to the sums in HBM.
template <class Tile>
__device__ __forceinline__ void add_dq(const Backward<typename Tile::T>& a, KeyTileMemoryWithDq<Tile>& s,
                                       const KeyTile& keys) {
  Place<1> place{};
  for (QueryWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {
    place.wait_full(s.dq_ring);
    ptx::bulk_reduce_add(a.dq_sum + walk.padded_row() * Tile::kHeadDim, s.dq, sizeof s.dq);
    ptx::bulk_commit();
    ptx::bulk_wait_read<0>();
    ptx::mbarrier_arrive(&s.dq_ring.empty[0]);
    place.advance();
  }
  ptx::bulk_wait<0>();
}

/// The five products, one after the other: a consumer waits for each one right after it has issued it. dQ
/// goes to shared memory, and from there to the sums.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    wgmma_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& with_dq = *reinterpret_cast<KeyTileMemoryWithDq<Tile>*>(smem);
  init_barriers(with_dq);
  auto& s = with_dq.tiles;
  const KeyTile keys = KeyTile::of_block<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x / 32 == 0 && ptx::elect_sync()) produce<Tile>(a, maps, s, keys);
    if (threadIdx.x / 32 == 1 && ptx::elect_sync()) add_dq<Tile>(a, with_dq, keys);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    Consumer<Tile> consumer(a, s, keys, warpgroup - 1);
    Place<Tile::kDsStages> ds{};
    Place<1> dq{};
    ptx::mbarrier_wait(&s.kv_full, 0);
    for (QueryWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {
      consumer.place.wait_full(s.q_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(consumer.rS, consumer.k_rows, consumer.in_stage(consumer.first_q));
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rS);
      if (walk.masked(a, keys))
        mask<Tile>(consumer.rS, a, walk.first_query(), keys.first_key + consumer.warp_key);
      probabilities<Tile>(consumer.rS, s.log2_sum[consumer.place.stage], consumer.factor);
      consumer.place.wait_full(s.do_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(consumer.rdP, consumer.v_rows, consumer.in_stage(consumer.first_do));
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rdP);
      score_gradients<Tile>(consumer.rdP, consumer.rS, s.delta[consumer.place.stage]);
      pack_operand<Tile>(consumer.rP, consumer.rS);
      pack_operand<Tile>(consumer.rdS, consumer.rdP);
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(consumer.rdV, consumer.rP, consumer.in_stage(consumer.first_do_summed));
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rdV);
      consumer.place.leave(s.do_ring);
      ds.wait_empty(s.ds_ring);
      store_ds<Tile>(s.ds[ds.stage], consumer.rdS, consumer.warp_key);
      ptx::fence_proxy_async();
      warp_arrives(s.ds_ring.full[ds.stage]);
      ds.wait_full(s.ds_ring);  // of both consumers
      ptx::wgmma_fence();
      issue_dq<Tile>(consumer.rdQ, consumer.ds(ds.stage), consumer.k_of_dq);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rdQ);
      ds.release(s.ds_ring);
      dq.wait_empty(with_dq.dq_ring);
      store_part<Tile>(with_dq.dq, consumer.rdQ, consumer.index);
      ptx::fence_proxy_async();
      warp_arrives(with_dq.dq_ring.full[0]);
      dq.advance();
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(consumer.rdK, consumer.rdS, consumer.in_stage(consumer.first_q_summed));
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rdK);
      consumer.place.release(s.q_ring);
    }
    consumer.store_gradients(maps);
  }
}

// --- register_sums: dQ goes from registers to the sums -----------------------------------------------------

/// `wgmma` without the detour of dQ through shared memory.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    register_sums_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
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
    Consumer<Tile> consumer(a, s, keys, warpgroup - 1);
    Place<Tile::kDsStages> ds{};
    ptx::mbarrier_wait(&s.kv_full, 0);
    for (QueryWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {
      consumer.place.wait_full(s.q_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(consumer.rS, consumer.k_rows, consumer.in_stage(consumer.first_q));
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rS);
      if (walk.masked(a, keys))
        mask<Tile>(consumer.rS, a, walk.first_query(), keys.first_key + consumer.warp_key);
      probabilities<Tile>(consumer.rS, s.log2_sum[consumer.place.stage], consumer.factor);
      consumer.place.wait_full(s.do_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(consumer.rdP, consumer.v_rows, consumer.in_stage(consumer.first_do));
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rdP);
      score_gradients<Tile>(consumer.rdP, consumer.rS, s.delta[consumer.place.stage]);
      pack_operand<Tile>(consumer.rP, consumer.rS);
      pack_operand<Tile>(consumer.rdS, consumer.rdP);
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(consumer.rdV, consumer.rP, consumer.in_stage(consumer.first_do_summed));
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rdV);
      consumer.place.leave(s.do_ring);
      ds.wait_empty(s.ds_ring);
      store_ds<Tile>(s.ds[ds.stage], consumer.rdS, consumer.warp_key);
      ptx::fence_proxy_async();
      warp_arrives(s.ds_ring.full[ds.stage]);
      ds.wait_full(s.ds_ring);  // of both consumers
      ptx::wgmma_fence();
      issue_dq<Tile>(consumer.rdQ, consumer.ds(ds.stage), consumer.k_of_dq);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rdQ);
      ds.release(s.ds_ring);
      add_to_sums<Tile>(consumer.sums(walk), consumer.rdQ, consumer.index);
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(consumer.rdK, consumer.rdS, consumer.in_stage(consumer.first_q_summed));
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rdK);
      consumer.place.release(s.q_ring);
    }
    consumer.store_gradients(maps);
  }
}

// --- overlapped: dV and dK are in flight during arithmetic -------------------------------------------------

/// `register_sums` in another order: dV is in flight while dS is computed, dK while dQ is added. Then the
/// next S^T is issued; it and dK may still be in flight when the next step begins.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    overlapped_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
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
    Consumer<Tile> consumer(a, s, keys, warpgroup - 1);
    Place<Tile::kDsStages> ds{};
    ptx::mbarrier_wait(&s.kv_full, 0);
    consumer.issue_first_scores();
    for (QueryWalk<Tile> walk(a, keys); !walk.done();) {
      ptx::wgmma_wait<0>(consumer.rS, consumer.rdK);
      consumer.release_q_before(walk.at_first());
      consumer.p_and_ds(walk);
      ds.wait_empty(s.ds_ring);
      store_ds<Tile>(s.ds[ds.stage], consumer.rdS, consumer.warp_key);
      ptx::fence_proxy_async();
      warp_arrives(s.ds_ring.full[ds.stage]);
      float* sums = consumer.sums(walk);
      const std::uint64_t q = consumer.in_stage(consumer.first_q_summed);
      walk.next();
      ds.wait_full(s.ds_ring);
      ptx::wgmma_fence();
      issue_dq<Tile>(consumer.rdQ, consumer.ds(ds.stage), consumer.k_of_dq);
      ptx::wgmma_commit();
      issue_key_gradient<Tile>(consumer.rdK, consumer.rdS, q);
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(consumer.rdQ, consumer.rdV);
      consumer.place.leave(s.do_ring);
      ds.release(s.ds_ring);
      add_to_sums<Tile>(sums, consumer.rdQ, consumer.index, head_dim<Tile>(a));
      consumer.issue_next_scores(!walk.done());
    }
    ptx::wgmma_wait<0>(consumer.rS, consumer.rdK);
    consumer.store_gradients(maps);
  }
}

// --- decoupled: dQ of a query tile one step later ----------------------------------------------------------

/// A step, from an S^T in flight on: computes dS and adds to dV and dK. dQ is that of the step before, from
/// the dS that both consumers stored then. On return dK is still in flight, alone.
///
/// In the first step, that dS is a tile of zeros, and its dQ is not added: it would be one more tile of
/// additions for each key tile.
/// @param stored, multiplied  where dS of this step goes, and where that of the step before is
/// @param sums  where put_dq(consumer, sums) adds dQ of the step before
/// @param queries  as for p_and_ds(); at_first() says whether this is the first step
template <class Tile, class Sums, class Queries>
__device__ __forceinline__ void decoupled_step(Consumer<Tile>& consumer, Place<Tile::kDsStages>& stored,
                                               Place<Tile::kDsStages>& multiplied, Sums& sums,
                                               const Queries& queries) {
  auto& s = consumer.s;
  ptx::wgmma_wait<0>(consumer.rS, consumer.rdK);
  consumer.release_q_before(queries.at_first());
  consumer.p_and_ds(queries);
  // EXERCISE 7: Pass dS on, compute dQ of the step before and dK. Hold no stage and await no product longer than data requires.
  stored.wait_empty(s.ds_ring);
  store_ds<Tile>(s.ds[stored.stage], consumer.rdS, consumer.warp_key);
  ptx::fence_proxy_async();
  warp_arrives(s.ds_ring.full[stored.stage]);
  stored.advance();
  ptx::wgmma_wait<0>(consumer.rdV);
  consumer.place.leave(s.do_ring);
  multiplied.wait_full(s.ds_ring);
  ptx::wgmma_fence();
  issue_dq<Tile>(consumer.rdQ, consumer.ds(multiplied.stage), consumer.k_of_dq);
  ptx::wgmma_commit();
  issue_key_gradient<Tile>(consumer.rdK, consumer.rdS, consumer.in_stage(consumer.first_q_summed));
  ptx::wgmma_commit();
  ptx::wgmma_wait<1>(consumer.rdQ);
  multiplied.release(s.ds_ring);
  // END 7
  if (!queries.at_first()) put_dq(consumer, sums);
}

/// After the last step: dQ of that step.
template <class Tile>
__device__ __forceinline__ void multiply_last_ds(Consumer<Tile>& consumer,
                                                 const Place<Tile::kDsStages>& multiplied) {
  multiplied.wait_full(consumer.s.ds_ring);
  ptx::wgmma_fence();
  issue_dq<Tile>(consumer.rdQ, consumer.ds(multiplied.stage), consumer.k_of_dq);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(consumer.rdQ);
}

/// `overlapped`, but a consumer does not wait for the dS of the other: it multiplies the dS of the step
/// before, which is almost always there already. So one consumer may be more than a step ahead, and computes
/// exponentials while the other multiplies.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    decoupled_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
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
    Consumer<Tile> consumer(a, s, keys, warpgroup - 1);
    Place<Tile::kDsStages> stored{}, multiplied{};
    consumer.store_zeros(stored);  // dS of the step before the first
    float* sums = nullptr;         // of the step before
    ptx::mbarrier_wait(&s.kv_full, 0);
    consumer.issue_first_scores();
    for (QueryWalk<Tile> walk(a, keys); !walk.done();) {
      decoupled_step(consumer, stored, multiplied, sums, walk);
      sums = consumer.sums(walk);
      walk.next();
      consumer.issue_next_scores(!walk.done());
    }
    ptx::wgmma_wait<0>(consumer.rS, consumer.rdK);
    multiply_last_ds(consumer, multiplied);
    add_to_sums<Tile>(sums, consumer.rdQ, consumer.index, head_dim<Tile>(a));
    consumer.store_gradients(maps);
  }
}

}  // namespace fa::ch10
