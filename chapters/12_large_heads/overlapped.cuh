/// @file
/// `overlapped`: `cluster`, with the scores of the next tile in flight while those of this one become P.
#pragma once

#include <cuda_runtime.h>

#include "device/attention.cuh"
#include "device/clusters.cuh"
#include "device/hopper.cuh"
#include "pair.cuh"
#include "pair_tiles.cuh"
#include "pair_work.cuh"

namespace fa::ch12 {

/// A consumer with room for the scores of two tiles.
template <class Tile>
struct OverlappedConsumer : PairConsumer<Tile> {
  using Base = PairConsumer<Tile>;
  using Base::at, Base::panels, Base::q, Base::rS, Base::slots;
  static constexpr int kInFlight = 3;  ///< slices whose products nobody has waited for

  float rNext[32];  ///< of the next tile
  int oldest;       ///< the slot of the first slice in flight

  using Base::Base;

  /// Issues S = Q K^T of the next tile. The products of its last kInFlight slices are still in flight then.
  __device__ __forceinline__ void issue_next_qk() {
    oldest = at.number;
    int slot = this->next_slot();
    ptx::wgmma_fence();
    this->template issue_slice<false>(rNext, q, slot);
    for (int panel = 1; panel < panels; ++panel) {
      if (panel >= kInFlight) {
        ptx::wgmma_wait<kInFlight - 1>();
        leave_oldest();
      }
      slot = this->next_slot();
      ptx::wgmma_fence();
      this->template issue_slice<true>(rNext, moved(q, panel * Tile::Br * 128), slot);
    }
  }
  __device__ __forceinline__ void leave_oldest() {
    this->leave(oldest);
    if (++oldest == slots) oldest = 0;
  }
  /// Waits for the scores of the next tile.
  __device__ __forceinline__ void finish_next_qk() {
    ptx::wgmma_wait<0>(rNext);
    for (int n = min(panels, kInFlight); n > 0; --n) leave_oldest();
  }
  __device__ __forceinline__ void to_next() {
#pragma unroll
    for (int i = 0; i < 32; ++i) rS[i] = rNext[i];
  }
};

/// pair_attention() with overlapping: the tensor cores multiply the next tile's Q K^T while warps search for
/// maxima, exchange them and compute exponentials.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    overlapped_pair_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps,
                              PairSizes sizes) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const PairBlock<Tile> s(smem, sizes);
  if (threadIdx.x == 0) ptx::mbarrier_init(&s.fixed.q_full, 1);
  init_barriers<Tile>(s.fixed, sizes.slots);
  const int warpgroup = warpgroup_index(), rank = ptx::cluster_ctarank();
  const PairWork work = work_of_pair<Tile>(blockIdx.x / Tile::kBlocks, a);
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      PairProducer<Tile> producer(a, maps, s, sizes, work.head, 0, rank);
      producer.load_q(work);
      producer.load_k(work.tiles - 1);
      for (int tile = work.tiles - 1; tile > 0; --tile) {
        producer.load_k(tile - 1);
        producer.load_v(tile);
      }
      producer.load_v(0);
    }
    __syncwarp();
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    OverlappedConsumer<Tile> w(a, s, sizes, rank, warpgroup - 1);
    ptx::mbarrier_wait(&s.fixed.q_full, 0);
    w.multiply_qk();
    for (int tile = work.tiles - 1; tile > 0; --tile) {
      w.issue_next_qk();
      if (tile >= work.first_masked) w.mask(work.first_query, tile * Tile::Bc);
      w.softmax();
      w.share_p();
      w.finish_next_qk();
      w.multiply_pv();
      w.to_next();
    }
    if (0 >= work.first_masked) w.mask(work.first_query, 0);
    w.softmax();
    w.share_p();
    w.multiply_pv();
    w.store(maps, work, 0);
  }
  // No block ends while another one may still write to it.
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

}  // namespace fa::ch12
