/// @file
/// `cluster`: two blocks with the same queries. Each has half of the columns of O, computes half of P, and gets the other half
/// from the other block: no score is computed twice, and none goes to HBM.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "09_hopper/copies.cuh"
#include "device/attention.cuh"
#include "device/clusters.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"
#include "pair_tiles.cuh"

namespace fa::ch12 {

using ch09::TensorMaps;

// --- which queries and keys ----------------------------------------------------------------------------------

/// The queries of a pair, and the key tiles that they need.
struct PairWork {
  int head;         ///< counts through all batches
  int first_query;
  int tiles;        ///< at least one: rows that see no key get O = 0 from a tile whose keys are all masked
  int first_masked; ///< from this tile on, some row does not see some key
};

/// Query tile n. Under a causal mask, the longest come first, and heads are divided into groups whose K and V fit into 32 MiB
/// of the L2 cache together.
template <class Tile>
__device__ __forceinline__ PairWork work_of_pair(int n, const Attention<typename Tile::T>& a) {
  const int heads = a.batch * a.heads, tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  int head = n / tiles, tile = n % tiles;
  if (a.causal) {
    const size_t bytes = sizeof(typename Tile::T) * size_t(a.seq_k) * (a.head_dim + a.head_dim_v);
    const int cached = int(max(size_t(1), min(size_t(heads), (32 << 20) / bytes)));
    const int first_head = n / (cached * tiles) * cached, here = min(cached, heads - first_head);
    const int in_group = n - first_head * tiles;
    head = first_head + in_group % here;
    tile = tiles - 1 - in_group / here;
  }
  const int first_query = tile * Tile::Br;
  const int seen = a.visible_keys(min(first_query + Tile::Br, a.seq_q) - 1);
  return {head, first_query, max(1, (seen + Tile::Bc - 1) / Tile::Bc), a.visible_keys(first_query) / Tile::Bc};
}

// --- the producer ------------------------------------------------------------------------------------------

/// Where a warp is in the ring of slots, of which there are as many as fit.
struct Slot {
  int number = 0, parity = 0;
  __device__ __forceinline__ void advance(int slots) {
    if (++number == slots) {
      number = 0;
      parity ^= 1;
    }
  }
};

/// One thread copies Q, and of each tile, from the last to the first: the slices of the block's half of K, and those of its
/// columns of V, in the order in which P is there: first that of this block.
template <class Tile>
__device__ __forceinline__ void produce(const Attention<typename Tile::T>& a, const TensorMaps& maps,
                                        const PairBlock<Tile>& s, const PairSizes& sizes, const PairWork& work,
                                        int rank) {
  using T = typename Tile::T;
  const int in_batch = work.head % maps.q.heads, batch = work.head / maps.q.heads;
  ptx::mbarrier_arrive_expect_tx(&s.fixed.q_full, sizes.panels * Tile::Br * 64 * int(sizeof(T)));
  for (int panel = 0; panel < sizes.panels; ++panel)
    ptx::tma_load(s.q + panel * Tile::Br * 64, &maps.q, &s.fixed.q_full, 64 * panel, work.first_query, in_batch,
                  batch);
  const int kv_head = a.kv_head(work.head), kv_in_batch = kv_head % maps.k.heads, kv_batch = kv_head / maps.k.heads;
  Slot at;
  for (int tile = work.tiles - 1; tile >= 0; --tile) {
    for (int panel = 0; panel < sizes.panels; ++panel) {
      ptx::mbarrier_wait(&s.fixed.empty[at.number], at.parity ^ 1);
      std::uint64_t* full = &s.fixed.full[at.number];
      ptx::mbarrier_arrive_expect_tx(full, Tile::kKeySlice * int(sizeof(T)));
      ptx::tma_load(s.slots + at.number * Tile::kSlot, &maps.k, full, 64 * panel,
                    tile * Tile::Bc + rank * Tile::kKeys, kv_in_batch, kv_batch);
      at.advance(sizes.slots);
    }
    for (int key = 0; key < Tile::Bc; key += Tile::kStep) {
      ptx::mbarrier_wait(&s.fixed.empty[at.number], at.parity ^ 1);
      std::uint64_t* full = &s.fixed.full[at.number];
      ptx::mbarrier_arrive_expect_tx(full, Tile::kValueSlice * int(sizeof(T)));
      const int first_key = tile * Tile::Bc + (rank * Tile::kKeys + key) % Tile::Bc;
      for (int col = 0; col < Tile::kBlockCols; col += 64)
        ptx::tma_load(s.slots + at.number * Tile::kSlot + col * Tile::kStep, &maps.v, full,
                      rank * Tile::kBlockCols + col, first_key, kv_in_batch, kv_batch);
      at.advance(sizes.slots);
    }
  }
}

// --- a consumer --------------------------------------------------------------------------------------------

/// Describes where wgmma finds a matrix, as chapter 09 does. In a cluster, bits 24 to 27 of an address are the block's rank,
/// which would be added to the distance of the panels: a descriptor has 18 bits of the address.
__device__ __forceinline__ std::uint64_t descriptor_in_cluster(const void* s, int panel_bytes) {
  return std::uint64_t(ptx::shared_address(s) % (1 << 18) / 16) | std::uint64_t(panel_bytes / 16) << 16 |
         std::uint64_t(8 * 128 / 16) << 32 | std::uint64_t(1) << 62;
}

/// A consumer warpgroup of a block of the pair.
template <class Tile>
struct PairConsumer {
  using T = typename Tile::T;
  static constexpr int kPanelBytes = Tile::kPanel * int(sizeof(T));

  const Attention<T>& a;
  const PairBlock<Tile>& s;
  const PairSizes sizes;
  const int rank, index;      ///< of the block in the pair, and of the warpgroup in the block
  const int first_of_sharers; ///< the first warpgroup with the same queries
  const int warp_row;         ///< the first of this warp's 16 rows in the query tile
  const int first_key;        ///< of this warpgroup in a tile
  const float factor;         ///< turns q.k into an exponent of 2: scale * log2 e
  const std::uint64_t q, k, v, p;  ///< descriptors: of its queries; of its part of slot 0; of P of this block's first sharer

  Slot at;
  int parity = 0;  ///< of P, which is exchanged once for each tile
  int rows_parity = 0;  ///< of reduce_over_sharers()
  float rS[32];    ///< 64 queries, 64 keys
  float rO[Tile::kCols / 2];
  float m[2] = {-FLT_MAX, -FLT_MAX};  ///< times scale * log2 e
  float l[2] = {0.0f, 0.0f};          ///< this lane's share of the sum over this warpgroup's keys

  __device__ __forceinline__ PairConsumer(const Attention<T>& attention, const PairBlock<Tile>& block,
                                          const PairSizes& chosen, int of_block, int consumer)
      : a(attention),
        s(block),
        sizes(chosen),
        rank(of_block),
        index(consumer),
        first_of_sharers(Tile::kSharers == 2 ? 0 : consumer),
        warp_row((Tile::kSharers == 2 ? 0 : 64 * consumer) +
                 __shfl_sync(kAllLanes, int(threadIdx.x) / 32 % 4, 0) * 16),
        first_key(of_block * Tile::kKeys + (Tile::kSharers == 2 ? 64 * consumer : 0)),
        factor(attention.exp2_scale),
        q(descriptor_in_cluster(block.q + 64 * 64 * first_of_sharers, 16)),
        k(descriptor_in_cluster(block.slots + (Tile::kSharers == 2 ? 64 * 64 * consumer : 0), 16)),
        v(descriptor_in_cluster(block.slots + (Tile::kSharers == 2 ? Tile::kStep * Tile::kCols * consumer : 0),
                                Tile::kStep * 128)),
        p(descriptor_in_cluster(block.fixed.p[0][first_of_sharers], 16)) {
#pragma unroll
    for (float& o : rO) o = 0.0f;
  }

  __device__ __forceinline__ void wait_full() const {
    ptx::mbarrier_wait(&s.fixed.full[at.number], at.parity);
  }
  __device__ __forceinline__ void leave(int slot) const {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.fixed.empty[slot]);
  }

  /// S = Q K^T for this warpgroup's keys, summed over slices of 64 columns. A slice is left when the next one's products have
  /// been issued and its own are complete.
  __device__ __forceinline__ void multiply_qk() {
    wait_full();
    ptx::wgmma_fence();
    ptx::wgmma<T, false, false, false>(rS, q, moved(k, at.number * Tile::kSlot * int(sizeof(T))));
#pragma unroll
    for (int step = 1; step < 4; ++step)
      ptx::wgmma<T, true, false, false>(rS, moved(q, step * 32),
                                        moved(k, at.number * Tile::kSlot * int(sizeof(T)) + step * 32));
    ptx::wgmma_commit();
    int before = at.number;
    at.advance(sizes.slots);
    for (int panel = 1; panel < sizes.panels; ++panel) {
      wait_full();
      ptx::wgmma_fence();
      const std::uint64_t rows = moved(q, panel * Tile::Br * 128);
      const std::uint64_t keys = moved(k, at.number * Tile::kSlot * int(sizeof(T)));
#pragma unroll
      for (int step = 0; step < 4; ++step)
        ptx::wgmma<T, true, false, false>(rS, moved(rows, step * 32), moved(keys, step * 32));
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      leave(before);
      before = at.number;
      at.advance(sizes.slots);
    }
    ptx::wgmma_wait<0>(rS);
    leave(before);
  }

  /// Sets the scores of keys that a row does not see to -inf.
  __device__ __forceinline__ void mask(int first_query, int first_key_of_tile) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int seen = a.visible_keys(first_query + warp_row + 8 * row + lane / 4) - first_key_of_tile - first_key -
                       lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        if (8 * n >= seen) rS[4 * n + 2 * row] = -INFINITY;
        if (8 * n + 1 >= seen) rS[4 * n + 2 * row + 1] = -INFINITY;
      }
    }
  }

  /// The number of a warpgroup among those with the same queries: first those of block 0.
  __device__ __forceinline__ int number() const { return rank * Tile::kSharers + index - first_of_sharers; }

  /// Combines a number for each row over all warpgroups with the same queries. Lanes of a row have the same number.
  template <class Op>
  __device__ __forceinline__ void reduce_over_sharers(float (&value)[2], Op op) {
    constexpr int kAll = 2 * Tile::kSharers;
    const int lane = threadIdx.x % 32, row = warp_row % 64 + lane / 4;
    auto& rows = s.fixed.rows[first_of_sharers][rows_parity];
    std::uint64_t* full = &s.fixed.rows_full[first_of_sharers];
    if (index == first_of_sharers && threadIdx.x % 128 == 0)
      ptx::mbarrier_arrive_expect_tx(full, kAll * 64 * int(sizeof(float)));
    if (lane % 4 == 0) {
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        float* there = ptx::mapa(rows[number()] + row, block);
        ptx::st_async(there, value[0], ptx::mapa(full, block));
        ptx::st_async(there + 8, value[1], ptx::mapa(full, block));
      }
    }
    ptx::mbarrier_wait_cluster(full, rows_parity);
    rows_parity ^= 1;
    value[0] = rows[0][row], value[1] = rows[0][row + 8];
#pragma unroll
    for (int other = 1; other < kAll; ++other) {
      value[0] = op(value[0], rows[other][row]);
      value[1] = op(value[1], rows[other][row + 8]);
    }
  }

  /// P = 2^(s - m), in place, with m the maximum that all warpgroups with the same queries agree on. Rescales what was summed
  /// before, if a maximum has grown by more than the threshold in some row of the warp.
  __device__ __forceinline__ void softmax() {
    float top[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      top[row] = rS[2 * row];
#pragma unroll
      for (int n = 0; n < 8; ++n) top[row] = fmaxf(top[row], fmaxf(rS[4 * n + 2 * row], rS[4 * n + 2 * row + 1]));
      top[row] = warp_reduce<4>(top[row], Max());
    }
    reduce_over_sharers(top, Max());
    bool grew = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) grew |= top[row] * factor - m[row] > Tile::kRescaleThreshold;
    if (__any_sync(kAllLanes, grew)) {
      float correction[2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float m_new = fmaxf(m[row], top[row] * factor);
        correction[row] = ptx::exp2_approx(m[row] - m_new);
        m[row] = m_new;
        l[row] *= correction[row];
      }
#pragma unroll
      for (int i = 0; i < Tile::kCols / 2; ++i) rO[i] *= correction[i / 2 % 2];
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int row = i / 2 % 2;
      rS[i] = ptx::exp2_approx(rS[i] * factor - m[row]);
      l[row] += rS[i];
    }
  }

  /// Stores P, rounded to 16 bits, for the sharers of this block, and sends a copy to the other block.
  __device__ __forceinline__ void share_p() {
    const int lane = threadIdx.x % 32;
    ptx::mbarrier_wait_cluster(&s.fixed.p_free[index], parity ^ 1);
    T* sP = s.fixed.p[rank][index];
    const int row = warp_row % 64 + lane / 4;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int chunk = n ^ lane / 4;  // swizzled by the row, modulo 8
        *reinterpret_cast<std::uint32_t*>(sP + (row + 8 * half) * 64 + 8 * chunk + lane % 4 * 2) =
            pack<T>(rS[4 * n + 2 * half], rS[4 * n + 2 * half + 1]);
      }
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(1 + first_of_sharers, 128 * Tile::kSharers);  // P of all sharers of this block is complete
    if (threadIdx.x % 128 == 0) {
      ptx::mbarrier_arrive_expect_tx(&s.fixed.p_full[index], kPanelBytes);
      ptx::bulk_copy_cluster(ptx::mapa(sP, 1 - rank), sP, kPanelBytes, ptx::mapa(&s.fixed.p_full[index], 1 - rank));
    }
  }

  /// O += P V for this warpgroup's columns: first with this block's P, then with that of the other block.
  __device__ __forceinline__ void multiply_pv() {
    int before = at.number;
#pragma unroll
    for (int part = 0; part < 2 * Tile::kSharers; ++part) {
      const int of_block = part < Tile::kSharers ? rank : 1 - rank, sharer = part % Tile::kSharers;
      if (part >= Tile::kSharers)
        ptx::mbarrier_wait_cluster(&s.fixed.p_full[first_of_sharers + sharer], parity);
      const std::uint64_t scores = moved(p, (of_block * Tile::kConsumers + sharer) * kPanelBytes);
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wait_full();
        ptx::wgmma_fence();
        ptx::wgmma<T, true, false, true>(rO, moved(scores, step * 32),
                                         moved(v, at.number * Tile::kSlot * int(sizeof(T))));
        ptx::wgmma_commit();
        if (part > 0 || step > 0) {
          ptx::wgmma_wait<1>();
          leave(before);
        }
        before = at.number;
        at.advance(sizes.slots);
      }
    }
    ptx::wgmma_wait<0>(rO);
    leave(before);
    if (threadIdx.x % 32 == 0) {  // this warp needs no P any more
#pragma unroll
      for (int block = 0; block < 2; ++block) {
#pragma unroll
        for (int sharer = 0; sharer < Tile::kSharers; ++sharer) {
          ptx::mbarrier_arrive_cluster(ptx::mapa(&s.fixed.p_free[first_of_sharers + sharer], block));
        }
      }
    }
    parity ^= 1;
  }

  /// Divides O by its rows' sums and stores it, with LSE: in 16 bits to where Q was, then to HBM by TMA.
  __device__ __forceinline__ void store(const TensorMaps& maps, const PairWork& work) {
    const int lane = threadIdx.x % 32, first_query = work.first_query + warp_row;
    float sum[2], inv_l[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) sum[row] = warp_reduce<4>(l[row], Sum());
    reduce_over_sharers(sum, Sum());  // and now nobody multiplies Q any more
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = first_query + 8 * row + lane / 4;
      inv_l[row] = sum[row] == 0.0f ? 0.0f : __fdividef(1.0f, sum[row]);
      const float lse = sum[row] == 0.0f ? -INFINITY : (m[row] + __log2f(sum[row])) * kLn2;
      if (number() == 0 && lane % 4 == 0 && query < a.seq_q)
        a.lse[size_t(work.head) * a.seq_q + query] = lse;
    }
    const int first_panel = (index - first_of_sharers) * (Tile::kCols / 64);
    T* sO = s.q + first_panel * Tile::Br * 64 + warp_row * 64;
#pragma unroll
    for (int n = 0; n < Tile::kCols / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int panel = n / 8 * Tile::Br * 64, chunk = n % 8 ^ lane / 4;
        *reinterpret_cast<std::uint32_t*>(sO + panel + (8 * half + lane / 4) * 64 + 8 * chunk + lane % 4 * 2) =
            pack<T>(rO[4 * n + 2 * half] * inv_l[half], rO[4 * n + 2 * half + 1] * inv_l[half]);
      }
    }
    ptx::fence_proxy_async();
    __syncwarp();
    if (lane == 0 && first_query < a.seq_q) {
      const int first_col = rank * Tile::kBlockCols + 64 * first_panel;
      for (int col = 0; col < Tile::kCols && first_col + col < a.head_dim_v; col += 64)
        ptx::tma_store(&maps.o, sO + col * Tile::Br, first_col + col, first_query, work.head % maps.o.heads,
                       work.head / maps.o.heads);
      ptx::bulk_commit();
      ptx::bulk_wait_read<0>();
    }
  }
};

/// Initialises all barriers of the block. Every thread of the cluster calls it, once.
template <class Tile>
__device__ __forceinline__ void init_barriers(PairMemory<Tile>& s, int slots) {
  if (threadIdx.x == 0) {
    declare_members(s);
    for (int slot = 0; slot < slots; ++slot) {
      ptx::mbarrier_init(&s.full[slot], 1);
      ptx::mbarrier_init(&s.empty[slot], 4 * Tile::kConsumers);
    }
    ptx::mbarrier_init(&s.q_full, 1);
    for (std::uint64_t& full : s.rows_full) ptx::mbarrier_init(&full, 1);
    for (int consumer = 0; consumer < Tile::kConsumers; ++consumer) {
      ptx::mbarrier_init(&s.p_full[consumer], 1);
      ptx::mbarrier_init(&s.p_free[consumer], 4 * 2 * Tile::kSharers);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

/// FlashAttention by pairs of blocks.
///
///   grid    2 * batch * heads * ceil(seq_q / Br), in clusters of two
///   block   Tile::kThreads: a producer warpgroup and two consumers
///   smem    shared_bytes<Tile>(sizes)
///   HBM     Q twice; for each query tile, K and V of the tiles that its last query sees, once; writes O and LSE
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    pair_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps, PairSizes sizes) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const PairBlock<Tile> s(smem, sizes);
  init_barriers(s.fixed, sizes.slots);
  const int warpgroup = warpgroup_index(), rank = ptx::cluster_ctarank();
  const PairWork work = work_of_pair<Tile>(blockIdx.x / 2, a);
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) produce<Tile>(a, maps, s, sizes, work, rank);
    __syncwarp();
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    PairConsumer<Tile> w(a, s, sizes, rank, warpgroup - 1);
    ptx::mbarrier_wait(&s.fixed.q_full, 0);
    for (int tile = work.tiles - 1; tile >= 0; --tile) {
      w.multiply_qk();
      if (tile >= work.first_masked) w.mask(work.first_query, tile * Tile::Bc);
      w.softmax();
      w.share_p();
      w.multiply_pv();
    }
    w.store(maps, work);
  }
  // Nobody ends while the other block may still write here.
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

}  // namespace fa::ch12
