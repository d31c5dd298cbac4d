/// @file
/// `spilled`: a block computes S once, for all columns of O, and keeps those that it does not have registers
/// for in HBM.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "device/attention.cuh"
#include "device/clusters.cuh"
#include "device/hopper.cuh"
#include "device/tile.cuh"
#include "pair.cuh"
#include "pair_tiles.cuh"
#include "pair_work.cuh"

namespace fa::ch12 {

/// A consumer that has one part of O in registers, and the others in HBM.
template <class Tile>
struct SpillingConsumer : PairConsumer<Tile> {
  using Base = PairConsumer<Tile>;
  using Base::rO;
  static constexpr int kVectors = Tile::kCols / 8;  ///< of a thread's registers of O, four each

  using Base::Base;

  /// Loads a part of O and multiplies its rows by the correction for the maximum that has grown since. Before
  /// the first tile, O is zero, and nothing is loaded.
  /// @param sums  this thread's: those of the next one are 16 bytes further, its own next ones 128 times as
  ///   far
  __device__ __forceinline__ void load(const float* sums, const float (&correction)[2], bool exists) {
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const float4 x = exists ? load_float4(sums + 512 * n) : float4{0.0f, 0.0f, 0.0f, 0.0f};
      rO[4 * n] = x.x * correction[0], rO[4 * n + 1] = x.y * correction[0];
      rO[4 * n + 2] = x.z * correction[1], rO[4 * n + 3] = x.w * correction[1];
    }
    ptx::keep_in_place(rO);  // before the fence of the first product
  }
  __device__ __forceinline__ void spill(float* sums) const {
#pragma unroll
    for (int n = 0; n < kVectors; ++n)
      store_float4(sums + 512 * n, {rO[4 * n], rO[4 * n + 1], rO[4 * n + 2], rO[4 * n + 3]});
  }
};

/// FlashAttention whose O is in HBM from one key tile to the next.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads: a producer warpgroup and a consumer
///   smem    shared_bytes<Tile>(sizes)
///   HBM     Q once; for each query tile, K and V of the key tiles that its last query sees, once; for each
///           of these tiles but one, reads and writes parts * 4 * Br * kCols bytes of sums; writes O and LSE
///
/// @param o_sums  [batch * heads * ceil(seq_q / Br), parts, kCols / 8, 128, 4]: in the order of registers
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    spilling_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps,
                       PairSizes sizes, float* o_sums) {
  static_assert(Tile::kBlocks == 1 && Tile::kConsumers == 1);
  extern __shared__ __align__(1024) unsigned char smem[];
  const PairBlock<Tile> s(smem, sizes);
  if (threadIdx.x == 0) ptx::mbarrier_init(&s.fixed.q_full, 1);
  init_barriers<Tile>(s.fixed, sizes.slots);
  const int warpgroup = warpgroup_index();
  const PairWork work = work_of_pair<Tile>(blockIdx.x, a);
  if (warpgroup == 0) {
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      PairProducer<Tile> producer(a, maps, s, sizes, work.head, 0, 0);
      producer.load_q(work);
      for (int tile = work.tiles - 1; tile >= 0; --tile) {
        producer.load_k(tile);
        for (producer.first_col = 0; producer.first_col < sizes.parts * Tile::kCols;
             producer.first_col += Tile::kCols)
          producer.load_v(tile);
      }
    }
    __syncwarp();
  } else {
    constexpr int kOfPart = Tile::Br * Tile::kCols;
    SpillingConsumer<Tile> w(a, s, sizes, 0, 0);
    float* sums = o_sums + size_t(blockIdx.x) * sizes.parts * kOfPart + 4 * (threadIdx.x % 128);
    ptx::mbarrier_wait(&s.fixed.q_full, 0);
    for (int tile = work.tiles - 1; tile >= 0; --tile) {
      w.multiply_qk();
      if (tile >= work.first_masked) w.mask(work.first_query, tile * Tile::Bc);
      float correction[2] = {w.m[0], w.m[1]};
      w.softmax();
#pragma unroll
      for (int row = 0; row < 2; ++row) correction[row] = ptx::exp2_approx(correction[row] - w.m[row]);
      w.share_p();
#pragma unroll 1
      for (int part = 0; part < sizes.parts; ++part) {
        w.load(sums + part * kOfPart, correction, tile < work.tiles - 1);
        w.add_pv();
        if (tile > 0) {
          w.spill(sums + part * kOfPart);
        } else {
          w.store(maps, work, part);
          __syncwarp();  // the copy engine has read this part, and the next one may take its place
        }
      }
      w.leave_p();
    }
  }
}

}  // namespace fa::ch12
