/// @file
/// Query tiles whose O is divided among warpgroups, and in `cluster` among two blocks. Each computes its
/// share of P and receives the others' shares, so no score is computed twice, and none goes to HBM.
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
#include "device/unresolved_rows.cuh"
#include "pair_tiles.cuh"
#include "pair_work.cuh"

namespace fa::ch12 {

using ch09::TensorMaps;

// --- the producer ------------------------------------------------------------------------------------------

/// One thread that copies slices as soon as there is room for them. Its loops are not unrolled: it has few
/// registers.
template <class Tile>
struct PairProducer {
  using T = typename Tile::T;
  const TensorMaps& maps;
  const PairBlock<Tile>& s;
  const PairSizes sizes;
  const int rank;                   ///< of the block in its cluster
  int first_col;                    ///< of its columns of V
  const int kv_in_batch, kv_batch;  ///< the head of K and V
  Slot at;

  __device__ __forceinline__ PairProducer(const Attention<T>& a, const TensorMaps& tensors,
                                          const PairBlock<Tile>& block, const PairSizes& chosen, int head,
                                          int part, int of_block)
      : maps(tensors),
        s(block),
        sizes(chosen),
        rank(of_block),
        first_col(part * Tile::kPartCols + of_block * Tile::kBlockCols),
        kv_in_batch(a.kv_head(head) % tensors.k.heads),
        kv_batch(a.kv_head(head) / tensors.k.heads) {}

  __device__ __forceinline__ void load_q(const PairWork& work) {
    ptx::mbarrier_arrive_expect_tx(&s.fixed.q_full, sizes.panels * Tile::Br * 64 * int(sizeof(T)));
    for (int panel = 0; panel < sizes.panels; ++panel)
      ptx::tma_load(s.q + panel * Tile::Br * 64, &maps.q, &s.fixed.q_full, 64 * panel, work.first_query,
                    work.head % maps.q.heads, work.head / maps.q.heads);
  }
  /// The next slot, when it is empty and expects these elements.
  __device__ __forceinline__ int next_slot(int elements) {
    ptx::mbarrier_wait(&s.fixed.empty[at.number], at.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.fixed.full[at.number], elements * int(sizeof(T)));
    const int slot = at.number;
    at.advance(sizes.slots);
    return slot;
  }
  /// The block's keys of a tile, 64 columns at a time.
  __device__ __forceinline__ void load_k(int tile) {
#pragma unroll 1
    for (int panel = 0; panel < sizes.panels; ++panel) {
      const int slot = next_slot(Tile::kKeySlice);
      ptx::tma_load(s.slots + slot * Tile::kSlot, &maps.k, &s.fixed.full[slot], 64 * panel,
                    tile * Tile::Bc + rank * Tile::kKeys, kv_in_batch, kv_batch);
    }
  }
  /// The block's columns of V, 16 keys at a time, in the order in which add_pv() takes P: that of this block
  /// comes first.
  __device__ __forceinline__ void load_v(int tile) {
#pragma unroll 1
    for (int key = 0; key < Tile::Bc; key += Tile::kStep) {
      const int slot = next_slot(Tile::kValueSlice);
      // EXERCISE 1: Which row of V comes first in this slice? A block starts with the keys whose P it has computed itself.
      const int row = tile * Tile::Bc + (rank * Tile::kKeys + key) % Tile::Bc;
      // END 1
#pragma unroll 1
      for (int col = 0; col < Tile::kBlockCols; col += 64)
        ptx::tma_load(s.slots + slot * Tile::kSlot + col * Tile::kStep, &maps.v, &s.fixed.full[slot],
                      first_col + col, row, kv_in_batch, kv_batch);
    }
  }
};

// --- a consumer --------------------------------------------------------------------------------------------

/// A consumer warpgroup.
template <class Tile>
struct PairConsumer : Sharer<Tile, PairMemory<Tile>> {
  using T = typename Tile::T;
  using Base = Sharer<Tile, PairMemory<Tile>>;
  using Base::rank, Base::index, Base::first_of_sharers, Base::warp_row, Base::at, Base::parity, Base::slots;
  static constexpr int kPanelBytes = Tile::kPanel * int(sizeof(T));

  const Attention<T>& a;
  const PairBlock<Tile>& s;
  const int panels;
  const int first_key;  ///< of this warpgroup in a tile
  const float factor;   ///< turns q.k into an exponent of 2: scale * log2 e
  const std::uint64_t q, k, v,
      p;  ///< descriptors: of its queries; of its part of slot 0; of P of this block's first sharer

  float rS[32];  ///< 64 queries, 64 keys
  float rO[Tile::kCols / 2];
  float m[2] = {-FLT_MAX, -FLT_MAX};  ///< times scale * log2 e
  float l[2] = {0.0f, 0.0f};          ///< this lane's share of the sum over this warpgroup's keys

  __device__ __forceinline__ PairConsumer(const Attention<T>& attention, const PairBlock<Tile>& block,
                                          const PairSizes& sizes, int of_block, int consumer)
      : Base(block.fixed, sizes, of_block, consumer),
        a(attention),
        s(block),
        panels(sizes.panels),
        first_key(of_block * Tile::kKeys + (Tile::kSharers == 2 ? 64 * consumer : 0)),
        factor(attention.exp2_scale),
        q(descriptor_in_cluster(block.q + 64 * 64 * first_of_sharers, 16)),
        k(descriptor_in_cluster(block.slots + (Tile::kSharers == 2 ? 64 * 64 * consumer : 0), 16)),
        v(descriptor_in_cluster(
            block.slots + (Tile::kSharers == 2 ? Tile::kStep * Tile::kCols * consumer : 0),
            Tile::kStep * 128)),
        p(descriptor_in_cluster(block.fixed.p[0][first_of_sharers], 16)) {
#pragma unroll
    for (float& o : rO) o = 0.0f;
  }

  /// S = Q K^T for this warpgroup's keys, summed over slices of 64 columns.
  __device__ __forceinline__ void multiply_qk() {
    int slot = this->next_slot();
    ptx::wgmma_fence();
    issue_slice<false>(rS, q, slot);
    // EXERCISE 2: Add the other slices. The tensor cores must not run dry, and the producer must get each slot back as early as possible.
    for (int panel = 1; panel < panels; ++panel) {
      const int before = slot;
      slot = this->next_slot();
      ptx::wgmma_fence();
      issue_slice<true>(rS, moved(q, panel * Tile::Br * 128), slot);
      ptx::wgmma_wait<1>();
      this->leave(before);
    }
    // END 2
    ptx::wgmma_wait<0>(rS);
    this->leave(slot);
  }
  template <bool kAdd>
  __device__ __forceinline__ void issue_slice(float (&r)[32], std::uint64_t rows, int slot) {
    const std::uint64_t keys = moved(k, slot * Tile::kSlot * int(sizeof(T)));
    ptx::wgmma<T, kAdd, false, false>(r, rows, keys);
#pragma unroll
    for (int step = 1; step < 4; ++step)  // 16 columns are 32 bytes
      ptx::wgmma<T, true, false, false>(r, moved(rows, step * 32), moved(keys, step * 32));
    ptx::wgmma_commit();
  }

  /// Sets the scores of keys that a row does not see to -inf.
  __device__ __forceinline__ void mask(int first_query, int first_key_of_tile) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int seen = a.visible_keys(first_query + warp_row + 8 * row + lane / 4) - first_key_of_tile -
                       first_key - lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        if (8 * n >= seen) rS[4 * n + 2 * row] = -INFINITY;
        if (8 * n + 1 >= seen) rS[4 * n + 2 * row + 1] = -INFINITY;
      }
    }
  }

  /// P = 2^(s - m), in place. m is the maximum over all warpgroups with the same queries. Rescales what was
  /// summed before, if a maximum has grown by more than the threshold in some row of the warp.
  __device__ __forceinline__ void softmax() {
    float top[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      top[row] = rS[2 * row];
#pragma unroll
      for (int n = 0; n < 8; ++n)
        top[row] = fmaxf(top[row], fmaxf(rS[4 * n + 2 * row], rS[4 * n + 2 * row + 1]));
      top[row] = warp_reduce<4>(top[row], Max());
    }
    this->reduce_over_sharers(top, Max());
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
      rS[i] = ptx::exp2_approx(fmaf(rS[i], factor, -m[row]));
      l[row] += rS[i];
    }
  }

  /// Stores P, rounded to 16 bits, for the sharers of this block, and sends a copy to the other block, if
  /// there is one.
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
    // EXERCISE 3: Let the sharers of this block multiply P, once all of it is there. Send this warpgroup's panel to the other block.
    ptx::fence_proxy_async();
    ptx::barrier_sync(1 + first_of_sharers, 128 * Tile::kSharers);
    if (Tile::kBlocks == 2 && threadIdx.x % 128 == 0) {
      ptx::mbarrier_arrive_expect_tx(&s.fixed.p_full[index], kPanelBytes);
      ptx::bulk_copy_cluster(ptx::mapa(sP, 1 - rank), sP, kPanelBytes,
                             ptx::mapa(&s.fixed.p_full[index], 1 - rank));
    }
    // END 3
  }

  /// O += P V, and then releases P.
  __device__ __forceinline__ void multiply_pv() {
    add_pv();
    this->leave_p();
  }
  /// O += P V for this warpgroup's columns: first with this block's P, then with that of the other block.
  __device__ __forceinline__ void add_pv() {
    int slot = 0;
#pragma unroll
    for (int share = 0; share < Tile::kBlocks * Tile::kSharers; ++share) {
      const int of_block = share < Tile::kSharers ? rank : 1 - rank, sharer = share % Tile::kSharers;
      if (share >= Tile::kSharers)
        ptx::mbarrier_wait_cluster(&s.fixed.p_full[first_of_sharers + sharer], parity);
      const std::uint64_t scores = moved(p, (of_block * Tile::kConsumers + sharer) * kPanelBytes);
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const int before = slot;
        slot = this->next_slot();
        ptx::wgmma_fence();
        ptx::wgmma<T, true, false, true>(rO, moved(scores, step * 32),
                                         moved(v, slot * Tile::kSlot * int(sizeof(T))));
        ptx::wgmma_commit();
        if (share > 0 || step > 0) {
          ptx::wgmma_wait<1>();
          this->leave(before);
        }
      }
    }
    ptx::wgmma_wait<0>(rO);
    this->leave(slot);
  }

  /// Divides O by its rows' sums and stores it, with LSE: in 16 bits to where Q was, then to HBM by TMA.
  __device__ __forceinline__ void store(const TensorMaps& maps, const PairWork& work, int part) {
    const int lane = threadIdx.x % 32, first_query = work.first_query + warp_row;
    float sum[2], inv_l[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) sum[row] = warp_reduce<4>(l[row], Sum());
    this->reduce_over_sharers(sum, Sum());  // after this, no warpgroup multiplies Q
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = first_query + 8 * row + lane / 4;
      inv_l[row] = sum[row] == 0.0f ? 0.0f : __fdividef(1.0f, sum[row]);
      const float lse = sum[row] == 0.0f ? -INFINITY : (m[row] + __log2f(sum[row])) * kLn2;
      if (part == 0 && this->number() == 0 && lane % 4 == 0 && query < a.seq_q)
        a.lse[size_t(work.head) * a.seq_q + query] = lse;
    }
    const int first_panel = (index - first_of_sharers) * (Tile::kCols / 64);
    T* sO = s.q + first_panel * Tile::Br * 64 + warp_row * 64;
#pragma unroll
    for (int n = 0; n < Tile::kCols / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int panel = n / 8 * Tile::Br * 64, chunk = n % 8 ^ lane / 4;
        *reinterpret_cast<std::uint32_t*>(sO + panel + (8 * half + lane / 4) * 64 + 8 * chunk +
                                          lane % 4 * 2) =
            pack<T>(rO[4 * n + 2 * half] * inv_l[half], rO[4 * n + 2 * half + 1] * inv_l[half]);
      }
    }
    const int first_col = part * Tile::kPartCols + rank * Tile::kBlockCols + 64 * first_panel;
    repair_rows(
        m, a, work.head, first_query, PlainPairs{a}, first_col, min(first_col + Tile::kCols, a.head_dim_v),
        [&](int row, int col, float o) {
          const int of_part = col - first_col;
          sO[of_part / 64 * Tile::Br * 64 + row * 64 + ((of_part / 8 % 8) ^ (row % 8)) * 8 + of_part % 8] =
              T(o);
        },
        part == 0 && this->number() == 0);
    ptx::fence_proxy_async();
    __syncwarp();
    if (lane == 0 && first_query < a.seq_q) {
      for (int col = 0; col < Tile::kCols && first_col + col < a.head_dim_v; col += 64)
        ptx::tma_store(&maps.o, sO + col * Tile::Br, first_col + col, first_query, work.head % maps.o.heads,
                       work.head / maps.o.heads);
      ptx::bulk_commit();
      ptx::bulk_wait_read<0>();
    }
  }
};

/// FlashAttention for rows that do not fit into the registers of a warpgroup.
///
///   grid    kBlocks * parts * batch * heads * ceil(seq_q / Br), in clusters of kBlocks
///   block   Tile::kThreads: a producer warpgroup and the consumers
///   smem    shared_bytes<Tile>(sizes)
///   HBM     Q kBlocks * parts times; for each query tile, of the key tiles that its last query sees, K
///           `parts` times and V once; writes O and LSE
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    pair_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps, PairSizes sizes) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const PairBlock<Tile> s(smem, sizes);
  if (threadIdx.x == 0) ptx::mbarrier_init(&s.fixed.q_full, 1);
  init_barriers<Tile>(s.fixed, sizes.slots);
  const int warpgroup = warpgroup_index(), rank = ptx::cluster_ctarank();
  const int cluster = blockIdx.x / Tile::kBlocks, part = cluster % sizes.parts;
  const PairWork work = work_of_pair<Tile>(cluster / sizes.parts, a);
  if (warpgroup == 0) {
    if constexpr (Tile::kConsumers > 1) ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      PairProducer<Tile> producer(a, maps, s, sizes, work.head, part, rank);
      producer.load_q(work);
      for (int tile = work.tiles - 1; tile >= 0; --tile) {
        producer.load_k(tile);
        producer.load_v(tile);
      }
    }
    __syncwarp();
  } else {
    if constexpr (Tile::kConsumers > 1) ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    PairConsumer<Tile> w(a, s, sizes, rank, warpgroup - 1);
    ptx::mbarrier_wait(&s.fixed.q_full, 0);
    for (int tile = work.tiles - 1; tile >= 0; --tile) {
      w.multiply_qk();
      if (tile >= work.first_masked) w.mask(work.first_query, tile * Tile::Bc);
      w.softmax();
      w.share_p();
      w.multiply_pv();
    }
    w.store(maps, work, part);
  }
  // No block ends while another one may still write to it.
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

}  // namespace fa::ch12
