/// @file
/// Hopper, with consumers that take turns: `ping_pong` and `final`. See kernel.cuh for what all kernels have.
#pragma once

#include <cuda_runtime.h>

#include "choices.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/attention.cuh"
#include "device/hopper.cuh"
#include "kernel.cuh"
#include "products.cuh"
#include "shared_tiles.cuh"
#include "softmax.cuh"
#include "turns.cuh"
#include "work.cuh"

namespace fa::ch09 {

// --- ping_pong: warpgroups take turns ----------------------------------------------------------------------

/// overlapped_step() with its products in turn. P V is complete before the exponentials; P is packed between
/// them. Looks ahead.
template <bool kMasked, class Tile>
__device__ __forceinline__ void step_in_turn(Consumer<Tile>& consumer, const Turns<Tile::kConsumers>& turn,
                                             int first_query, int j) {
  consumer.k.wait_unless_landed(consumer.s.k_ring);
  consumer.v.wait_unless_landed(consumer.s.v_ring);
  turn.take();
  ptx::wgmma_fence();
  issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
  ptx::wgmma_commit();
  issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
  ptx::wgmma_commit();
  turn.pass();
  ptx::wgmma_wait<1>(consumer.rS);
  consumer.k.release(consumer.s.k_ring);
  if constexpr (kMasked) mask<Tile>(consumer.rS, consumer.a, first_query, (j - 1) * Tile::Bc);
  float correction[2];
  const bool grew = raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor);
  ptx::wgmma_wait<0>(consumer.rO);
  consumer.v.release(consumer.s.v_ring);
  if (grew) scale_rows(consumer.rO, correction);
  consumer.k.look(consumer.s.k_ring);
  consumer.v.look(consumer.s.v_ring);
  exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
  pack_p<Tile>(consumer.rP, consumer.rS);
}

/// `overlapped` with turns. A warpgroup takes a turn for every tile of the block, the hidden ones too.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    ping_pong_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps,
                        int* counter) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  init_barriers(s);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) produce(a, maps, s, counter);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    Consumer<Tile> consumer(a, s, warpgroup - 1);
    const Turns<Tile::kConsumers> turn{consumer.index};
    turn.begin();
    while (true) {
      consumer.q.wait_full(s.q_ring);
      const QueryTile tile = s.query_tile[consumer.q.stage];
      if (tile.head < 0) break;
      const KeyTiles keys = keys_of_warpgroup<Tile>(tile.first_query, consumer.index, a);
      const int first_query = tile.first_query + consumer.warp_row;
      consumer.reset();
      for (int n = 0; n < keys.hidden; ++n) {
        turn.take();
        turn.pass();
        consumer.skip_tile();
      }

      int j = keys.last;
      consumer.k.wait_full(s.k_ring);
      turn.take();
      ptx::wgmma_fence();
      issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
      ptx::wgmma_commit();
      turn.pass();
      ptx::wgmma_wait<0>(consumer.rS);
      consumer.k.release(s.k_ring);
      if (j >= keys.first_masked) mask<Tile>(consumer.rS, a, first_query, j * Tile::Bc);
      float correction[2];
      raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor);
      exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
      pack_p<Tile>(consumer.rP, consumer.rS);

      for (; j > 0 && j > keys.first_masked; --j) step_in_turn<true>(consumer, turn, first_query, j);
      for (; j > 0; --j) step_in_turn<false>(consumer, turn, first_query, j);

      consumer.v.wait_full(s.v_ring);
      turn.take();
      ptx::wgmma_fence();
      issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
      ptx::wgmma_commit();
      turn.pass();
      ptx::wgmma_wait<0>(consumer.rO);
      consumer.v.release(s.v_ring);
      consumer.finish_rows();
      consumer.store(maps, tile);
      consumer.q.release(s.q_ring);
    }
    turn.end();
  }
}

// --- final: no gap between query tiles ---------------------------------------------------------------------

/// The step of tiles without a mask.
template <class Tile>
struct SearchForMaximum {
  static __device__ __forceinline__ void run(Consumer<Tile>& consumer, const Turns<Tile::kConsumers>& turn,
                                             QueryTile tile, int* /*marks*/) {
    step_in_turn<false>(consumer, turn, tile.first_query + consumer.warp_row, 0);
  }
};

/// `ping_pong` with two buffers for Q: the first Q K^T of the next query tile is issued with the last P V of
/// this one, and is in flight while O is stored.
///
/// @tparam Step  what happens with a tile that needs no mask    @param marks  for NoMaximum
template <class Tile, class Step = SearchForMaximum<Tile>>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    gapless_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps, int* counter,
                      int* marks) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  static_assert(Tile::kQueryBuffers == 2);
  init_barriers(s);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) produce(a, maps, s, counter);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    Consumer<Tile> consumer(a, s, warpgroup - 1);
    const Turns<Tile::kConsumers> turn{consumer.index};
    turn.begin();
    consumer.q.wait_full(s.q_ring);
    QueryTile tile = s.query_tile[0];  // a block has at least one
    consumer.k.wait_full(s.k_ring);
    turn.take();
    ptx::wgmma_fence();
    issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
    ptx::wgmma_commit();
    turn.pass();
    while (true) {
      const KeyTiles keys = keys_of_warpgroup<Tile>(tile.first_query, consumer.index, a);
      const int first_query = tile.first_query + consumer.warp_row;
      int j = keys.last;
      ptx::wgmma_wait<0>(consumer.rS);
      consumer.reset();
      consumer.k.release(s.k_ring);
      if (keys.hidden > 0) {  // these scores are of a tile that no row here sees: release it and the others
        for (int n = 1; n < keys.hidden; ++n) {
          consumer.v.wait_full(s.v_ring);
          consumer.v.release(s.v_ring);
          consumer.k.wait_full(s.k_ring);
          consumer.k.release(s.k_ring);
          turn.take();
          turn.pass();
        }
        consumer.v.wait_full(s.v_ring);
        consumer.v.release(s.v_ring);
        consumer.k.wait_full(s.k_ring);
        turn.take();
        ptx::wgmma_fence();
        issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
        ptx::wgmma_commit();
        turn.pass();
        ptx::wgmma_wait<0>(consumer.rS);
        consumer.k.release(s.k_ring);
      }
      if (j >= keys.first_masked) mask<Tile>(consumer.rS, a, first_query, j * Tile::Bc);
      float correction[2];
      raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor);
      exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
      pack_p<Tile>(consumer.rP, consumer.rS);

      for (; j > 0 && j > keys.first_masked; --j) step_in_turn<true>(consumer, turn, first_query, j);
      for (; j > 0; --j) Step::run(consumer, turn, tile, marks);

      Place<Tile::kQueryBuffers> next = consumer.q;
      next.advance();
      next.wait_full(s.q_ring);
      const QueryTile next_tile = s.query_tile[next.stage];
      const bool more = next_tile.head >= 0;
      consumer.v.wait_full(s.v_ring);
      if (more) consumer.k.wait_full(s.k_ring);
      turn.take();
      ptx::wgmma_fence();
      issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
      ptx::wgmma_commit();
      // At the very end this multiplies keys by keys, and the result is not used: a branch here would make
      // the compiler wait for every product.
      issue_qk<Tile>(consumer.rS, more ? consumer.q_rows(next) : consumer.first_k,
                     more ? consumer.k_tile() : consumer.first_k, 128 * (more ? Tile::Br : Tile::Bc));
      ptx::wgmma_commit();
      turn.pass();
      consumer.finish_rows();
      ptx::wgmma_wait<1>(consumer.rO);
      consumer.v.release(s.v_ring);
      consumer.store(maps, tile);
      consumer.q.release(s.q_ring);
      tile = next_tile;
      if (!more) break;
    }
    ptx::wgmma_wait<0>(consumer.rS);
    turn.end();
  }
}

}  // namespace fa::ch09
