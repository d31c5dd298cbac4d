/// @file
/// What a warp does with tiles in shared memory: S = Q K^T, the mask, P = 2^(s - m) and O += P V. In chapter
/// 06 these functions handle 16 queries per warp. Here a warp may have 32, so that each fragment of K and V
/// feeds two mma.
///
/// mi counts fragments from the top to the bottom of the warp's rows, ni from left to right.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/cp_async.cuh"
#include "device/fragments.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"
#include "device/tensor_core.cuh"

namespace fa::ch07 {

/// The scores of a warp's rows and a slice of keys, not yet scaled: fragments C, [rows / 16][keys / 8].
template <class Tile>
using Scores = float[Tile::kRowTiles][Tile::kSlice / 8][4];

/// What a warp carries from slice to slice. Index i of m and l is a row of the lane: row lane / 4 + 8 * i of
/// the warp.
template <class Tile>
struct Accumulators {
  float o[Tile::kRowTiles][Tile::kHeadDim / 8][4] = {};  ///< the sum of 2^(s - m) * v: fragments C
  float m[Tile::kLaneRows];       ///< the row's maximum times scale * log2 e, or up to kRescaleThreshold less
  float l[Tile::kLaneRows] = {};  ///< this lane's share of the row's sum of 2^(s - m)

  __device__ __forceinline__ Accumulators() {
    for (float& of_row : m) of_row = -FLT_MAX;  // finite: before the first key, 2^(-inf - m) is 0, not NaN
  }
};

/// The two neighbouring elements of one of its rows that this lane holds, in fragments C of Scores or of
/// Accumulators::o.
template <class Fragments>
__device__ __forceinline__ auto* row_pair(Fragments& c, int row, int ni) {
  return fa::row_pair(c[row / 2][ni], row % 2);
}

/// A warp's rows of Q as fragments A. They stay in registers, or are loaded from shared memory each time.
template <class Tile>
struct QueryFragments {
  static constexpr int kSteps = Tile::kHeadDim / 16;
  const typename Tile::T* sQ;  ///< the warp's rows
  std::uint32_t registers[kSteps][Tile::kRowTiles][4];

  __device__ __forceinline__ void load(std::uint32_t (&q)[Tile::kRowTiles][4], int step) const {
    const Coord from = row_for_a(threadIdx.x % 32);
    const int offset = Tile::Rows::offset(from.row, from.col);
#pragma unroll
    for (int mi = 0; mi < Tile::kRowTiles; ++mi)
      ldmatrix(q[mi], sQ + Tile::Rows::advance(offset, 16 * mi, 16 * step));
  }

  /// The fragments of columns 16 * step to 16 * step + 15.
  __device__ __forceinline__ void get(std::uint32_t (&q)[Tile::kRowTiles][4], int step) const {
    if constexpr (Tile::kQInRegisters) {
#pragma unroll
      for (int mi = 0; mi < Tile::kRowTiles; ++mi) {
#pragma unroll
        for (int i = 0; i < 4; ++i) q[mi][i] = registers[step][mi][i];
      }
    } else {
      load(q, step);
    }
  }
};

/// If Q stays in registers, waits until the block's Q has landed, and loads the warp's share of it.
///
/// @tparam kYounger  groups that were committed after Q's
template <class Tile, int kYounger>
__device__ __forceinline__ QueryFragments<Tile> load_queries(const typename Tile::T* sQ) {
  QueryFragments<Tile> rQ = {sQ};
  if constexpr (Tile::kQInRegisters) {
    cp_async_wait<kYounger>();
    __syncthreads();  // Q has landed
#pragma unroll
    for (int step = 0; step < rQ.kSteps; ++step) rQ.load(rQ.registers[step], step);
  }
  return rQ;
}

/// What columns 16 * step to 16 * step + 15 of Q and K add to S, for a slice of keys. Each fragment of K is
/// loaded once and multiplied with all rows of the warp.
template <class Tile>
__device__ __forceinline__ void multiply_qk_step(Scores<Tile>& rS, const QueryFragments<Tile>& rQ,
                                                 const typename Tile::T* sK, int step) {
  const Coord from = row_for_b(threadIdx.x % 32);
  const int offset = Tile::Rows::offset(from.row, from.col);
  std::uint32_t q[Tile::kRowTiles][4];
  rQ.get(q, step);
#pragma unroll
  for (int ni = 0; ni < Tile::kSlice / 8; ni += 2) {
    std::uint32_t k[4];  // 16 keys, 16 columns
    ldmatrix(k, sK + Tile::Rows::advance(offset, 8 * ni, 16 * step));
#pragma unroll
    for (int mi = 0; mi < Tile::kRowTiles; ++mi) {
      mma<typename Tile::T>(rS[mi][ni], q[mi], {k[0], k[1]});
      mma<typename Tile::T>(rS[mi][ni + 1], q[mi], {k[2], k[3]});
    }
  }
}

/// S += Q K^T for a slice of keys.
template <class Tile>
__device__ __forceinline__ void multiply_qk(Scores<Tile>& rS, const QueryFragments<Tile>& rQ,
                                            const typename Tile::T* sK) {
#pragma unroll
  for (int step = 0; step < Tile::kHeadDim / 16; ++step) multiply_qk_step<Tile>(rS, rQ, sK, step);
}

/// Sets the scores of keys that a row does not see to -inf. @param first_query  the warp's first
template <class Tile>
__device__ __forceinline__ void mask(Scores<Tile>& rS, const Attention<typename Tile::T>& a, int first_query,
                                     int first_key) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < Tile::kLaneRows; ++row) {
    const int seen = a.visible_keys(first_query + 8 * row + lane / 4) - first_key - lane % 4 * 2;
#pragma unroll
    for (int ni = 0; ni < Tile::kSlice / 8; ++ni) {
      float* pair = row_pair(rS, row, ni);
      if (8 * ni >= seen) pair[0] = -INFINITY;
      if (8 * ni + 1 >= seen) pair[1] = -INFINITY;
    }
  }
}

/// Lazy rescaling: the recurrence of chapter 03, skipped unless the maximum of one of the warp's rows has
/// grown by more than kRescaleThreshold. If it is skipped, O and l stay relative to the old maximum. That
/// does not change O / l, and P is at most 2^kRescaleThreshold.
template <class Tile>
__device__ __forceinline__ void rescale(Accumulators<Tile>& acc, const Scores<Tile>& rS, float factor) {
  float top[Tile::kLaneRows];  // of this lane's keys
  bool grew = false;
#pragma unroll
  for (int row = 0; row < Tile::kLaneRows; ++row) {
    top[row] = row_pair(rS, row, 0)[0];
#pragma unroll
    for (int ni = 0; ni < Tile::kSlice / 8; ++ni) {
      const float* pair = row_pair(rS, row, ni);
      top[row] = fmaxf(top[row], fmaxf(pair[0], pair[1]));
    }
    grew |= top[row] * factor - acc.m[row] > Tile::kRescaleThreshold;
  }
  // EXERCISE 3: Bring m, l and O of every row to the new maximum, but only if some lane of the warp found that one grew.
  if (!__any_sync(kAllLanes, grew)) return;  // the same answer in all lanes: they skip the shuffles together
#pragma unroll
  for (int row = 0; row < Tile::kLaneRows; ++row) {
    const float m = warp_reduce<4>(top[row], Max());
    const float m_new = fmaxf(acc.m[row], m * factor);
    const float correction = ptx::exp2_approx(acc.m[row] - m_new);
    acc.m[row] = m_new;
    acc.l[row] *= correction;
#pragma unroll
    for (int ni = 0; ni < Tile::kHeadDim / 8; ++ni) {
      float* pair = row_pair(acc.o, row, ni);
      pair[0] *= correction;
      pair[1] *= correction;
    }
  }
  // END 3
}

/// P = 2^(s - m) and O += P V, 16 keys at a time. The exponentials of the next 16 keys do not depend on the
/// products of these, and overlap with them.
template <class Tile>
__device__ __forceinline__ void multiply_pv(Accumulators<Tile>& acc, const Scores<Tile>& rS,
                                            const typename Tile::T* sV, float factor) {
  using T = typename Tile::T;
  const Coord from = row_for_a(threadIdx.x % 32);
  const int offset = Tile::Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::kSlice / 16; ++step) {
    std::uint32_t p[Tile::kRowTiles][4];  // two fragments C are one fragment A
#pragma unroll
    for (int mi = 0; mi < Tile::kRowTiles; ++mi) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 2 * mi + i % 2;
        const float* pair = row_pair(rS, row, 2 * step + i / 2);
        const float left = ptx::exp2_approx(fmaf(pair[0], factor, -acc.m[row]));
        const float right = ptx::exp2_approx(fmaf(pair[1], factor, -acc.m[row]));
        acc.l[row] += left + right;
        p[mi][i] = pack<T>(left, right);
      }
    }
#pragma unroll
    for (int ni = 0; ni < Tile::kHeadDim / 8; ni += 2) {
      std::uint32_t v[4];  // 16 keys, 16 columns
      ldmatrix_transposed(v, sV + Tile::Rows::advance(offset, 16 * step, 8 * ni));
#pragma unroll
      for (int mi = 0; mi < Tile::kRowTiles; ++mi) {
        mma<T>(acc.o[mi][ni], p[mi], {v[0], v[1]});
        mma<T>(acc.o[mi][ni + 1], p[mi], {v[2], v[3]});
      }
    }
  }
}

}  // namespace fa::ch07
