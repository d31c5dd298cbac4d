/// @file
/// The kernels of chapter 10 that compute all three gradients, one block per key tile. From one to the next,
/// one thing changes.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: a producer warpgroup and two consumers
///   smem    sizeof(KeyTileMemory<Tile>), or KeyTileMemoryWithDq
///   HBM     8 * batch * kv_heads * seq_k * d bytes: reads K and V, writes dK and dV
///           + batch * heads * (4 * d * R + 8 * P): reads Q and dO, log2_sum and D
///           + batch * heads * 8 * d * P: adds to dq_sum
///
/// R and P are the rows that the key tiles of a head visit, without and with padding: sums over key tiles of
/// seq_q - first and of padded_queries - first, where first = first_query(first key) / Br * Br.
#pragma once

#include <cuda_runtime.h>

#include "backward.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/hopper.cuh"
#include "shared_tiles.cuh"
#include "work.cuh"

namespace fa::ch10 {

// --- wgmma: chapter 08's fused kernel with chapter 09's instructions ---------------------------------------

/// The second warp of the producer warpgroup: adds every tile of dQ to the sums in HBM.
template <class Tile>
__device__ __forceinline__ void add_dq(const Backward<typename Tile::T>& a, KeyTileMemoryWithDq<Tile>& s,
                                       const KeyTile& keys) {
  Place<1> at{};
  for (QueryWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {
    at.wait_full(s.dq_ring);
    ptx::bulk_reduce_add(a.dq_sum + walk.padded_row() * Tile::kHeadDim, s.dq, sizeof s.dq);
    ptx::bulk_commit();
    ptx::bulk_wait_read<0>();
    ptx::mbarrier_arrive(&s.dq_ring.empty[0]);
    at.advance();
  }
  ptx::bulk_wait<0>();
}

/// The five products almost in chapter 08's order: dQ comes before dK, so that dK is in flight while dQ is
/// stored. dQ goes to shared memory, and from there to the sums.
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
    Consumer<Tile> w(a, s, keys, warpgroup - 1);
    Place<Tile::kDsStages> ds{};
    Place<1> dq{};
    ptx::mbarrier_wait(&s.kv_full, 0);
    for (QueryWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {
      w.at.wait_full(s.q_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(w.rS, w.k_rows, w.in_stage(w.first_q));
      ptx::wgmma_commit();
      w.at.wait_full(s.do_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(w.rdP, w.v_rows, w.in_stage(w.first_do));
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(w.rS);
      if (walk.masked(a, keys)) mask<Tile>(w.rS, a, walk.first_query(), keys.first_key + w.warp_key);
      probabilities<Tile>(w.rS, s.log2_sum[w.at.stage], w.factor);
      pack_operand<Tile>(w.rP, w.rS);
      ptx::wgmma_wait<0>(w.rdP);
      score_gradients<Tile>(w.rdP, w.rS, s.delta[w.at.stage]);
      pack_operand<Tile>(w.rdS, w.rdP);
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(w.rdV, w.rP, w.in_stage(w.first_do_summed));
      ptx::wgmma_commit();
      ds.wait_empty(s.ds_ring);
      store_ds<Tile>(s.ds[ds.stage], w.rdS, w.warp_key);
      ptx::fence_proxy_async();
      warp_arrives(s.ds_ring.full[ds.stage]);
      ds.wait_full(s.ds_ring);  // of both consumers
      ptx::wgmma_fence();
      issue_dq<Tile>(w.rdQ, w.ds(ds.stage), w.k_of_dq);
      ptx::wgmma_commit();
      issue_key_gradient<Tile>(w.rdK, w.rdS, w.in_stage(w.first_q_summed));
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(w.rdQ, w.rdV);
      w.at.leave(s.do_ring);
      ds.release(s.ds_ring);
      dq.wait_empty(with_dq.dq_ring);
      store_part<Tile>(with_dq.dq, w.rdQ, w.index);
      ptx::fence_proxy_async();
      warp_arrives(with_dq.dq_ring.full[0]);
      dq.advance();
      ptx::wgmma_wait<0>(w.rdK);
      w.at.release(s.q_ring);
    }
    w.store_gradients(maps);
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
    Consumer<Tile> w(a, s, keys, warpgroup - 1);
    Place<Tile::kDsStages> ds{};
    ptx::mbarrier_wait(&s.kv_full, 0);
    for (QueryWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {
      w.at.wait_full(s.q_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(w.rS, w.k_rows, w.in_stage(w.first_q));
      ptx::wgmma_commit();
      w.at.wait_full(s.do_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(w.rdP, w.v_rows, w.in_stage(w.first_do));
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(w.rS);
      if (walk.masked(a, keys)) mask<Tile>(w.rS, a, walk.first_query(), keys.first_key + w.warp_key);
      probabilities<Tile>(w.rS, s.log2_sum[w.at.stage], w.factor);
      pack_operand<Tile>(w.rP, w.rS);
      ptx::wgmma_wait<0>(w.rdP);
      score_gradients<Tile>(w.rdP, w.rS, s.delta[w.at.stage]);
      pack_operand<Tile>(w.rdS, w.rdP);
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(w.rdV, w.rP, w.in_stage(w.first_do_summed));
      ptx::wgmma_commit();
      ds.wait_empty(s.ds_ring);
      store_ds<Tile>(s.ds[ds.stage], w.rdS, w.warp_key);
      ptx::fence_proxy_async();
      warp_arrives(s.ds_ring.full[ds.stage]);
      ds.wait_full(s.ds_ring);  // of both consumers
      ptx::wgmma_fence();
      issue_dq<Tile>(w.rdQ, w.ds(ds.stage), w.k_of_dq);
      ptx::wgmma_commit();
      issue_key_gradient<Tile>(w.rdK, w.rdS, w.in_stage(w.first_q_summed));
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(w.rdQ, w.rdV);
      w.at.leave(s.do_ring);
      ds.release(s.ds_ring);
      add_to_sums<Tile>(w.sums(walk), w.rdQ, w.index);
      ptx::wgmma_wait<0>(w.rdK);
      w.at.release(s.q_ring);
    }
    w.store_gradients(maps);
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
    Consumer<Tile> w(a, s, keys, warpgroup - 1);
    Place<Tile::kDsStages> ds{};
    ptx::mbarrier_wait(&s.kv_full, 0);
    w.at.wait_full(s.q_ring);
    ptx::wgmma_fence();
    issue_scores<Tile>(w.rS, w.k_rows, w.in_stage(w.first_q));
    ptx::wgmma_commit();
    for (QueryWalk<Tile> walk(a, keys); !walk.done();) {
      ptx::wgmma_wait<0>(w.rS, w.rdK);
      w.release_q_before(walk);
      w.p_and_ds(walk);
      ds.wait_empty(s.ds_ring);
      store_ds<Tile>(s.ds[ds.stage], w.rdS, w.warp_key);
      ptx::fence_proxy_async();
      warp_arrives(s.ds_ring.full[ds.stage]);
      float* sums = w.sums(walk);
      const std::uint64_t q = w.in_stage(w.first_q_summed);
      walk.next();
      ds.wait_full(s.ds_ring);
      ptx::wgmma_fence();
      issue_dq<Tile>(w.rdQ, w.ds(ds.stage), w.k_of_dq);
      ptx::wgmma_commit();
      issue_key_gradient<Tile>(w.rdK, w.rdS, q);
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(w.rdQ, w.rdV);
      w.at.leave(s.do_ring);
      ds.release(s.ds_ring);
      add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(a));
      w.issue_next_scores(walk);
    }
    ptx::wgmma_wait<0>(w.rS, w.rdK);
    w.store_gradients(maps);
  }
}

// --- decoupled: dQ of a query tile one step later ----------------------------------------------------------

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
    Consumer<Tile> w(a, s, keys, warpgroup - 1);
    Place<Tile::kDsStages> stored{}, multiplied{};
    w.store_zeros(stored);  // dS of the step before the first
    float* sums = nullptr;  // nothing to add to
    ptx::mbarrier_wait(&s.kv_full, 0);
    w.at.wait_full(s.q_ring);
    ptx::wgmma_fence();
    issue_scores<Tile>(w.rS, w.k_rows, w.in_stage(w.first_q));
    ptx::wgmma_commit();
    for (QueryWalk<Tile> walk(a, keys); !walk.done();) {
      ptx::wgmma_wait<0>(w.rS, w.rdK);
      w.release_q_before(walk);
      w.p_and_ds(walk);
      // EXERCISE 7: Hand dS over. Leave dO when dV is complete. Multiply the dS before this one, add to dK, wait for that dQ alone.
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
      // END 7
      if (sums != nullptr) add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(a));
      sums = w.sums(walk);
      walk.next();
      w.issue_next_scores(walk);
    }
    ptx::wgmma_wait<0>(w.rS, w.rdK);
    multiplied.wait_full(s.ds_ring);
    ptx::wgmma_fence();
    issue_dq<Tile>(w.rdQ, w.ds(multiplied.stage), w.k_of_dq);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(w.rdQ);
    add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(a));
    w.store_gradients(maps);
  }
}

}  // namespace fa::ch10
