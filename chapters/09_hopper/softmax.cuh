/// @file
/// The online softmax on the accumulators of wgmma: what chapter 07 does, in another layout.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"
#include "products.cuh"

namespace fa::ch09 {

/// Maximum and sum of the two rows of a lane: lane / 4 and lane / 4 + 8 of its warp's 16.
struct RowState {
  float m[2] = {-FLT_MAX, -FLT_MAX};  ///< times scale * log2 e; finite: 2^(-inf - m) is 0, not NaN
  float l[2] = {0.0f, 0.0f};          ///< this lane's share
};

/// Sets the scores of keys that a row does not see to -inf. @param first_query  the warp's first
template <class Tile>
__device__ __forceinline__ void mask(Scores<Tile>& rS, const Attention<typename Tile::T>& a, int first_query,
                                     int first_key) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int seen = a.visible_keys(first_query + 8 * row + lane / 4) - first_key - lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < Tile::Bc / 8; ++n) {
      if (8 * n >= seen) rS[4 * n + 2 * row] = -INFINITY;
      if (8 * n + 1 >= seen) rS[4 * n + 2 * row + 1] = -INFINITY;
    }
  }
}

/// Raises m to the maximum of the scores, if it has grown by more than the threshold in some row of the warp.
///
/// @param correction  the factor by which what was summed before must shrink
/// @return  whether there is anything to correct: the same in all lanes
template <class Tile>
__device__ __forceinline__ bool raise_maximum(RowState& state, float (&correction)[2], const Scores<Tile>& rS,
                                              float factor) {
  float top[2];
  bool grew = false;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    top[row] = rS[2 * row];
#pragma unroll
    for (int n = 0; n < Tile::Bc / 8; ++n)
      top[row] = fmaxf(top[row], fmaxf(rS[4 * n + 2 * row], rS[4 * n + 2 * row + 1]));
    grew |= top[row] * factor - state.m[row] > Tile::kRescaleThreshold;
    correction[row] = 1.0f;
  }
  grew = __any_sync(kAllLanes, grew);
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

/// P = 2^(s - m), in place, and its sum.
template <class Tile>
__device__ __forceinline__ void exponentials(Scores<Tile>& rS, RowState& state, float factor) {
#pragma unroll
  for (int i = 0; i < Tile::Bc / 2; ++i) {
    const int row = i / 2 % 2;
    rS[i] = ptx::exp2_approx(fmaf(rS[i], factor, -state.m[row]));
    state.l[row] += rS[i];
  }
}

/// Rounds P to 16 bits. Eight accumulators of a lane are four registers of operand A: the layouts agree.
template <class Tile>
__device__ __forceinline__ void pack_p(Probabilities<Tile>& rP, const Scores<Tile>& rS) {
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      rP[step][i] = pack<typename Tile::T>(rS[8 * step + 2 * i], rS[8 * step + 2 * i + 1]);
  }
}

/// Multiplies the two rows of a lane.
template <int kSize>
__device__ __forceinline__ void scale_rows(float (&r)[kSize], const float (&by)[2]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) r[i] *= by[i / 2 % 2];
}

}  // namespace fa::ch09
