/// @file
/// Gradients without atomic additions, and so bitwise repeatable: dK and dV in one kernel, dQ in another.
/// Seven products instead of five: both compute S and dP.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/convert.cuh"
#include "device/declare_members.cuh"
#include "device/hopper.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"
#include "shared_tiles.cuh"

namespace fa::ch10 {

// --- dK and dV, one block per key tile ---------------------------------------------------------------------

/// `overlapped` without dQ. The room for dS stays unused, and the consumers have nothing to wait for
/// together.
///
///   grid, block, smem   as in kernel.cuh
///   HBM                 8 * batch * kv_heads * seq_k * d + batch * heads * (4 * d * R + 8 * P) bytes
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    key_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
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
    ptx::mbarrier_wait(&s.kv_full, 0);
    consumer.issue_first_scores();
    for (QueryWalk<Tile> walk(a, keys); !walk.done();) {
      ptx::wgmma_wait<0>(consumer.rS, consumer.rdK);
      consumer.release_q_before(walk.at_first());
      consumer.p_and_ds(walk);
      ptx::wgmma_wait<0>(consumer.rdV);
      __syncwarp();  // all lanes have read log2_sum and delta
      consumer.place.leave(s.do_ring);
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(consumer.rdK, consumer.rdS, consumer.in_stage(consumer.first_q_summed));
      ptx::wgmma_commit();
      walk.next();
      consumer.issue_next_scores(!walk.done());
    }
    ptx::wgmma_wait<0>(consumer.rS, consumer.rdK);
    consumer.store_gradients(maps);
  }
}

// --- dQ, one block per query tile --------------------------------------------------------------------------

/// A block owns 128 queries, 64 per consumer, and loops over key tiles, as in the forward pass.
template <class Element, int kHeadDimension>
struct QueryTiles {
  using T = Element;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int kCols = (kHeadDim + 63) / 64 * 64;
  static constexpr int Br = 128;                        ///< queries of a block
  static constexpr int Bc = kHeadDim <= 64 ? 128 : 64;  ///< keys of a step
  static constexpr int kStages = 2;                     ///< tiles of K and of V in shared memory
  static constexpr int kConsumers = 2;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
};

template <class Tile>
struct __align__(1024) QueryTileMemory {
  using T = typename Tile::T;
  T q[Tile::Br * Tile::kCols];  ///< queries, in the end dQ
  T d_o[Tile::Br * Tile::kCols];
  T k[Tile::kStages][Tile::Bc * Tile::kCols];
  T v[Tile::kStages][Tile::Bc * Tile::kCols];
  std::uint64_t q_full;
  RingBarriers<Tile::kStages> k_ring, v_ring;
};

/// How the tensors lie in global memory.
struct QueryMaps {
  TensorMap q, d_o;  ///< boxes of 64 columns and Br rows
  TensorMap k, v;    ///< boxes of 64 columns and Bc rows
  TensorMap dq;      ///< boxes of 64 columns and a warp's 16 rows
};

/// What the threads of a consumer hold: 64 queries, which are rows of everything. The registers are those of
/// chapter 09, and so are the products: S = Q K^T and dP = dO V^T by issue_qk(), dQ += dS K by issue_pv().
template <class Tile>
struct QueryConsumer {
  using T = typename Tile::T;

  const Backward<T>& a;
  QueryTileMemory<Tile>& s;
  const int head, row;  ///< the warp's first row in the tile
  const int query;      ///< this lane's first query; the other one is 8 further on
  const float factor;   ///< scale * log2 e
  const std::uint64_t q_rows, do_rows, first_k, first_v, first_k_summed;
  float log2_sum[2], delta[2];  ///< of the two queries

  Place<Tile::kStages> place{};
  ch09::Scores<Tile> rS, rdP;
  ch09::Probabilities<Tile> rdS;
  ch09::Output<Tile> rdQ;

  __device__ __forceinline__ QueryConsumer(const Backward<T>& backward, QueryTileMemory<Tile>& shared,
                                           int of_head, int first_query, int index)
      : a(backward),
        s(shared),
        head(of_head),
        row(64 * index + __shfl_sync(kAllLanes, int(threadIdx.x) / 32 % 4, 0) * 16),
        query(first_query + row + int(threadIdx.x) % 32 / 4),
        factor(backward.scale * kLog2e),
        q_rows(descriptor(shared.q + 64 * 64 * index, 16)),
        do_rows(descriptor(shared.d_o + 64 * 64 * index, 16)),
        first_k(descriptor(shared.k[0], 16)),
        first_v(descriptor(shared.v[0], 16)),
        first_k_summed(descriptor(shared.k[0], Tile::Bc * 128)) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const size_t at_row = size_t(head) * a.padded_queries + query + 8 * i;
      log2_sum[i] = a.log2_sum[at_row];
      delta[i] = a.delta[at_row];
    }
#pragma unroll
    for (float& x : rdQ) x = 0.0f;
    ptx::keep_in_place(rdQ);
  }
  __device__ __forceinline__ std::uint64_t in_stage(std::uint64_t first) const {
    return moved(first, place.stage * int(sizeof s.k[0]));
  }
  /// The product of the step before no longer reads K.
  __device__ __forceinline__ void release_k_before(int first_key) {
    if (first_key == 0 || threadIdx.x % 32 != 0) return;
    ptx::mbarrier_arrive(&s.k_ring.empty[(place.stage + Tile::kStages - 1) % Tile::kStages]);
  }
  __device__ __forceinline__ void probabilities(int first_key) {
    const bool masked = a.visible_keys(query - int(threadIdx.x) % 32 / 4) < first_key + Tile::Bc;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int seen =
          masked ? a.visible_keys(query + 8 * i) - first_key - int(threadIdx.x) % 4 * 2 : Tile::Bc;
#pragma unroll
      for (int n = 0; n < Tile::Bc / 8; ++n) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          float& x = rS[4 * n + 2 * i + odd];
          x = 8 * n + odd < seen ? ptx::exp2_approx(fmaf(x, factor, -log2_sum[i])) : 0.0f;
        }
      }
    }
  }
  __device__ __forceinline__ void score_gradients() {
#pragma unroll
    for (int i = 0; i < Tile::Bc / 2; i += 2) {
      const float d = delta[i / 2 % 2];
      rdS[i / 8][i / 2 % 4] = pack<T>(rS[i] * (rdP[i] - d), rS[i + 1] * (rdP[i + 1] - d));
    }
  }
  /// Stores dQ where this warpgroup's queries were, and from there to HBM.
  __device__ __forceinline__ void store(const TensorMap& map) {
    ptx::barrier_sync(1 + row / 64, 128);  // no warp of this warpgroup multiplies Q any more
    const int first_query = query - row;   // in lane 0, which starts the copy
    store_rows<Tile::Br, Tile::kHeadDim>(map, s.q, rdQ, a.scale, row, first_query, head);
  }
};

/// dQ = scale * dS K.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads
///   smem    sizeof(QueryTileMemory<Tile>)
///   HBM     batch * heads * (6 * d * seq_q + 8 * padded_queries) bytes: reads Q and dO, log2_sum and
///           D, writes dQ
///           + batch * heads * 4 * d * C: reads K and V, where C is the sum over query tiles of
///           min(seq_k, ceil(visible_keys(last query) / Bc) * Bc)
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    query_gradients(Backward<typename Tile::T> a, const __grid_constant__ QueryMaps maps) {
  using T = typename Tile::T;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<QueryTileMemory<Tile>*>(smem);
  if (threadIdx.x == 0) {
    declare_members(s);  // for reports of the simulator
    init_ring(s.k_ring, 4 * Tile::kConsumers);
    init_ring(s.v_ring, 4 * Tile::kConsumers);
    ptx::mbarrier_init(&s.q_full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  // Under a causal mask the last query tiles have the most keys, and come first.
  const int tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  const int head = blockIdx.x / tiles, first_query = (tiles - 1 - blockIdx.x % tiles) * Tile::Br;
  const int end_key = a.visible_keys(min(first_query + Tile::Br, a.seq_q) - 1);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      constexpr int kTile = Tile::Bc * Tile::kCols * int(sizeof(T));
      const int kv_head = a.kv_head(head);
      ptx::mbarrier_arrive_expect_tx(&s.q_full, sizeof s.q + sizeof s.d_o);
      load_panels<Tile::Br, Tile::kCols>(s.q, maps.q, s.q_full, first_query, head);
      load_panels<Tile::Br, Tile::kCols>(s.d_o, maps.d_o, s.q_full, first_query, head);
      Place<Tile::kStages> place{};
      for (int key = 0; key < end_key; key += Tile::Bc) {
        place.wait_empty(s.k_ring);
        ptx::mbarrier_arrive_expect_tx(&s.k_ring.full[place.stage], kTile);
        load_panels<Tile::Bc, Tile::kCols>(s.k[place.stage], maps.k, s.k_ring.full[place.stage], key,
                                           kv_head);
        place.wait_empty(s.v_ring);
        ptx::mbarrier_arrive_expect_tx(&s.v_ring.full[place.stage], kTile);
        load_panels<Tile::Bc, Tile::kCols>(s.v[place.stage], maps.v, s.v_ring.full[place.stage], key,
                                           kv_head);
        place.advance();
      }
    }
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    QueryConsumer<Tile> consumer(a, s, head, first_query, warpgroup - 1);
    ptx::mbarrier_wait(&s.q_full, 0);
    for (int key = 0; key < end_key; key += Tile::Bc) {
      consumer.place.wait_full(s.k_ring);
      ptx::wgmma_fence();
      ch09::issue_qk<Tile>(consumer.rS, consumer.q_rows, consumer.in_stage(consumer.first_k));
      ptx::wgmma_commit();
      consumer.place.wait_full(s.v_ring);
      ptx::wgmma_fence();
      ch09::issue_qk<Tile>(consumer.rdP, consumer.do_rows, consumer.in_stage(consumer.first_v));
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(consumer.rS, consumer.rdQ);  // the dQ of the step before, too
      consumer.release_k_before(key);
      consumer.probabilities(key);
      ptx::wgmma_wait<0>(consumer.rdP);
      consumer.place.leave(s.v_ring);
      consumer.score_gradients();
      ptx::wgmma_fence();
      ch09::issue_pv<Tile>(consumer.rdQ, consumer.rdS, consumer.in_stage(consumer.first_k_summed));
      ptx::wgmma_commit();
      consumer.place.advance();
    }
    ptx::wgmma_wait<0>(consumer.rdQ);
    consumer.store(maps.dq);
  }
}

}  // namespace fa::ch10
