/// @file
/// experiment
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cstddef>
#include <cstdint>

#include "choices.cuh"
#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"

#ifndef STATIC_SNAKE
#define STATIC_SNAKE 0
#endif

namespace fa::ch09 {

struct TensorMaps {
  CUtensorMap q, k, v, o;
};

__device__ __forceinline__ std::uint64_t descriptor(const void* s, int leading_bytes, int stride_bytes) {
  return std::uint64_t(ptx::shared_address(s) >> 4) | std::uint64_t(leading_bytes >> 4) << 16 |
         std::uint64_t(stride_bytes >> 4) << 32 | std::uint64_t(1) << 62;
}
/// @param rows  of the tile
__host__ __device__ constexpr int k_major_step(int step, int rows) { return (step / 4 * rows * 128 + step % 4 * 32) >> 4; }

struct Ring {
  int stage = 0, parity = 0;
  template <int kStages>
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <class Tile>
using Scores = float[Tile::Bc / 2];
template <class Tile>
using Probabilities = std::uint32_t[Tile::Bc / 16][4];
template <class Tile>
using Output = float[Tile::kHeadDim / 2];

template <class Tile>
__device__ __forceinline__ void issue_qk(Scores<Tile>& rS, std::uint64_t q, std::uint64_t k) {
  ptx::wgmma<typename Tile::T, false, false, false>(rS, q, k);
#pragma unroll
  for (int step = 1; step < Tile::kHeadDim / 16; ++step)
    ptx::wgmma<typename Tile::T, true, false, false>(rS, q + k_major_step(step, Tile::Br), k + k_major_step(step, Tile::Bc));
}
template <class Tile>
__device__ __forceinline__ void issue_pv(Output<Tile>& rO, const Probabilities<Tile>& rP, std::uint64_t v) {
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step)
    ptx::wgmma<typename Tile::T, true, true>(rO, rP[step], v + step * (2048 >> 4));
}

struct QueryTile {
  int head, first_query;
};
template <class Tile>
__device__ __forceinline__ QueryTile tile_of(int n, const Attention<typename Tile::T>& a) {
  const int heads = a.batch * a.heads, tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  if (!a.causal) return {n / tiles, n % tiles * Tile::Br};
  const size_t bytes = 2 * sizeof(typename Tile::T) * size_t(a.seq_k) * Tile::kHeadDim;
  const int cached = int(max(size_t(1), min(size_t(heads), (32 << 20) / bytes)));
  const int groups = (heads + cached - 1) / cached, group = (heads + groups - 1) / groups;
  const int first_head = n / (group * tiles) * group, here = min(group, heads - first_head);
  const int in_group = n - first_head * tiles;
  return {first_head + in_group % here, (tiles - 1 - in_group / here) * Tile::Br};
}
template <class Tile>
__device__ __forceinline__ int key_tiles(const QueryTile& t, const Attention<typename Tile::T>& a) {
  const int seen = a.visible_keys(min(t.first_query + Tile::Br, a.seq_q) - 1);
  return max(1, (seen + Tile::Bc - 1) / Tile::Bc);
}

template <class Tile>
__device__ __forceinline__ void mask(Scores<Tile>& rS, const Attention<typename Tile::T>& a, int first_query, int first_key) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int seen = a.visible_keys(first_query + 8 * row + lane / 4) - first_key - lane % 4 * 2;
#pragma unroll
    for (int ni = 0; ni < Tile::Bc / 8; ++ni) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (8 * ni + i >= seen) rS[4 * ni + 2 * row + i] = -INFINITY;
    }
  }
}

struct RowState {
  float m[2] = {-FLT_MAX, -FLT_MAX};
  float l[2] = {};
};

/// returns whether corrections apply
template <class Tile>
__device__ __forceinline__ bool raise_maximum(RowState& state, float (&correction)[2], const Scores<Tile>& rS, float factor) {
  float top[2];
  bool grew = false;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    top[row] = fmaxf(rS[2 * row], rS[2 * row + 1]);
#pragma unroll
    for (int ni = 1; ni < Tile::Bc / 8; ++ni)
      top[row] = fmaxf(top[row], fmaxf(rS[4 * ni + 2 * row], rS[4 * ni + 2 * row + 1]));
    grew |= top[row] * factor - state.m[row] > 8.0f;
  }
  grew = __any_sync(kAllLanes, grew);
  correction[0] = correction[1] = 1.0f;
  if (grew) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float m_new = fmaxf(state.m[row], warp_reduce<4>(top[row], Max()) * factor);
      correction[row] = ptx::exp2_approx(state.m[row] - m_new);
      state.m[row] = m_new;
      state.l[row] *= correction[row];
    }
  }
  return grew;
}
template <class Tile>
__device__ __forceinline__ void exponentials(Scores<Tile>& rS, RowState& state, float factor) {
#pragma unroll
  for (int i = 0; i < Tile::Bc / 2; ++i) {
    const int row = i / 2 % 2;
    rS[i] = ptx::exp2_approx(rS[i] * factor - state.m[row]);
    state.l[row] += rS[i];
  }
}
template <class Tile>
__device__ __forceinline__ void pack_p(Probabilities<Tile>& rP, const Scores<Tile>& rS) {
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      rP[step][i] = pack<typename Tile::T>(rS[8 * step + 2 * i], rS[8 * step + 2 * i + 1]);
  }
}
template <class Tile>
__device__ __forceinline__ void scale_rows(Output<Tile>& rO, const float (&by)[2]) {
#pragma unroll
  for (int i = 0; i < Tile::kHeadDim / 2; ++i) rO[i] *= by[i / 2 % 2];
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    final_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps, int* counter) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kStages = Tile::kStages, kConsumers = Tile::kConsumers;
  constexpr int kQ = Tile::kQueryBuffers;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  const int warpgroup = __shfl_sync(kAllLanes, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kQ; ++i) {
      ptx::mbarrier_init(&s.q_full[i], 1);
      ptx::mbarrier_init(&s.q_empty[i], 4 * kConsumers);
    }
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(&s.k_full[i], 1);
      ptx::mbarrier_init(&s.v_full[i], 1);
      ptx::mbarrier_init(&s.k_empty[i], 4 * kConsumers);
      ptx::mbarrier_init(&s.v_empty[i], 4 * kConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const int heads = a.batch * a.heads, query_tiles = (a.seq_q + Br - 1) / Br, total = heads * query_tiles;

  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x / 32 == 0 && ptx::elect_sync()) {
      Ring q, k, v;
      int round = 0;
      for (int n = blockIdx.x;; ++round) {
        ptx::mbarrier_wait(&s.q_empty[q.stage], q.parity ^ 1);
#if STATIC_SNAKE
        if (n >= total) break;
#else
        s.tile[q.stage] = n < total ? n : -1;
        if (n >= total) {
          ptx::mbarrier_arrive(&s.q_full[q.stage]);
          break;
        }
#endif
        const QueryTile t = tile_of<Tile>(n, a);
        ptx::mbarrier_arrive_expect_tx(&s.q_full[q.stage], Br * d * 2);
        for (int panel = 0; panel < Tile::kPanels; ++panel)
          ptx::tma_load(s.q[q.stage] + panel * Br * 64, &maps.q, &s.q_full[q.stage], 64 * panel, t.first_query, t.head);
        q.advance<kQ>();
        const int kv_head = a.kv_head(t.head);
        auto load_k = [&](int tile) {
          ptx::mbarrier_wait(&s.k_empty[k.stage], k.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(&s.k_full[k.stage], Bc * d * 2);
          for (int panel = 0; panel < Tile::kPanels; ++panel)
            ptx::tma_load(s.k[k.stage] + panel * Bc * 64, &maps.k, &s.k_full[k.stage], 64 * panel, tile * Bc, kv_head);
          k.advance<kStages>();
        };
        auto load_v = [&](int tile) {
          ptx::mbarrier_wait(&s.v_empty[v.stage], v.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(&s.v_full[v.stage], Bc * d * 2);
          for (int panel = 0; panel < Tile::kPanels; ++panel)
            ptx::tma_load(s.v[v.stage] + panel * Bc * 64, &maps.v, &s.v_full[v.stage], 64 * panel, tile * Bc, kv_head);
          v.advance<kStages>();
        };
        int tile = key_tiles<Tile>(t, a) - 1;
        load_k(tile);
        for (; tile > 0; --tile) {
          load_k(tile - 1);
          load_v(tile);
        }
#if !STATIC_SNAKE
        // before the last V, so that the answer is there in time
        const int next = atomicAdd(counter, 1) + gridDim.x;
#else
        const int next = round % 2 == 0 ? (round / 2 + 1) * 2 * int(gridDim.x) - 1 - blockIdx.x : (round / 2 + 1) * 2 * int(gridDim.x) + blockIdx.x;
#endif
        load_v(0);
        n = next;
      }
    }
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    const int consumer = warpgroup - 1;
    const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32 % 4, 0), lane = threadIdx.x % 32;
    const float factor = a.scale * kLog2e;
    const bool elected = lane == 0;
    const std::uint64_t desc_q = descriptor(s.q[0], 16, 1024), desc_k = descriptor(s.k[0], 16, 1024), desc_v = descriptor(s.v[0], Bc * 128, 1024);
    const auto q_at = [&](int stage) { return desc_q + ((stage * Br * d * 2 + consumer * 64 * 128) >> 4); };
    const auto kv_at = [&](int stage) { return (stage * Bc * d * 2) >> 4; };
    const auto arrive = [&](std::uint64_t* barrier) {
      if (elected) ptx::mbarrier_arrive(barrier);
    };
    Ring q, k, v;
    Scores<Tile> rS;
    Probabilities<Tile> rP;
    Output<Tile> rO;
    if (consumer == kConsumers - 1) ptx::barrier_arrive(1, 256);
    const auto take_turn = [&] { ptx::barrier_sync(1 + consumer, 256); };
    const auto pass_turn = [&] { ptx::barrier_arrive(1 + (consumer + 1) % kConsumers, 256); };

    int n = blockIdx.x;
    int round = 0;
#if !STATIC_SNAKE
    ptx::mbarrier_wait(&s.q_full[0], 0);
    n = s.tile[0];
#else
    if (n < total) ptx::mbarrier_wait(&s.q_full[0], 0);
#endif
    if (n >= 0 && n < total) {
      ptx::mbarrier_wait(&s.k_full[k.stage], k.parity);
      take_turn();
      ptx::wgmma_fence();
      issue_qk<Tile>(rS, q_at(q.stage), desc_k + kv_at(k.stage));
      ptx::wgmma_commit();
      pass_turn();
    }
    while (n >= 0 && n < total) {
      const QueryTile t = tile_of<Tile>(n, a);
      const int first_query = t.first_query + consumer * 64 + warp * 16;
      int tile = key_tiles<Tile>(t, a) - 1;
      const int first_masked = min(a.visible_keys(t.first_query), a.visible_keys(min(t.first_query + Br, a.seq_q) - 1)) / Bc;
      RowState state;
      float correction[2];

      ptx::wgmma_wait<0>(rS);
#pragma unroll
      for (float& o : rO) o = 0.0f;
      arrive(&s.k_empty[k.stage]);
      k.advance<kStages>();
      if (tile >= first_masked) mask<Tile>(rS, a, first_query, tile * Bc);
      raise_maximum<Tile>(state, correction, rS, factor);
      exponentials<Tile>(rS, state, factor);
      pack_p<Tile>(rP, rS);
      // step
      const auto step = [&](auto masked) __attribute__((always_inline)) {
        ptx::mbarrier_wait(&s.k_full[k.stage], k.parity);
        ptx::mbarrier_wait(&s.v_full[v.stage], v.parity);
        take_turn();
        ptx::wgmma_fence();
        issue_qk<Tile>(rS, q_at(q.stage), desc_k + kv_at(k.stage));
        ptx::wgmma_commit();
        issue_pv<Tile>(rO, rP, desc_v + kv_at(v.stage));
        ptx::wgmma_commit();
        pass_turn();
        ptx::wgmma_wait<1>(rS);
        arrive(&s.k_empty[k.stage]);
        k.advance<kStages>();
        if constexpr (decltype(masked)::value) mask<Tile>(rS, a, first_query, (tile - 1) * Bc);
        const bool grew = raise_maximum<Tile>(state, correction, rS, factor);
        exponentials<Tile>(rS, state, factor);
        ptx::wgmma_wait<0>(rO);
        arrive(&s.v_empty[v.stage]);
        v.advance<kStages>();
        if (grew) scale_rows<Tile>(rO, correction);
        pack_p<Tile>(rP, rS);
      };
      for (; tile > first_masked && tile > 0; --tile) step(std::true_type());
      for (; tile > 0; --tile) step(std::false_type());

      // the last P V, and the first Q K^T of the next query tile
      Ring next_q = q;
      next_q.advance<kQ>();
#if !STATIC_SNAKE
      ptx::mbarrier_wait(&s.q_full[next_q.stage], next_q.parity);
      const int next = s.tile[next_q.stage];
#else
      const int next = round % 2 == 0 ? (round / 2 + 1) * 2 * int(gridDim.x) - 1 - blockIdx.x : (round / 2 + 1) * 2 * int(gridDim.x) + blockIdx.x;
      if (next < total) ptx::mbarrier_wait(&s.q_full[next_q.stage], next_q.parity);
#endif
      ptx::mbarrier_wait(&s.v_full[v.stage], v.parity);
      const bool more = next >= 0 && next < total;
      if (more) ptx::mbarrier_wait(&s.k_full[k.stage], k.parity);
      take_turn();
      ptx::wgmma_fence();
      issue_pv<Tile>(rO, rP, desc_v + kv_at(v.stage));
      ptx::wgmma_commit();
      if (more) {
        issue_qk<Tile>(rS, q_at(next_q.stage), desc_k + kv_at(k.stage));
      }
      ptx::wgmma_commit();
      pass_turn();
      ptx::wgmma_wait<1>(rO);
      arrive(&s.v_empty[v.stage]);
      v.advance<kStages>();

      // epilogue
      float inverse[2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float l = warp_reduce<4>(state.l[row], Sum());
        inverse[row] = inverse_or_zero(l);
        const int query = first_query + 8 * row + lane / 4;
        if (lane % 4 == 0 && query < a.seq_q)
          a.lse[size_t(t.head) * a.seq_q + query] = l == 0.0f ? -INFINITY : state.m[row] * kLn2 + __logf(l);
      }
      scale_rows<Tile>(rO, inverse);
      ptx::barrier_sync(1 + kConsumers + consumer, 128);  // the whole warpgroup has finished with Q
      T* sO = s.q[q.stage] + (consumer * 64 + warp * 16) * 64;
#pragma unroll
      for (int ni = 0; ni < d / 8; ++ni) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const int at = ni / 8 * Br * 64 + (lane / 4 + 8 * row) * 64 + ((ni % 8) ^ (lane / 4)) * 8 + lane % 4 * 2;
          *reinterpret_cast<std::uint32_t*>(sO + at) = pack<T>(rO[4 * ni + 2 * row], rO[4 * ni + 2 * row + 1]);
        }
      }
      ptx::fence_proxy_async();
      __syncwarp();
      if (elected) {
        for (int panel = 0; panel < Tile::kPanels; ++panel)
          ptx::tma_store(&maps.o, sO + panel * Br * 64, 64 * panel, first_query, t.head);
        ptx::bulk_commit();
        ptx::bulk_wait_read<0>();
        ptx::mbarrier_arrive(&s.q_empty[q.stage]);
      }
      __syncwarp();
      q = next_q;
      n = next;
      ++round;
    }
    if (consumer == 0) ptx::barrier_sync(1, 256);
  }
}

}  // namespace fa::ch09
