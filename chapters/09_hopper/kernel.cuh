/// @file
/// FlashAttention on Hopper: the copy engine, barriers in shared memory, and products of whole warpgroups.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], all __half or
/// __nv_bfloat16, with any strides that are multiples of 16 bytes; LSE is [batch, heads, seq_q], fp32. Any
/// lengths >= 1 and any kv_heads that divides heads. Tensors may have fewer columns than tiles: the rest is
/// zeros, on the chip only. A row that sees no key has O = 0 and LSE = -inf.
///
/// All kernels have
///
///   block   Tile::kThreads: Tile::kConsumers warpgroups for 64 queries each, and from `specialised` on a
///           producer
///   shared  SharedTiles<Tile>
///   HBM     reads Q once, and for each query tile the key tiles that its last query sees; writes O and LSE
///
/// The grid of the first kernels has a block per query tile. From `persistent` on, there are as many blocks
/// as multiprocessors, and they take query tiles from a counter that starts at 0.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "choices.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/attention.cuh"
#include "device/hopper.cuh"
#include "products.cuh"
#include "shared_tiles.cuh"
#include "softmax.cuh"
#include "work.cuh"

namespace fa::ch09 {

// --- wgmma: one warpgroup does everything ------------------------------------------------------------------

/// Thread 0 starts the next tile's copies, and all threads multiply.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    wgmma_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  init_barriers(s);
  const QueryTile tile = query_tile<Tile>(blockIdx.x, a);
  const KeyTiles keys = keys_of_warpgroup<Tile>(tile.first_query, 0, a);
  const int kv_head = a.kv_head(tile.head);
  Producer<Tile> producer{maps, s};
  if (threadIdx.x == 0) {
    producer.load_q(tile);
    for (int n = 0; n < Tile::kStages && n <= keys.last; ++n) {
      producer.load_k((keys.last - n) * Tile::Bc, kv_head);
      producer.load_v((keys.last - n) * Tile::Bc, kv_head);
    }
  }
  Consumer<Tile> consumer(a, s, 0);
  consumer.reset();
  consumer.q.wait_full(s.q_ring);
  for (int j = keys.last; j >= 0; --j) {
    consumer.k.wait_full(s.k_ring);
    ptx::wgmma_fence();
    issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(consumer.rS);
    consumer.k.release(s.k_ring);
    if (j >= keys.first_masked)
      mask<Tile>(consumer.rS, a, tile.first_query + consumer.warp_row, j * Tile::Bc);
    float correction[2];
    if (raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor))
      scale_rows(consumer.rO, correction);
    exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
    pack_p<Tile>(consumer.rP, consumer.rS);
    consumer.v.wait_full(s.v_ring);
    ptx::wgmma_fence();
    issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(consumer.rO);
    consumer.v.release(s.v_ring);
    if (threadIdx.x == 0 &&
        j >= Tile::kStages) {  // as soon as the other warps have released these stages too
      producer.load_k((j - Tile::kStages) * Tile::Bc, kv_head);
      producer.load_v((j - Tile::kStages) * Tile::Bc, kv_head);
    }
  }
  consumer.finish_rows();
  consumer.store(maps, tile);
}

// --- specialised: a producer and consumers -----------------------------------------------------------------

/// One thread copies, as far ahead as there are stages. The consumers multiply, and share K and V.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    specialised_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  init_barriers(s);
  const int warpgroup = warpgroup_index();
  const QueryTile tile = query_tile<Tile>(blockIdx.x, a);
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      Producer<Tile> producer{maps, s};
      producer.load(tile, a);
    }
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    Consumer<Tile> consumer(a, s, warpgroup - 1);
    const KeyTiles keys = keys_of_warpgroup<Tile>(tile.first_query, consumer.index, a);
    consumer.reset();
    consumer.q.wait_full(s.q_ring);
    for (int n = 0; n < keys.hidden; ++n) consumer.skip_tile();
    for (int j = keys.last; j >= 0; --j) {
      consumer.k.wait_full(s.k_ring);
      ptx::wgmma_fence();
      issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rS);
      consumer.k.release(s.k_ring);
      if (j >= keys.first_masked)
        mask<Tile>(consumer.rS, a, tile.first_query + consumer.warp_row, j * Tile::Bc);
      float correction[2];
      if (raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor))
        scale_rows(consumer.rO, correction);
      exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
      pack_p<Tile>(consumer.rP, consumer.rS);
      consumer.v.wait_full(s.v_ring);
      ptx::wgmma_fence();
      issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rO);
      consumer.v.release(s.v_ring);
    }
    consumer.finish_rows();
    consumer.store(maps, tile);
  }
}

// --- persistent: blocks that stay --------------------------------------------------------------------------

/// The first query tile that no block has taken.
__device__ __forceinline__ int take_query_tile(int* counter) { return gridDim.x + atomicAdd(counter, 1); }

/// The producer of all kernels from here on: takes the next query tile that no block has taken, and copies
/// what it needs. It takes a tile as late as possible, before the last copy for the one before: a tile that
/// is taken earlier waits for this block, even if another block is idle.
template <class Tile>
__device__ __forceinline__ void produce(const Attention<typename Tile::T>& a, const TensorMaps& maps,
                                        SharedTiles<Tile>& s, int* counter) {
  Producer<Tile> producer{maps, s};
  const int tiles = query_tiles<Tile>(a);
  for (int n = blockIdx.x; n < tiles;) {
    const QueryTile tile = query_tile<Tile>(n, a);
    producer.load_all_but_last_v(tile, a);
    n = take_query_tile(counter);  // its latency passes while the copy waits for room
    producer.load_last_v(tile, a);
  }
  producer.end();
}

/// The consumers of `persistent`: the loop of `specialised`, for one query tile after the other.
template <class Tile>
__device__ __forceinline__ void consume(Consumer<Tile>& consumer, const TensorMaps& maps) {
  while (true) {
    consumer.q.wait_full(consumer.s.q_ring);
    const QueryTile tile = consumer.s.query_tile[consumer.q.stage];
    if (tile.head < 0) return;
    const KeyTiles keys = keys_of_warpgroup<Tile>(tile.first_query, consumer.index, consumer.a);
    consumer.reset();
    for (int n = 0; n < keys.hidden; ++n) consumer.skip_tile();
    for (int j = keys.last; j >= 0; --j) {
      consumer.k.wait_full(consumer.s.k_ring);
      ptx::wgmma_fence();
      issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rS);
      consumer.k.release(consumer.s.k_ring);
      if (j >= keys.first_masked)
        mask<Tile>(consumer.rS, consumer.a, tile.first_query + consumer.warp_row, j * Tile::Bc);
      float correction[2];
      if (raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor))
        scale_rows(consumer.rO, correction);
      exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
      pack_p<Tile>(consumer.rP, consumer.rS);
      consumer.v.wait_full(consumer.s.v_ring);
      ptx::wgmma_fence();
      issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rO);
      consumer.v.release(consumer.s.v_ring);
    }
    consumer.finish_rows();
    consumer.store(maps, tile);
    consumer.q.release(consumer.s.q_ring);
  }
}

/// `specialised` with one block per multiprocessor, which computes one query tile after the other. The
/// producer copies the next one's keys and values while the consumers finish this one.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    persistent_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps,
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
    consume(consumer, maps);
  }
}

// --- overlapped: the softmax during products of the same warpgroup -----------------------------------------

/// Q K^T of tile j - 1 and P V of tile j are in flight together. As soon as the scores are there, their
/// softmax runs beside P V.
template <bool kMasked, class Tile>
__device__ __forceinline__ void overlapped_step(Consumer<Tile>& consumer, int first_query, int j) {
  // EXERCISE 5: Issue both products, wait for the scores, and turn them into P. Touch O and P only after P V.
  consumer.k.wait_full(consumer.s.k_ring);
  consumer.v.wait_full(consumer.s.v_ring);
  ptx::wgmma_fence();
  issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
  ptx::wgmma_commit();
  issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
  ptx::wgmma_commit();
  ptx::wgmma_wait<1>(consumer.rS);
  consumer.k.release(consumer.s.k_ring);
  if constexpr (kMasked) mask<Tile>(consumer.rS, consumer.a, first_query, (j - 1) * Tile::Bc);
  float correction[2];
  const bool grew = raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor);
  exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
  ptx::wgmma_wait<0>(consumer.rO);
  consumer.v.release(consumer.s.v_ring);
  if (grew) scale_rows(consumer.rO, correction);
  pack_p<Tile>(consumer.rP, consumer.rS);
  // END 5
}

/// `persistent` with overlapped steps. Masked tiles have a loop of their own.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    overlapped_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps,
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
    while (true) {
      consumer.q.wait_full(s.q_ring);
      const QueryTile tile = s.query_tile[consumer.q.stage];
      if (tile.head < 0) break;
      const KeyTiles keys = keys_of_warpgroup<Tile>(tile.first_query, consumer.index, a);
      const int first_query = tile.first_query + consumer.warp_row;
      consumer.reset();
      for (int n = 0; n < keys.hidden; ++n) consumer.skip_tile();

      // The first tile's scores, with nothing beside them.
      int j = keys.last;
      consumer.k.wait_full(s.k_ring);
      ptx::wgmma_fence();
      issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rS);
      consumer.k.release(s.k_ring);
      if (j >= keys.first_masked) mask<Tile>(consumer.rS, a, first_query, j * Tile::Bc);
      float correction[2];
      raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor);
      exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
      pack_p<Tile>(consumer.rP, consumer.rS);

      for (; j > 0 && j > keys.first_masked; --j) overlapped_step<true>(consumer, first_query, j);
      for (; j > 0; --j) overlapped_step<false>(consumer, first_query, j);

      // The last tile's P V.
      consumer.v.wait_full(s.v_ring);
      ptx::wgmma_fence();
      issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(consumer.rO);
      consumer.v.release(s.v_ring);
      consumer.finish_rows();
      consumer.store(maps, tile);
      consumer.q.release(s.q_ring);
    }
  }
}

}  // namespace fa::ch09
