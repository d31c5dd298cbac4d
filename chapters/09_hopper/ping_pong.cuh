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
__device__ __forceinline__ void step_in_turn(Consumer<Tile>& w, const Turns<Tile::kConsumers>& turn,
                                             int first_query, int j) {
  w.k.wait_unless_landed(w.s.k_ring);
  w.v.wait_unless_landed(w.s.v_ring);
  turn.take();
  ptx::wgmma_fence();
  issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());
  ptx::wgmma_commit();
  issue_pv<Tile>(w.rO, w.rP, w.v_tile());
  ptx::wgmma_commit();
  turn.pass();
  ptx::wgmma_wait<1>(w.rS);
  w.k.release(w.s.k_ring);
  if constexpr (kMasked) mask<Tile>(w.rS, w.a, first_query, (j - 1) * Tile::Bc);
  float correction[2];
  const bool grew = raise_maximum<Tile>(w.state, correction, w.rS, w.factor);
  ptx::wgmma_wait<0>(w.rO);
  w.v.release(w.s.v_ring);
  if (grew) scale_rows(w.rO, correction);
  w.k.look(w.s.k_ring);
  w.v.look(w.s.v_ring);
  exponentials<Tile>(w.rS, w.state, w.factor);
  pack_p<Tile>(w.rP, w.rS);
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
    Consumer<Tile> w(a, s, warpgroup - 1);
    const Turns<Tile::kConsumers> turn{w.index};
    turn.begin();
    while (true) {
      w.q.wait_full(s.q_ring);
      const QueryTile tile = s.query_tile[w.q.stage];
      if (tile.head < 0) break;
      const KeyTiles keys = keys_of_warpgroup<Tile>(tile.first_query, w.index, a);
      const int first_query = tile.first_query + w.warp_row;
      w.reset();
      for (int n = 0; n < keys.hidden; ++n) {
        turn.take();
        turn.pass();
        w.skip_tile();
      }

      int j = keys.last;
      w.k.wait_full(s.k_ring);
      turn.take();
      ptx::wgmma_fence();
      issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());
      ptx::wgmma_commit();
      turn.pass();
      ptx::wgmma_wait<0>(w.rS);
      w.k.release(s.k_ring);
      if (j >= keys.first_masked) mask<Tile>(w.rS, a, first_query, j * Tile::Bc);
      float correction[2];
      raise_maximum<Tile>(w.state, correction, w.rS, w.factor);
      exponentials<Tile>(w.rS, w.state, w.factor);
      pack_p<Tile>(w.rP, w.rS);

      for (; j > 0 && j > keys.first_masked; --j) step_in_turn<true>(w, turn, first_query, j);
      for (; j > 0; --j) step_in_turn<false>(w, turn, first_query, j);

      w.v.wait_full(s.v_ring);
      turn.take();
      ptx::wgmma_fence();
      issue_pv<Tile>(w.rO, w.rP, w.v_tile());
      ptx::wgmma_commit();
      turn.pass();
      ptx::wgmma_wait<0>(w.rO);
      w.v.release(s.v_ring);
      w.finish_rows();
      w.store(maps, tile);
      w.q.release(s.q_ring);
    }
    turn.end();
  }
}

// --- final: no gap between query tiles ---------------------------------------------------------------------

/// The step of tiles without a mask.
template <class Tile>
struct SearchForMaximum {
  static __device__ __forceinline__ void run(Consumer<Tile>& w, const Turns<Tile::kConsumers>& turn,
                                             QueryTile tile, int* /*marks*/) {
    step_in_turn<false>(w, turn, tile.first_query + w.warp_row, 0);
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
    Consumer<Tile> w(a, s, warpgroup - 1);
    const Turns<Tile::kConsumers> turn{w.index};
    turn.begin();
    w.q.wait_full(s.q_ring);
    QueryTile tile = s.query_tile[0];  // a block has at least one
    w.k.wait_full(s.k_ring);
    turn.take();
    ptx::wgmma_fence();
    issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());
    ptx::wgmma_commit();
    turn.pass();
    while (true) {
      const KeyTiles keys = keys_of_warpgroup<Tile>(tile.first_query, w.index, a);
      const int first_query = tile.first_query + w.warp_row;
      int j = keys.last;
      ptx::wgmma_wait<0>(w.rS);
      w.reset();
      w.k.release(s.k_ring);
      if (keys.hidden > 0) {  // these scores are of a tile that nobody here sees: let it and the others pass
        for (int n = 1; n < keys.hidden; ++n) {
          w.v.wait_full(s.v_ring);
          w.v.release(s.v_ring);
          w.k.wait_full(s.k_ring);
          w.k.release(s.k_ring);
          turn.take();
          turn.pass();
        }
        w.v.wait_full(s.v_ring);
        w.v.release(s.v_ring);
        w.k.wait_full(s.k_ring);
        turn.take();
        ptx::wgmma_fence();
        issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());
        ptx::wgmma_commit();
        turn.pass();
        ptx::wgmma_wait<0>(w.rS);
        w.k.release(s.k_ring);
      }
      if (j >= keys.first_masked) mask<Tile>(w.rS, a, first_query, j * Tile::Bc);
      float correction[2];
      raise_maximum<Tile>(w.state, correction, w.rS, w.factor);
      exponentials<Tile>(w.rS, w.state, w.factor);
      pack_p<Tile>(w.rP, w.rS);

      for (; j > 0 && j > keys.first_masked; --j) step_in_turn<true>(w, turn, first_query, j);
      for (; j > 0; --j) Step::run(w, turn, tile, marks);

      Place<Tile::kQueryBuffers> next = w.q;
      next.advance();
      next.wait_full(s.q_ring);
      const QueryTile next_tile = s.query_tile[next.stage];
      const bool more = next_tile.head >= 0;
      w.v.wait_full(s.v_ring);
      if (more) w.k.wait_full(s.k_ring);
      turn.take();
      ptx::wgmma_fence();
      issue_pv<Tile>(w.rO, w.rP, w.v_tile());
      ptx::wgmma_commit();
      // At the very end this multiplies keys by keys, and nobody uses the result: a branch here would make
      // the compiler wait for every product.
      issue_qk<Tile>(w.rS, more ? w.q_rows(next) : w.first_k, more ? w.k_tile() : w.first_k);
      ptx::wgmma_commit();
      turn.pass();
      w.finish_rows();
      ptx::wgmma_wait<1>(w.rO);
      w.v.release(s.v_ring);
      w.store(maps, tile);
      w.q.release(s.q_ring);
      tile = next_tile;
      if (!more) break;
    }
    ptx::wgmma_wait<0>(w.rS);
    turn.end();
  }
}

}  // namespace fa::ch09
