/// @file
/// What a warpgroup does with a tile of keys for 17 to 64 rows of Q: S = Q K^T and O += P V by wgmma.
///
/// The tile is the same as a warp's, groups of 16 keys as TMA leaves them: a copy is 16 tokens, a page has no
/// fewer. Within a panel, groups of 8 keys are then not equally far apart. But the first 8 keys of all groups
/// of 16 are, and so are the last 8. Q K^T is therefore two products, of half the keys each. Together, the
/// accumulators of 16 keys are operand A of P V.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "columns.cuh"
#include "decoding.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"
#include "tiles.cuh"

namespace fa::ch14 {

/// Describes a matrix in panels of rows of 128 bytes: see chapter 09.
/// @param panel_bytes  from a panel to the next    @param group_bytes  from 8 rows to the next 8
__device__ __forceinline__ std::uint64_t descriptor(const void* s, int panel_bytes, int group_bytes) {
  return std::uint64_t(ptx::shared_address(s) / 16) | std::uint64_t(panel_bytes / 16) << 16 |
         std::uint64_t(group_bytes / 16) << 32 | std::uint64_t(1) << 62;
}

/// A warpgroup at work on a unit. Lane 4 * g + t of warp w has rows 16 * w + g and 16 * w + g + 8.
template <class Tile>
struct Warpgroup {
  using T = typename Tile::T;
  static constexpr int d = Tile::kHeadDim, kGroups = Tile::kKeys / 16;
  static constexpr int kGroupBytes = 16 * d * 2, kPanelBytes = 16 * 128;
  float o[d / 2] = {};
  float m[2] = {-FLT_MAX, -FLT_MAX};
  float l[2] = {};  ///< this lane's share
  float factor;
  std::uint64_t q;  ///< descriptor of Q

  /// Copies Q to shared memory. All threads of the block call it together.
  __device__ __forceinline__ Warpgroup(const Decoding<T>& a, const Unit& unit, SharedTiles<Tile>& s)
      : factor(a.score_factor(unit.kv_head)) {
    const T* gQ = a.q + unit.row_in(a) * d;
    for (int n = threadIdx.x; n < Tile::kRows * d / 8; n += Tile::kThreads) {
      const int row = n / (d / 8), col = n % (d / 8) * 8;
      const uint4 x =
          row < unit.rows ? *reinterpret_cast<const uint4*>(gQ + row * d + col) : make_uint4(0, 0, 0, 0);
      *reinterpret_cast<uint4*>(s.q + col / 64 * 64 * 64 + row * 64 + (col % 64 ^ row % 8 * 8)) = x;
    }
    ptx::fence_proxy_async();
    __syncthreads();  // Q is complete
    q = descriptor(s.q, 0, 8 * 128);
  }

  /// Multiplies a tile that has landed.
  __device__ __forceinline__ void multiply(Stage<Tile>& s, const Decoding<T>& a, const Unit& unit,
                                           int first_key) {
    if (first_key + Tile::kKeys > unit.length) {
      zero_after<Tile>(s, unit.length - first_key);
      ptx::barrier_sync(1 + int(threadIdx.x) / 128, 128);
    }
    float rS[2][Tile::kKeys / 4];  // of the first and the last 8 keys of each group
    const std::uint64_t k = descriptor(s.k, 0, kGroupBytes), v = descriptor(s.v, kPanelBytes, 8 * 128);
    ptx::wgmma_fence();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      ptx::wgmma<T, false, false, false>(rS[half], q, k + half * (8 * 128 / 16));
#pragma unroll
      for (int step = 1; step < d / 16; ++step)
        ptx::wgmma<T, true, false, false>(rS[half], q + (step / 4 * 64 * 128 + step % 4 * 32) / 16,
                                          k + (half * 8 * 128 + step / 4 * kPanelBytes + step % 4 * 32) / 16);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(rS[0], rS[1]);
    if (first_key + Tile::kKeys > unit.length - a.seq_q + 1) mask(rS, a, unit, first_key);
    rescale(rS);
    std::uint32_t p[kGroups][4];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = rS[i / 2] + 4 * group + i % 2 * 2;
        const float left = ptx::exp2_approx(fmaf(pair[0], factor, -m[i % 2]));
        const float right = ptx::exp2_approx(fmaf(pair[1], factor, -m[i % 2]));
        l[i % 2] += left + right;
        p[group][i] = pack<T>(left, right);
      }
    }
    ptx::wgmma_fence();
#pragma unroll
    for (int group = 0; group < kGroups; ++group)
      ptx::wgmma<T, true, true>(o, p[group], v + group * (kGroupBytes / 16));
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(o);
  }

  /// Stores O and the state of its rows for the merge of the block.
  __device__ __forceinline__ void store(SharedTiles<Tile>& s) {
    const int worker = threadIdx.x / 128, lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = threadIdx.x / 32 % 4 * 16 + lane / 4 + 8 * half;
      const float sum = warp_reduce<4>(l[half], Sum());
      if (lane % 4 == 0) s.state[worker][row] = {m[half], sum};
#pragma unroll
      for (int ni = 0; ni < d / 8; ++ni)
        *reinterpret_cast<float2*>(&s.o[worker][row][8 * ni + lane % 4 * 2]) = {o[4 * ni + 2 * half],
                                                                                o[4 * ni + 2 * half + 1]};
    }
  }

 private:
  /// Sets the scores of keys that a row does not see to -inf.
  __device__ __forceinline__ static void mask(float (&rS)[2][Tile::kKeys / 4], const Decoding<T>& a,
                                              const Unit& unit, int first_key) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int of_rows = 0; of_rows < 2; ++of_rows) {
      const int row = unit.first_row + threadIdx.x / 32 % 4 * 16 + lane / 4 + 8 * of_rows;
      const int seen = unit.length - a.hidden_keys(row) - first_key - lane % 4 * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          float* pair = rS[half] + 4 * group + 2 * of_rows;
          if (16 * group + 8 * half >= seen) pair[0] = -INFINITY;
          if (16 * group + 8 * half + 1 >= seen) pair[1] = -INFINITY;
        }
      }
    }
  }

  /// Lazy rescaling.
  __device__ __forceinline__ void rescale(const float (&rS)[2][Tile::kKeys / 4]) {
    float top[2];  // of this lane's keys
    bool grew = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      top[row] = -INFINITY;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < 4; ++i) top[row] = fmaxf(top[row], rS[i / 2][4 * group + 2 * row + i % 2]);
      }
      grew |= top[row] * factor - m[row] > kRescaleThreshold;
    }
    if (!__any_sync(kAllLanes, grew)) return;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float m_new = fmaxf(m[row], warp_reduce<4>(top[row], Max()) * factor);
      const float correction = ptx::exp2_approx(m[row] - m_new);
      m[row] = m_new;
      l[row] *= correction;
#pragma unroll
      for (int ni = 0; ni < d / 8; ++ni) {
        o[4 * ni + 2 * row] *= correction;
        o[4 * ni + 2 * row + 1] *= correction;
      }
    }
  }
};

}  // namespace fa::ch14
