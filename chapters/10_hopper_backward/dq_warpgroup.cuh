/// @file
/// dQ in a warpgroup of its own, which also copies: the consumers neither multiply dS by K nor add to the sums.
#pragma once

#include <cuda_runtime.h>

#include "backward.cuh"
#include "choices.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/hopper.cuh"
#include "shared_tiles.cuh"
#include "work.cuh"

namespace fa::ch10 {

/// The consumers do without the accumulators of dQ; the third warpgroup has those of one part at a time.
template <class T, int d>
struct DqWarpgroupTiles : KeyTiles<T, d> {
  static constexpr int kProducerRegisters = 88, kConsumerRegisters = 208;
};

/// Copies, and multiplies dS by K as soon as both consumers have stored theirs.
template <class Tile>
__device__ __forceinline__ void copy_and_multiply(const Backward<typename Tile::T>& a, const TensorMaps& maps,
                                                  KeyTileMemory<Tile>& s, const KeyTile& keys) {
  const bool copies = threadIdx.x < 32 && ptx::elect_sync();
  Place<Tile::kStages> at{};
  QueryWalk<Tile> ahead(a, keys);
  const auto load_next = [&] {
    if (!copies || ahead.done()) return;
    load_query_tile<Tile>(a, maps, s, at, ahead);
    at.advance();
    ahead.next();
  };
  if (copies) load_keys<Tile>(maps, s, keys);
  for (int stage = 0; stage < Tile::kStages; ++stage) load_next();
  const std::uint64_t ds_of_part[] = {descriptor(s.ds[0], 16), descriptor(s.ds[0] + Tile::kDsOfPart1, 16)};
  const std::uint64_t k_of_part[] = {descriptor(s.k, Tile::Bc * 128),
                                     descriptor(s.k + Tile::kKeysOfPart1, Tile::Bc * 128)};
  Place<Tile::kDsStages> ds{};
  DqPart<Tile> rdQ;
  ptx::mbarrier_wait(&s.kv_full, 0);
  for (QueryWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {
    float* sums = a.dq_sum + walk.padded_row() * Tile::kHeadDim;
    ds.wait_full(s.ds_ring);
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      ptx::wgmma_fence();
      issue_dq<Tile>(rdQ, moved(ds_of_part[part], ds.stage * int(sizeof s.ds[0])), k_of_part[part]);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(rdQ);
      if (part == 1) ds.release(s.ds_ring);
      add_to_sums<Tile>(sums, rdQ, part);
    }
    load_next();
  }
}

/// `decoupled` without dQ.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    dq_warpgroup_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<KeyTileMemory<Tile>*>(smem);
  init_barriers(s);
  const KeyTile keys = KeyTile::of_block<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    copy_and_multiply<Tile>(a, maps, s, keys);
    ptx::barrier_arrive(1, 384);
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
      if (walk.masked(a, keys)) mask<Tile>(w.rS, a, walk.first_query(), keys.first_key + w.warp_key);
      w.at.wait_full(s.do_ring);
      ptx::wgmma_fence();
      issue_scores<Tile>(w.rdP, w.v_rows, w.in_stage(w.first_do));
      ptx::wgmma_commit();
      probabilities<Tile>(w.rS, s.log2_sum[w.at.stage], w.factor);
      pack_operand<Tile>(w.rP, w.rS);
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(w.rdV, w.rP, w.in_stage(w.first_do_summed));
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(w.rdP);
      score_gradients<Tile>(w.rdP, w.rS, s.delta[w.at.stage]);
      pack_operand<Tile>(w.rdS, w.rdP);
      ds.wait_empty(s.ds_ring);
      store_ds<Tile>(s.ds[ds.stage], w.rdS, w.warp_key);
      ptx::fence_proxy_async();
      warp_arrives(s.ds_ring.full[ds.stage]);
      ds.advance();
      ptx::wgmma_wait<0>(w.rdV);
      w.at.leave(s.do_ring);
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(w.rdK, w.rdS, w.in_stage(w.first_q_summed));
      ptx::wgmma_commit();
      walk.next();
      w.issue_next_scores(walk);
    }
    ptx::wgmma_wait<0>(w.rS, w.rdK);
    w.store_gradients(maps);
  }
}

}  // namespace fa::ch10
