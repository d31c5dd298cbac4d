/// @file
/// The backward pass by pairs of blocks: one owns dV of 64 keys, the other dK, because a multiprocessor's
/// registers hold one of them. The owner of dV computes P, the owner of dK dS, and each sends what it has
/// computed to the other.
///
///   block 0   S^T = K Q^T     P^T = 2^(S^T - LSE), which it sends       dV += P^T dO   dQ = dS K, left half
///   block 1   dP^T = V dO^T   dS^T = P^T * (dP^T - D), which it sends   dK += dS^T Q   dQ = dS K, right half
///
/// So both blocks do the same with other tensors: a product over the columns of `scored`, and one over the
/// rows of `summed`.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "backward_tiles.cuh"
#include "device/attention.cuh"
#include "device/clusters.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"
#include "pair_tiles.cuh"
#include "pair_work.cuh"

namespace fa::ch12 {

// --- before and after --------------------------------------------------------------------------------------

constexpr int kRowsOfPrepare = 8;

/// D, LSE in the form that the products need, and zeros for the sums of dQ, a row by each warp.
///
///   grid    ceil(batch * heads * padded_queries / kRowsOfPrepare)
///   block   32 * kRowsOfPrepare
///   HBM     batch * heads * ((4 * d_v + 4) * seq_q + (8 + 4 * 64 * panels) * padded_queries) bytes: reads O,
///           dO and LSE, writes D, log2_sum and the zeros
template <class T>
__global__ void __launch_bounds__(32 * kRowsOfPrepare) prepare_backward(PairBackward<T> a, int panels) {
  const int number = blockIdx.x * kRowsOfPrepare + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (number >= a.batch * a.heads * a.padded_queries) return;
  const int head = number / a.padded_queries, query = number % a.padded_queries;
  float* zeros = a.dq_sum + size_t(number) * 64 * panels;
  for (int col = 4 * lane; col < 64 * panels; col += 128) store_float4(zeros + col, {0.0f, 0.0f, 0.0f, 0.0f});
  float d = 0.0f;
  const bool exists = query < a.seq_q;
  if (exists) {
    const T* o = a.o_rows(head)[query];
    const T* d_o = a.rows_of_query_head(a.d_o, a.do_strides, head)[query];
    for (int col = 8 * lane; col < a.head_dim_v; col += 256) {
      const uint4 x = *reinterpret_cast<const uint4*>(o + col),
                  y = *reinterpret_cast<const uint4*>(d_o + col);
      const std::uint32_t of_x[4] = {x.x, x.y, x.z, x.w}, of_y[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 left = unpack<T>(of_x[i]), right = unpack<T>(of_y[i]);
        d += left.x * right.x + left.y * right.y;
      }
    }
  }
  d = warp_reduce(d, Sum());
  if (lane != 0) return;
  const float lse = exists ? a.lse[size_t(head) * a.seq_q + query] : -INFINITY;
  a.delta[number] = d;
  a.log2_sum[number] = resolved_lse(lse) * kLog2e;  // 2^(s - inf) = 0 for every finite score s
}

/// dQ = scale * the sums, in 16 bits: a block has 64 queries and 64 columns.
///
///   grid    batch * heads * padded_queries / 64 * panels
///   block   128
///   HBM     batch * heads * (4 * 64 * panels * padded_queries + 2 * d * seq_q) bytes: reads the sums, writes
///           dQ
template <class T>
__global__ void __launch_bounds__(128) finish_dq(PairBackward<T> a, int panels) {
  const int tile = blockIdx.x / panels, panel = blockIdx.x % panels, tiles = a.padded_queries / 64;
  const int head = tile / tiles, lane = threadIdx.x % 32;
  const int query = tile % tiles * 64 + int(threadIdx.x) / 32 * 16 + lane / 4;
  const HeadRows<T> rows = a.rows_of_query_head(a.dq, a.dq_strides, head);
  const float* sums = a.dq_sum + size_t(blockIdx.x) * 64 * 64 + 4 * threadIdx.x;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float4 x = load_float4(sums + n * 512);
    const int col = 64 * panel + 8 * n + lane % 4 * 2;
    if (col >= a.head_dim) continue;
    if (query < a.seq_q)
      *reinterpret_cast<std::uint32_t*>(rows[query] + col) = pack<T>(a.scale * x.x, a.scale * x.y);
    if (query + 8 < a.seq_q)
      *reinterpret_cast<std::uint32_t*>(rows[query + 8] + col) = pack<T>(a.scale * x.z, a.scale * x.w);
  }
}

// --- the products ------------------------------------------------------------------------------------------

/// Visits the query tiles that see one of the pair's keys, in all heads that share them.
template <class Tile>
struct QuerySteps {
  int head, end_head;  ///< counted through all batches
  int first_query, tiles_begin, tiles_end;
  int tile;

  template <class T>
  __device__ __forceinline__ QuerySteps(const PairBackward<T>& a, int kv_head, int first_key) {
    const int group = a.heads / a.kv_heads;
    head = kv_head * group, end_head = head + group;
    const int blind = a.causal ? max(0, first_key - (a.seq_k - a.seq_q)) : 0;  // queries that see none
    tiles_begin = blind / Tile::Br, tiles_end = (a.seq_q + Tile::Br - 1) / Tile::Br;
    tile = tiles_begin;
  }
  __device__ __forceinline__ bool done() const { return tile >= tiles_end || head >= end_head; }
  __device__ __forceinline__ void next() {
    if (++tile < tiles_end) return;
    tile = tiles_begin;
    ++head;
  }
};

/// One thread copies: at first the keys' rows, then for each step the rows of `scored` and of `summed`.
template <class Tile>
__device__ __forceinline__ void produce_backward(const PairBackward<typename Tile::T>& a,
                                                 const BackwardMaps& maps, BackwardMemory<Tile>& s,
                                                 typename Tile::T* resident, typename Tile::T* slots,
                                                 const BackwardSizes& sizes, int kv_head, int first_key,
                                                 int rank) {
  using T = typename Tile::T;
  const int panels = (rank == 0 ? sizes.panels[0] : sizes.panels[1]),
            kv_in_batch = kv_head % maps.resident[0].heads, kv_batch = kv_head / maps.resident[0].heads;
  ptx::mbarrier_arrive_expect_tx(&s.resident_full,
                                 (panels * Tile::kPanel + Tile::kCols / 64 * Tile::kPanel) * int(sizeof(T)));
  for (int panel = 0; panel < panels; ++panel)
    ptx::tma_load(resident + panel * Tile::kPanel, &maps.resident[rank], &s.resident_full, 64 * panel,
                  first_key, kv_in_batch, kv_batch);
  for (int panel = 0; panel < Tile::kCols / 64; ++panel)
    ptx::tma_load(s.k[panel], &maps.resident[0], &s.resident_full, rank * Tile::kCols + 64 * panel, first_key,
                  kv_in_batch, kv_batch);
  const float* rows = rank == 0 ? a.log2_sum : a.delta;
  Slot at;
  const auto next_slot = [&](int elements) {
    ptx::mbarrier_wait(&s.empty[at.number], at.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.full[at.number], elements * int(sizeof(T)));
    const int number = at.number;
    at.advance(sizes.slots);
    return number;
  };
  int parity = 0;
  for (QuerySteps<Tile> step(a, kv_head, first_key); !step.done(); step.next()) {
    const int first_query = step.tile * Tile::Br, in_batch = step.head % maps.scored[0].heads;
    const int batch = step.head / maps.scored[0].heads;
    ptx::mbarrier_wait(&s.rows_empty, parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.rows_full, int(sizeof s.rows));
    ptx::bulk_load(s.rows, rows + size_t(step.head) * a.padded_queries + first_query, sizeof s.rows,
                   &s.rows_full);
    parity ^= 1;
#pragma unroll 1
    for (int panel = 0; panel < panels; ++panel) {
      const int slot = next_slot(Tile::Br * 64);
      ptx::tma_load(slots + slot * Tile::kSlot, &maps.scored[rank], &s.full[slot], 64 * panel, first_query,
                    in_batch, batch);
    }
#pragma unroll 1
    for (int query = 0; query < Tile::Br; query += Tile::kStep) {
      const int slot = next_slot(Tile::kStep * Tile::kBlockCols);
#pragma unroll 1
      for (int col = 0; col < Tile::kBlockCols; col += 64)
        ptx::tma_load(slots + slot * Tile::kSlot + col * Tile::kStep, &maps.summed[rank], &s.full[slot], col,
                      first_query + query, in_batch, batch);
    }
  }
}

/// A consumer warpgroup: 64 queries of each step, and half of the columns of its block's gradient.
template <class Tile>
struct BackwardConsumer {
  using T = typename Tile::T;
  static constexpr int kSlotBytes = Tile::kSlot * int(sizeof(T)), kPanelBytes = Tile::kPanel * int(sizeof(T));

  const PairBackward<T>& a;
  BackwardMemory<Tile>& s;
  const int slots, panels;
  const int rank, index;
  const int warp_key;  ///< the first of this warp's 16 keys in the tile
  const std::uint64_t resident, scored, summed, own, dq_scores, k;  ///< descriptors

  Slot at;
  int parity = 0;             ///< of the step
  float rS[32];               ///< 64 keys, 64 queries: S^T or dP^T
  float rG[Tile::kCols / 2];  ///< dV or dK

  __device__ __forceinline__ BackwardConsumer(const PairBackward<T>& backward, BackwardMemory<Tile>& memory,
                                              const T* resident_rows, const T* slot_0,
                                              const BackwardSizes& sizes, int of_block, int consumer)
      : a(backward),
        s(memory),
        slots(sizes.slots),
        panels(of_block == 0 ? sizes.panels[0] : sizes.panels[1]),
        rank(of_block),
        index(consumer),
        warp_key(__shfl_sync(kAllLanes, int(threadIdx.x) / 32 % 4, 0) * 16),
        resident(descriptor_in_cluster(resident_rows, 16)),
        scored(descriptor_in_cluster(slot_0 + 64 * 64 * consumer, 16)),
        summed(descriptor_in_cluster(slot_0 + Tile::kStep * Tile::kCols * consumer, Tile::kStep * 128)),
        own(descriptor_in_cluster(memory.own, 16)),
        dq_scores(
            descriptor_in_cluster(of_block == 0 ? memory.received[consumer] : memory.own[consumer], 16)),
        k(descriptor_in_cluster(memory.k, 16)) {
#pragma unroll
    for (float& x : rG) x = 0.0f;
  }

  __device__ __forceinline__ int next_slot() {
    ptx::mbarrier_wait(&s.full[at.number], at.parity);
    const int number = at.number;
    at.advance(slots);
    return number;
  }
  __device__ __forceinline__ void leave(int slot) const {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.empty[slot]);
  }

  /// S^T = K Q^T or dP^T = V dO^T, summed over slices of 64 columns.
  __device__ __forceinline__ void multiply_scores() {
    int slot = next_slot();
    ptx::wgmma_fence();
    issue_slice<false>(resident, slot);
    for (int panel = 1; panel < panels; ++panel) {
      const int before = slot;
      slot = next_slot();
      ptx::wgmma_fence();
      issue_slice<true>(moved(resident, panel * kPanelBytes), slot);
      ptx::wgmma_wait<1>();
      leave(before);
    }
    ptx::wgmma_wait<0>(rS);
    leave(slot);
  }
  template <bool kAdd>
  __device__ __forceinline__ void issue_slice(std::uint64_t rows, int slot) {
    const std::uint64_t queries = moved(scored, slot * kSlotBytes);
    ptx::wgmma<T, kAdd, false, false>(rS, rows, queries);
#pragma unroll
    for (int step = 1; step < 4; ++step)
      ptx::wgmma<T, true, false, false>(rS, moved(rows, step * 32), moved(queries, step * 32));
    ptx::wgmma_commit();
  }

  /// A number of each of the lane's queries, in pairs of neighbours. Then the step's numbers are not needed
  /// any more.
  __device__ __forceinline__ void load_rows(float2 (&of_query)[8]) {
    ptx::mbarrier_wait(&s.rows_full, parity);
#pragma unroll
    for (int n = 0; n < 8; ++n)
      of_query[n] = *reinterpret_cast<const float2*>(s.rows + 64 * index + 8 * n + threadIdx.x % 4 * 2);
    __syncwarp();  // every lane has read them
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.rows_empty);
  }

  /// P^T = 2^(S^T - LSE), 0 for keys that a query does not see.
  __device__ __forceinline__ void probabilities(int first_query, int first_key) {
    float2 log2_sum[8];
    load_rows(log2_sum);
    const float factor = a.exp2_scale;
#pragma unroll
    for (int i = 0; i < 32; ++i)
      rS[i] = ptx::exp2_approx(fmaf(rS[i], factor, -(i % 2 == 0 ? log2_sum[i / 4].x : log2_sum[i / 4].y)));
    if (first_key + Tile::Bc <= a.visible_keys(first_query)) return;
    const int lane = threadIdx.x % 32, key = first_key + warp_key + lane / 4;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int query = first_query + 64 * index + 8 * (i / 4) + lane % 4 * 2 + i % 2;
      if (key + 8 * (i / 2 % 2) >= a.visible_keys(query)) rS[i] = 0.0f;
    }
  }

  /// Where an accumulator pair lies in a panel of 64 keys and 64 queries: pair 2 * n + half.
  __device__ __forceinline__ int place(int n, int half) const {
    const int lane = threadIdx.x % 32;
    return (warp_key + 8 * half + lane / 4) * 64 + 8 * (n ^ lane / 4) +
           lane % 4 * 2;  // swizzled by the row, modulo 8
  }

  /// dS^T = P^T * (dP^T - D): rS has dP^T, and the other block sends P^T.
  __device__ __forceinline__ void score_gradients() {
    float2 delta[8];
    load_rows(delta);
    // EXERCISE 4: Turn dP^T into dS^T, in place. Let the other block overwrite P^T as soon as this warp has read it.
    wait_received();
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 p =
            unpack<T>(*reinterpret_cast<const std::uint32_t*>(s.received[index] + place(n, half)));
        const int i = 4 * n + 2 * half;
        rS[i] = p.x * (rS[i] - delta[n].x);
        rS[i + 1] = p.y * (rS[i + 1] - delta[n].y);
      }
    }
    leave_received();
    // END 4
  }
  /// Waits for what the other block sends.
  __device__ __forceinline__ void wait_received() {
    if (threadIdx.x % 128 == 0) ptx::mbarrier_arrive_expect_tx(&s.received_full[index], kPanelBytes);
    ptx::mbarrier_wait_cluster(&s.received_full[index], parity);
  }
  /// This warp does not need what the other block has sent any more.
  __device__ __forceinline__ void leave_received() {
    // EXERCISE 5: Release the panel that the other block has sent. Which barrier counts that, and in which block?
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive_cluster_relaxed(ptx::mapa(&s.own_free[index], 1 - rank));
    // END 5
  }

  /// Stores P^T or dS^T of this warpgroup's queries, rounded to 16 bits, and sends a copy to the other block.
  __device__ __forceinline__ void share() {
    ptx::mbarrier_wait_cluster(&s.own_free[index], parity ^ 1);
    T* panel = s.own[index];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<std::uint32_t*>(panel + place(n, half)) =
            pack<T>(rS[4 * n + 2 * half], rS[4 * n + 2 * half + 1]);
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(1, 128 * Tile::kConsumers);  // both panels are complete
    if (threadIdx.x % 128 == 0) {
      ptx::bulk_copy_cluster(ptx::mapa(s.received[index], 1 - rank), panel, kPanelBytes,
                             ptx::mapa(&s.received_full[index], 1 - rank));
    }
  }

  /// dV += P^T dO or dK += dS^T Q for this warpgroup's columns, 16 queries at a time.
  __device__ __forceinline__ void multiply_gradient() {
    int slot = 0;
#pragma unroll
    for (int step = 0; step < Tile::Br / Tile::kStep; ++step) {
      const int before = slot;
      slot = next_slot();
      ptx::wgmma_fence();
      ptx::wgmma<T, true, false, true>(rG, moved(own, step / 4 * kPanelBytes + step % 4 * 32),
                                       moved(summed, slot * kSlotBytes));
      ptx::wgmma_commit();
      if (step > 0) {
        ptx::wgmma_wait<1>();
        leave(before);
      }
    }
    ptx::wgmma_wait<0>(rG);
    leave(slot);
  }

  /// Adds dQ = dS K of this warpgroup's queries to the sums: this block's half of the columns, 64 at a time.
  __device__ __forceinline__ void add_dq(const QuerySteps<Tile>& step, int panels_of_q) {
    const size_t tile = size_t(step.head) * (a.padded_queries / 64) + 2 * step.tile + index;
#pragma unroll 1
    for (int panel = 0; panel < Tile::kCols / 64; ++panel) {
      const int col = rank * (Tile::kCols / 64) + panel;
      if (col >= panels_of_q) break;
      float rdQ[32];
      const std::uint64_t keys = moved(k, panel * kPanelBytes);
      ptx::wgmma_fence();
      ptx::wgmma<T, false, true, true>(rdQ, dq_scores, keys);
#pragma unroll
      for (int key = 1; key < 4; ++key)  // 16 keys are 16 rows of 128 bytes
        ptx::wgmma<T, true, true, true>(rdQ, moved(dq_scores, key * 16 * 128), moved(keys, key * 16 * 128));
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(rdQ);
      float* sums = a.dq_sum + (tile * panels_of_q + col) * 64 * 64 + 4 * (threadIdx.x % 128);
#pragma unroll
      for (int n = 0; n < 8; ++n)
        atomicAdd(reinterpret_cast<float4*>(sums + n * 512),
                  float4{rdQ[4 * n], rdQ[4 * n + 1], rdQ[4 * n + 2], rdQ[4 * n + 3]});
    }
  }
  /// This warp does not need what its block has computed any more.
  __device__ __forceinline__ void leave_own() {
    if (threadIdx.x % 32 == 0) {
      for (std::uint64_t& free : s.own_free) ptx::mbarrier_arrive(&free);
    }
    parity ^= 1;
  }

  /// Stores dV, or dK times the scale: in 16 bits to where K or V was, then to HBM by TMA.
  __device__ __forceinline__ void store(const BackwardMaps& maps, T* to, int kv_head, int first_key) {
    const int lane = threadIdx.x % 32;
    const float factor = rank == 0 ? 1.0f : a.scale;
    T* panels_of_gradient = to + index * (Tile::kCols / 64) * Tile::kPanel;
#pragma unroll
    for (int n = 0; n < Tile::kCols / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<std::uint32_t*>(panels_of_gradient + n / 8 * Tile::kPanel + place(n % 8, half)) =
            pack<T>(factor * rG[4 * n + 2 * half], factor * rG[4 * n + 2 * half + 1]);
    }
    ptx::fence_proxy_async();
    __syncwarp();
    const int cols = rank == 0 ? a.head_dim_v : a.head_dim;
    if (lane == 0 && first_key + warp_key < a.seq_k) {
      const TensorMap& map = maps.gradient[rank];
      for (int col = 0; col < Tile::kCols && index * Tile::kCols + col < cols; col += 64)
        ptx::tma_store(&map, panels_of_gradient + col * 64 + warp_key * 64, index * Tile::kCols + col,
                       first_key + warp_key, kv_head % map.heads, kv_head / map.heads);
      ptx::bulk_commit();
      ptx::bulk_wait_read<0>();
    }
  }
};

/// All three gradients, after prepare_backward(); finish_dq() follows.
///
///   grid    2 * batch * kv_heads * ceil(seq_k / 64), in clusters of two
///   block   Tile::kThreads: a producer warpgroup and two consumers
///   smem    backward_shared_bytes<Tile>(sizes)
///   HBM     reads K twice and V once; for each step, 128 queries and 64 keys, Q and dO twice, log2_sum and
///           D; adds dQ to the sums; writes dK and dV
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    pair_gradients(PairBackward<typename Tile::T> a, const __grid_constant__ BackwardMaps maps,
                   BackwardSizes sizes) {
  using T = typename Tile::T;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<BackwardMemory<Tile>*>(smem);
  T* resident = reinterpret_cast<T*>(smem + sizeof s);
  const int most = max(Tile::kBlockCols / 64, max(sizes.panels[0], sizes.panels[1]));
  T* slots = resident + most * Tile::kPanel;
  if (threadIdx.x == 0) {
    declare_members(s);
    for (int slot = 0; slot < sizes.slots; ++slot) {
      ptx::mbarrier_init(&s.full[slot], 1);
      ptx::mbarrier_init(&s.empty[slot], 4 * Tile::kConsumers);
    }
    ptx::mbarrier_init(&s.resident_full, 1);
    ptx::mbarrier_init(&s.rows_full, 1);
    ptx::mbarrier_init(&s.rows_empty, 4 * Tile::kConsumers);
    for (int consumer = 0; consumer < Tile::kConsumers; ++consumer) {
      ptx::mbarrier_init(&s.received_full[consumer], 1);
      ptx::mbarrier_init(&s.own_free[consumer],
                         4 * (Tile::kConsumers + 1));  // and the other block's warpgroup
    }
    ptx::fence_mbarrier_init();
  }
  ptx::barrier_cluster_arrive_relaxed();  // the fence has published the barriers
  ptx::barrier_cluster_wait();
  const int warpgroup = warpgroup_index(), rank = ptx::cluster_ctarank();
  const int tiles = (a.seq_k + Tile::Bc - 1) / Tile::Bc, pair = blockIdx.x / 2;
  const int kv_head = pair / tiles, first_key = pair % tiles * Tile::Bc;
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync())
      produce_backward<Tile>(a, maps, s, resident, slots, sizes, kv_head, first_key, rank);
    __syncwarp();
    ptx::barrier_cluster_arrive();
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    BackwardConsumer<Tile> w(a, s, resident, slots, sizes, rank, warpgroup - 1);
    ptx::mbarrier_wait(&s.resident_full, 0);
    if (rank == 0) {
      for (QuerySteps<Tile> step(a, kv_head, first_key); !step.done(); step.next()) {
        w.multiply_scores();
        w.probabilities(step.tile * Tile::Br, first_key);
        w.share();
        w.multiply_gradient();
        w.wait_received();
        w.add_dq(step, sizes.panels[0]);
        w.leave_received();
        w.leave_own();
      }
    } else {
      for (QuerySteps<Tile> step(a, kv_head, first_key); !step.done(); step.next()) {
        w.multiply_scores();
        w.score_gradients();
        w.share();
        w.multiply_gradient();
        w.add_dq(step, sizes.panels[0]);
        w.leave_own();
      }
    }
    ptx::barrier_cluster_arrive();  // this block sends nothing more
    w.store(maps, resident, kv_head, first_key);
  }
  // No block ends while the other may still write to it.
  ptx::barrier_cluster_wait();
}

}  // namespace fa::ch12
