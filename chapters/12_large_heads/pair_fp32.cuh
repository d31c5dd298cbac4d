/// @file
/// Pairs of blocks for fp32: `cluster` with three products of fp16 for each product of fp32. See split.cuh.
///
/// Two things are different. A row of Q takes twice as many bytes, and its slices come from the L2 cache
/// again for each key tile. And tensor cores round sums towards zero: what they add up in a row of steps is
/// kept short, and added to S and O by ordinary instructions, which round to nearest.
#pragma once

#include <cuda_fp16.h>
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
#include "pair_work.cuh"
#include "split.cuh"

namespace fa::ch12 {

/// A pair has 64 queries. As in PairTiles<T, 1, kOutputCols>, each of the four consumer warpgroups has 64 of
/// a tile's 256 keys and a quarter of O's columns.
template <int kOutputCols>
struct SplitTiles : PairTiles<__half, 1, kOutputCols> {
  using Base = PairTiles<__half, 1, kOutputCols>;
  static constexpr int kChunk = kOutputCols < 128 ? kOutputCols : 128;  ///< columns of O multiplied at a time
  static constexpr int kChunks = kOutputCols / kChunk;
  static constexpr int kStep = 32;                        ///< keys of a slice of V
  static constexpr int kValueSlice = 2 * kChunk * kStep;  ///< elements: for both warpgroups
  static constexpr int kSlot = 2 * Base::kPanel;          ///< 64 columns of 128 keys, or of 64 queries twice
  static constexpr int kPanelsOfSum = 2;  ///< 128 columns of Q and K are summed by tensor cores
  static constexpr int kBitsOfP = 4;      ///< P is at most 2^4 when a maximum has been raised
};

/// The fixed part of shared memory. After it come the slots.
template <class Tile>
struct __align__(1024) SplitMemory {
  __half p[2][Tile::kConsumers][2][Tile::kPanel];  ///< by block, warpgroup, and half
  float rows[1][2][2 * Tile::kSharers][64];
  float key_factors[Tile::kKeys];  ///< of the block's keys in the tile
  float value_exponents[Tile::kKeys];
  std::uint64_t full[Tile::kMostSlots], empty[Tile::kMostSlots];
  std::uint64_t rows_full[1];
  std::uint64_t p_full[Tile::kConsumers], p_free[Tile::kConsumers];
  std::uint64_t exponents_full, exponents_empty;
};

/// What split_rows() has made, and how it lies in memory: [2 * batch, heads, rows, cols].
struct SplitMaps {
  ch09::TensorMap q, k, v;
  int batch;
};
struct SplitExponents {
  const float* q;      ///< [batch, heads, seq_q]
  const float *k, *v;  ///< [batch, kv_heads, padded_keys]: factors of K, logarithms of those of V
  int padded_keys;
};

template <class Tile>
constexpr PairSizes split_sizes(int head_dim, std::size_t shared_bytes_of_device) {
  const std::size_t slots =
      (shared_bytes_of_device - sizeof(SplitMemory<Tile>)) / (sizeof(__half) * Tile::kSlot);
  return {.panels = (head_dim + 63) / 64,
          .slots = int(slots < Tile::kMostSlots ? slots : Tile::kMostSlots),
          .parts = 1};
}
template <class Tile>
constexpr std::size_t split_shared_bytes(const PairSizes& sizes) {
  return sizeof(SplitMemory<Tile>) + sizeof(__half) * std::size_t(sizes.slots) * Tile::kSlot;
}

/// The producer: for each tile the exponents of the block's keys; 64 columns of Q and K at a time; then V,
/// kChunk columns of each warpgroup and 32 keys at a time, first those keys whose P this block computes.
template <class Tile>
__device__ __forceinline__ void produce_split(const Attention<float>& a, const SplitMaps& maps,
                                              const SplitExponents& exponents, SplitMemory<Tile>& s,
                                              __half* slots, const PairSizes& sizes, const PairWork& work,
                                              int rank) {
  const int in_batch = work.head % maps.q.heads, batch = work.head / maps.q.heads;
  const int kv_head = a.kv_head(work.head), kv_in_batch = kv_head % maps.k.heads,
            kv_batch = kv_head / maps.k.heads;
  Slot at;
  const auto next_slot = [&](int bytes) {
    ptx::mbarrier_wait(&s.empty[at.number], at.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.full[at.number], bytes);
    const int number = at.number;
    at.advance(sizes.slots);
    return number;
  };
  int parity = 0;
  for (int tile = work.tiles - 1; tile >= 0; --tile) {
    const int first_key = tile * Tile::Bc + rank * Tile::kKeys;
    ptx::mbarrier_wait(&s.exponents_empty, parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.exponents_full, int(sizeof s.key_factors + sizeof s.value_exponents));
    const size_t exponent = size_t(kv_head) * exponents.padded_keys + first_key;
    ptx::bulk_load(s.key_factors, exponents.k + exponent, sizeof s.key_factors, &s.exponents_full);
    ptx::bulk_load(s.value_exponents, exponents.v + exponent, sizeof s.value_exponents, &s.exponents_full);
    parity ^= 1;
#pragma unroll 1
    for (int panel = 0; panel < sizes.panels; ++panel) {
      const int q = next_slot(2 * Tile::kPanel * int(sizeof(__half)));
      for (int half = 0; half < 2; ++half)
        ptx::tma_load(slots + q * Tile::kSlot + half * Tile::kPanel, &maps.q, &s.full[q], 64 * panel,
                      work.first_query, in_batch, batch + half * maps.batch);
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        const int k = next_slot(Tile::kKeySlice * int(sizeof(__half)));
        ptx::tma_load(slots + k * Tile::kSlot, &maps.k, &s.full[k], 64 * panel, first_key, kv_in_batch,
                      kv_batch + half * maps.batch);
      }
    }
#pragma unroll 1
    for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
#pragma unroll 1
      for (int key = 0; key < Tile::Bc; key += Tile::kStep) {
        const int row = tile * Tile::Bc + (rank * Tile::kKeys + key) % Tile::Bc;
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
          const int v = next_slot(Tile::kValueSlice * int(sizeof(__half)));
#pragma unroll 1
          for (int part = 0; part < 2 * Tile::kChunk; part += 64) {
            const int col = rank * Tile::kBlockCols + part / Tile::kChunk * Tile::kCols +
                            chunk * Tile::kChunk + part % Tile::kChunk;
            ptx::tma_load(slots + v * Tile::kSlot + part * Tile::kStep, &maps.v, &s.full[v], col, row,
                          kv_in_batch, kv_batch + half * maps.batch);
          }
        }
      }
    }
  }
}

/// A consumer warpgroup.
template <class Tile>
struct SplitConsumer : Sharer<Tile, SplitMemory<Tile>> {
  using T = __half;
  using Base = Sharer<Tile, SplitMemory<Tile>>;
  using Base::rank, Base::index, Base::warp_row, Base::parity;
  static constexpr int kSlotBytes = Tile::kSlot * int(sizeof(T)), kPanelBytes = Tile::kPanel * int(sizeof(T));

  const Attention<float>& a;
  SplitMemory<Tile>& s;
  const int first_key;  ///< of this warpgroup in a tile
  const std::uint64_t q, k, v,
      p;  ///< descriptors: of slot 0 as Q, and of this warpgroup's part of it as K and V; of P of block 0
  float factor[2];  ///< of each row, turns sums of products of Q into exponents of 2
  int exponents_parity = 0;

  float rS[32];    ///< 64 queries, 64 keys
  float rSum[32];  ///< of a few slices
  float rO[Tile::kChunks][Tile::kChunk / 2];
  float m[2] = {-FLT_MAX, -FLT_MAX};  ///< P = 2^(s - m); s includes the exponent of the key's row of V
  float l[2] = {0.0f, 0.0f};

  __device__ __forceinline__ SplitConsumer(const Attention<float>& attention, SplitMemory<Tile>& memory,
                                           __half* slot_0, const PairSizes& sizes, int of_block, int consumer)
      : Base(memory, sizes, of_block, consumer),
        a(attention),
        s(memory),
        first_key(of_block * Tile::kKeys + 64 * consumer),
        q(descriptor_in_cluster(slot_0, 16)),
        k(descriptor_in_cluster(slot_0 + 64 * 64 * consumer, 16)),
        v(descriptor_in_cluster(slot_0 + Tile::kStep * Tile::kChunk * consumer, Tile::kStep * 128)),
        p(descriptor_in_cluster(memory.p, 16)) {
#pragma unroll
    for (auto& chunk : rO) {
#pragma unroll
      for (float& o : chunk) o = 0.0f;
    }
  }

  /// Issues the products of 64 columns: with the high halves of K, and then with the low ones. As soon as the
  /// first are issued, those of the columns before are waited for; as soon as the others are, the first ones:
  /// few slots are held.
  /// @tparam kAdd  to rSum
  /// @param[in,out] held  the slots of products that may be in flight
  template <bool kAdd>
  __device__ __forceinline__ void multiply_panel(int (&held)[2]) {
    const int q_slot = this->next_slot(), high_slot = this->next_slot();
    ptx::wgmma_fence();
    const std::uint64_t rows = moved(q, q_slot * kSlotBytes), high = moved(k, high_slot * kSlotBytes);
    ptx::wgmma<T, kAdd, false, false>(rSum, rows, high);
#pragma unroll
    for (int step = 1; step < 4; ++step)
      ptx::wgmma<T, true, false, false>(rSum, moved(rows, step * 32), moved(high, step * 32));
#pragma unroll
    for (int step = 0; step < 4; ++step)
      ptx::wgmma<T, true, false, false>(rSum, moved(rows, kPanelBytes + step * 32), moved(high, step * 32));
    ptx::wgmma_commit();
    if constexpr (kAdd) {
      ptx::wgmma_wait<1>();
      leave_all(held);
    }
    const int low_slot = this->next_slot();
    const std::uint64_t low = moved(k, low_slot * kSlotBytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step)
      ptx::wgmma<T, true, false, false>(rSum, moved(rows, step * 32), moved(low, step * 32));
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    this->leave(high_slot);
    held[0] = q_slot, held[1] = low_slot;
  }
  template <int kCount>
  __device__ __forceinline__ void leave_all(const int (&held)[kCount]) {
#pragma unroll
    for (const int slot : held) this->leave(slot);
  }

  __device__ __forceinline__ int panels() const { return (a.head_dim + 63) / 64; }

  /// S = Q K^T for this warpgroup's keys.
  __device__ __forceinline__ void multiply_qk() {
#pragma unroll
    for (float& x : rS) x = 0.0f;
    for (int first = 0; first < panels(); first += Tile::kPanelsOfSum) {
      int held[2];
      multiply_panel<false>(held);
      for (int panel = first + 1; panel < min(first + Tile::kPanelsOfSum, panels()); ++panel)
        multiply_panel<true>(held);
      ptx::wgmma_wait<0>(rSum);
      leave_all(held);
#pragma unroll
      for (int i = 0; i < 32; ++i) rS[i] += rSum[i];
    }
  }

  /// Turns sums of products into scores, as exponents of 2, with the exponent of the key's row of V added;
  /// -inf for keys that a row does not see.
  /// @param[out] weights  what P must be multiplied by for the sum l: 2^-e of each key's row of V
  __device__ __forceinline__ void scale_and_mask(float2 (&weights)[8], int first_query,
                                                 int first_key_of_tile) {
    const int lane = threadIdx.x % 32;
    ptx::mbarrier_wait(&s.exponents_full, exponents_parity);
    exponents_parity ^= 1;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int key = 64 * index + 8 * n + lane % 4 * 2;
      const float2 of_k = *reinterpret_cast<const float2*>(s.key_factors + key);
      const float2 of_v = *reinterpret_cast<const float2*>(s.value_exponents + key);
      weights[n] = {ptx::exp2_approx(-of_v.x), ptx::exp2_approx(-of_v.y)};
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int i = 4 * n + 2 * row;
        rS[i] = rS[i] * of_k.x * factor[row] + of_v.x;
        rS[i + 1] = rS[i + 1] * of_k.y * factor[row] + of_v.y;
      }
    }
    __syncwarp();  // every lane has read them
    if (lane == 0) ptx::mbarrier_arrive(&s.exponents_empty);
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

  __device__ __forceinline__ void softmax(const float2 (&weights)[8]) {
    float top[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      top[row] = rS[2 * row];
#pragma unroll
      for (int n = 0; n < 8; ++n)
        top[row] = fmaxf(top[row], fmaxf(rS[4 * n + 2 * row], rS[4 * n + 2 * row + 1]));
      top[row] =
          __fsub_ru(warp_reduce<4>(top[row], Max()), Tile::kBitsOfP);  // rounded down, P might exceed fp16
    }
    this->reduce_over_sharers(top, Max());
    bool grew = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) grew |= top[row] - m[row] > Tile::kRescaleThreshold;
    if (__any_sync(kAllLanes, grew)) {
      float correction[2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float m_new = fmaxf(m[row], top[row]);
        correction[row] = ptx::exp2_approx(m[row] - m_new);
        m[row] = m_new;
        l[row] *= correction[row];
      }
#pragma unroll
      for (auto& chunk : rO) {
#pragma unroll
        for (int i = 0; i < Tile::kChunk / 2; ++i) chunk[i] *= correction[i / 2 % 2];
      }
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int row = i / 2 % 2;
      rS[i] = ptx::exp2_approx(rS[i] - m[row]);
      l[row] += rS[i] * (i % 2 == 0 ? weights[i / 4].x : weights[i / 4].y);
    }
  }

  /// Stores both halves of P for the other warpgroup, and sends a copy to the other block.
  __device__ __forceinline__ void share_p() {
    const int lane = threadIdx.x % 32, row = warp_row + lane / 4;
    ptx::mbarrier_wait_cluster(&s.p_free[index], parity ^ 1);
    T* high = s.p[rank][index][0];
    T* low = s.p[rank][index][1];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = 4 * n + 2 * half;
        const int place = (row + 8 * half) * 64 + 8 * (n ^ lane / 4) + lane % 4 * 2;
        const std::uint32_t pair = pack<T>(rS[i], rS[i + 1]);
        const float2 of_pair = unpack<T>(pair);
        *reinterpret_cast<std::uint32_t*>(high + place) = pair;
        *reinterpret_cast<std::uint32_t*>(low + place) = pack<T>(rS[i] - of_pair.x, rS[i + 1] - of_pair.y);
      }
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(1, 128 * Tile::kSharers);  // P of both warpgroups is complete
    if (threadIdx.x % 128 == 0) {
      ptx::mbarrier_arrive_expect_tx(&s.p_full[index], 2 * kPanelBytes);
      ptx::bulk_copy_cluster(ptx::mapa(high, 1 - rank), high, 2 * kPanelBytes,
                             ptx::mapa(&s.p_full[index], 1 - rank));
    }
  }

  /// O += P V for this warpgroup's columns, kChunk at a time, whose products over the tile's keys are summed
  /// in rPart.
  __device__ __forceinline__ void multiply_pv() {
#pragma unroll
    for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
      float rPart[Tile::kChunk / 2];
      int held;
      multiply_values<false>(rPart, held, 0);
#pragma unroll 1
      for (int slice = 1; slice < Tile::Bc / Tile::kStep; ++slice) {
        constexpr int kSlicesOfSharer = 64 / Tile::kStep;
        if (chunk == 0 && slice * Tile::kStep >= Tile::kKeys && slice % kSlicesOfSharer == 0)
          ptx::mbarrier_wait_cluster(&s.p_full[slice / kSlicesOfSharer % Tile::kSharers], parity);
        multiply_values<true>(rPart, held, slice);
      }
      ptx::wgmma_wait<0>(rPart);
      this->leave(held);
#pragma unroll
      for (int i = 0; i < Tile::kChunk / 2; ++i) rO[chunk][i] += rPart[i];
    }
    this->leave_p();
  }
  /// The same for 32 keys of V, in the order of the producer.
  template <bool kAdd>
  __device__ __forceinline__ void multiply_values(float (&rPart)[Tile::kChunk / 2], int& held, int slice) {
    // P of 64 keys is a panel for each half; 32 keys are 64 bytes of its rows.
    const int sharer = (rank * Tile::kSharers + slice * Tile::kStep / 64) % (2 * Tile::kSharers);
    const std::uint64_t p_high =
        moved(p, sharer * 2 * kPanelBytes + slice * Tile::kStep % 64 * int(sizeof(T)));
    const std::uint64_t p_low = moved(p_high, kPanelBytes);
    const int high_slot = this->next_slot();
    const std::uint64_t high = moved(v, high_slot * kSlotBytes);
    ptx::wgmma_fence();
    ptx::wgmma<T, kAdd, false, true>(rPart, p_high, high);
    ptx::wgmma<T, true, false, true>(rPart, moved(p_high, 32), moved(high, 16 * 128));
    ptx::wgmma<T, true, false, true>(rPart, p_low, high);
    ptx::wgmma<T, true, false, true>(rPart, moved(p_low, 32), moved(high, 16 * 128));
    ptx::wgmma_commit();
    if constexpr (kAdd) {
      ptx::wgmma_wait<1>();
      this->leave(held);
    }
    const int low_slot = this->next_slot();
    const std::uint64_t low = moved(v, low_slot * kSlotBytes);
    ptx::wgmma_fence();
    ptx::wgmma<T, true, false, true>(rPart, p_high, low);
    ptx::wgmma<T, true, false, true>(rPart, moved(p_high, 32), moved(low, 16 * 128));
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    this->leave(high_slot);
    held = low_slot;
  }

  /// Divides O by its rows' sums and stores it, with LSE. Two lanes store 32 bytes, a sector.
  __device__ __forceinline__ void store(const PairWork& work) {
    const int lane = threadIdx.x % 32;
    float sum[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) sum[row] = warp_reduce<4>(l[row], Sum());
    this->reduce_over_sharers(sum, Sum());
    ptx::barrier_cluster_arrive();  // this block sends nothing more
    const int first_col = rank * Tile::kBlockCols + index * Tile::kCols + lane % 4 * 2 + lane % 2 * 6;
    const HeadRows<float> o = a.o_rows(work.head);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = work.first_query + warp_row + 8 * row + lane / 4;
      const float inv_l = inverse_or_zero(sum[row]) / (1 << kLargestExponent);
      if (this->number() == 0 && lane % 4 == 0 && query < a.seq_q)
        a.lse[size_t(work.head) * a.seq_q + query] =
            sum[row] == 0.0f ? -INFINITY : (m[row] + __log2f(sum[row])) * kLn2;
#pragma unroll
      for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
#pragma unroll
        for (int n = 0; n < Tile::kChunk / 8; n += 2) {
          const float* const left = &rO[chunk][4 * n + 2 * row];
          const float4 four = four_columns(left, left + 4, inv_l);
          const int col = first_col + chunk * Tile::kChunk + 8 * n;
          if (query < a.seq_q && col < a.head_dim_v) *reinterpret_cast<float4*>(o[query] + col) = four;
        }
      }
    }
  }
  /// A lane has two columns of each group of eight. Of two groups, neighbours exchange one: an even lane has
  /// four columns of the left one then, an odd lane those of the right one.
  static __device__ __forceinline__ float4 four_columns(const float* left, const float* right, float factor) {
    const bool odd = threadIdx.x % 2 == 1;
    const float x = __shfl_xor_sync(kAllLanes, odd ? left[0] : right[0], 1);
    const float y = __shfl_xor_sync(kAllLanes, odd ? left[1] : right[1], 1);
    return odd ? make_float4(x * factor, y * factor, right[0] * factor, right[1] * factor)
               : make_float4(left[0] * factor, left[1] * factor, x * factor, y * factor);
  }
};

/// FlashAttention in fp32 by pairs of blocks, after split_rows() of Q, K and V.
///
///   grid    2 * batch * heads * ceil(seq_q / 64), in clusters of two
///   block   Tile::kThreads: a producer warpgroup and two consumers
///   smem    split_shared_bytes<Tile>(sizes)
///   HBM     for each query tile, K, V and their exponents of the tiles that its last query sees, once, and
///           for each of these tiles Q twice; writes O and LSE
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    split_attention(Attention<float> a, const __grid_constant__ SplitMaps maps, SplitExponents exponents,
                    PairSizes sizes) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SplitMemory<Tile>*>(smem);
  auto* slots = reinterpret_cast<__half*>(smem + sizeof s);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.exponents_full, 1);
    ptx::mbarrier_init(&s.exponents_empty, 4 * Tile::kConsumers);
  }
  init_barriers<Tile>(s, sizes.slots);
  const int warpgroup = warpgroup_index(), rank = ptx::cluster_ctarank();
  const PairWork work = work_of_pair<Tile>(blockIdx.x / 2, a);
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync())
      produce_split<Tile>(a, maps, exponents, s, slots, sizes, work, rank);
    __syncwarp();
    ptx::barrier_cluster_arrive();
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    SplitConsumer<Tile> w(a, s, slots, sizes, rank, warpgroup - 1);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = work.first_query + w.warp_row + 8 * row + int(threadIdx.x) % 32 / 4;
      const float of_q = query < a.seq_q ? exponents.q[size_t(work.head) * a.seq_q + query] : 0.0f;
      w.factor[row] = of_q * a.exp2_scale;
    }
    for (int tile = work.tiles - 1; tile >= 0; --tile) {
      w.multiply_qk();
      float2 weights[8];
      w.scale_and_mask(weights, work.first_query, tile * Tile::Bc);
      w.softmax(weights);
      w.share_p();
      w.multiply_pv();
    }
    w.store(work);
  }
  // Nobody ends while the other block may still write here.
  ptx::barrier_cluster_wait();
}

}  // namespace fa::ch12
