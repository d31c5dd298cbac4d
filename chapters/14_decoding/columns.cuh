/// @file
/// What a warp does with a tile of keys for a few rows of Q, which are the columns of its products:
///
///   S^T = K Q^T        16 keys x 8 rows of Q at a time, K as operand A
///   O^T += V^T P^T     16 columns of V x 8 rows of Q at a time, V^T as operand A
///
/// mma computes 16 x 8 elements. Were the rows of Q the rows of its result, at least 16 of them would be
/// needed to fill it; here eight are.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "decoding.cuh"
#include "device/convert.cuh"
#include "device/fragments.cuh"
#include "device/hopper.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"
#include "device/tensor_core.cuh"
#include "tiles.cuh"

namespace fa::ch14 {

inline constexpr float kRescaleThreshold = 8.0f;  ///< as in chapter 07: P is at most 2^8

/// O of a warp, and the state of its rows. Lane 4 * g + t has columns 2 * t and 2 * t + 1 of each fragment:
/// rows 8 * ni + 2 * t and the one after.
template <class Tile>
struct WarpOutput {
  static constexpr int kN = Tile::kRows / 8;  ///< fragments next to one another
  float o[Tile::kHeadDim / 16][kN][4] = {};   ///< O^T, relative to m
  float m[kN][2];                             ///< at most kRescaleThreshold below the maximum
  float l[kN][2] = {};                        ///< this lane's share of the sum

  __device__ __forceinline__ WarpOutput() {
#pragma unroll
    for (int ni = 0; ni < kN; ++ni) m[ni][0] = m[ni][1] = -FLT_MAX;  // finite: -inf - m is -inf, not NaN
  }
};

/// The scores of a tile: S^T, fragments C, [keys / 16][rows / 8].
template <class Tile>
using ColumnScores = float[Tile::kKeys / 16][Tile::kRows / 8][4];

/// Q^T as fragments B, which stay in registers. Rows past the last one are zeros.
template <class Tile>
struct Queries {
  using T = typename Tile::T;
  static constexpr int kSteps = Tile::kHeadDim / 16;
  std::uint32_t b[kSteps][Tile::kRows / 8][2];

  /// @param gQ  the first of `rows` rows
  __device__ __forceinline__ void load(const T* gQ, int rows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int ni = 0; ni < Tile::kRows / 8; ++ni) {
      const int row = 8 * ni + lane / 4;
      const T* from = gQ + row * Tile::kHeadDim + lane % 4 * 2;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          b[step][ni][i] = row < rows ? *reinterpret_cast<const std::uint32_t*>(from + 16 * step + 8 * i) : 0;
      }
    }
  }
};

/// S^T = K Q^T.
template <class Tile>
__device__ __forceinline__ void multiply_kq(ColumnScores<Tile>& rS, const typename Tile::T* sK,
                                            const Queries<Tile>& rQ) {
  using Rows = Grouped<Tile::kHeadDim>;
  const Coord from = row_for_a(threadIdx.x % 32);
  const int offset = Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::kHeadDim / 16; ++step) {
#pragma unroll
    for (int ki = 0; ki < Tile::kKeys / 16; ++ki) {
      std::uint32_t k[4];
      ldmatrix(k, sK + Rows::advance(offset, 16 * ki, 16 * step));
#pragma unroll
      for (int ni = 0; ni < Tile::kRows / 8; ++ni) mma<typename Tile::T>(rS[ki][ni], k, rQ.b[step][ni]);
    }
  }
}

/// Sets the scores of keys that a row does not see to -inf.
template <class Tile, class T>
__device__ __forceinline__ void mask(ColumnScores<Tile>& rS, const Decoding<T>& a, const Unit& unit,
                                     int first_key) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int ni = 0; ni < Tile::kRows / 8; ++ni) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int row = unit.first_row + 8 * ni + lane % 4 * 2 + e;
      const int seen = unit.length - a.hidden_keys(row) - first_key - lane / 4;
#pragma unroll
      for (int ki = 0; ki < Tile::kKeys / 16; ++ki) {
        if (16 * ki >= seen) rS[ki][ni][e] = -INFINITY;
        if (16 * ki + 8 >= seen) rS[ki][ni][2 + e] = -INFINITY;
      }
    }
  }
}

/// Lazy rescaling, as in chapter 07: unless the maximum of some row has grown by more than
/// kRescaleThreshold, O and l stay relative to the old one.
template <class Tile>
__device__ __forceinline__ void rescale(WarpOutput<Tile>& acc, const ColumnScores<Tile>& rS, float factor) {
  constexpr int kN = Tile::kRows / 8;
  float top[kN][2];  // of this lane's keys
  bool grew = false;
#pragma unroll
  for (int ni = 0; ni < kN; ++ni) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      top[ni][e] = fmaxf(rS[0][ni][e], rS[0][ni][2 + e]);
#pragma unroll
      for (int ki = 1; ki < Tile::kKeys / 16; ++ki)
        top[ni][e] = fmaxf(top[ni][e], fmaxf(rS[ki][ni][e], rS[ki][ni][2 + e]));
      grew |= top[ni][e] * factor - acc.m[ni][e] > kRescaleThreshold;
    }
  }
  if (!__any_sync(kAllLanes, grew)) return;
#pragma unroll
  for (int ni = 0; ni < kN; ++ni) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float m = top[ni][e];
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) m = fmaxf(m, shuffle_xor(m, distance));
      const float m_new = fmaxf(acc.m[ni][e], m * factor);
      const float correction = ptx::exp2_approx(acc.m[ni][e] - m_new);
      acc.m[ni][e] = m_new;
      acc.l[ni][e] *= correction;
#pragma unroll
      for (int mi = 0; mi < Tile::kHeadDim / 16; ++mi) {
        acc.o[mi][ni][e] *= correction;
        acc.o[mi][ni][2 + e] *= correction;
      }
    }
  }
}

/// P^T = 2^(s - m) for 16 keys, as fragments B in 16 bits, and adds to l. Fragment C has keys in its rows and
/// must have them in its columns: movmatrix transposes 8 x 8 elements.
template <class Tile, class InProduct>
__device__ __forceinline__ void exponentiate(std::uint32_t (&p)[Tile::kRows / 8][2], WarpOutput<Tile>& acc,
                                             const float (&rS)[Tile::kRows / 8][4], float factor) {
#pragma unroll
  for (int ni = 0; ni < Tile::kRows / 8; ++ni) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float left = ptx::exp2_approx(fmaf(rS[ni][2 * half], factor, -acc.m[ni][0]));
      const float right = ptx::exp2_approx(fmaf(rS[ni][2 * half + 1], factor, -acc.m[ni][1]));
      acc.l[ni][0] += left;
      acc.l[ni][1] += right;
      p[ni][half] = ptx::movmatrix_transposed(pack<InProduct>(left, right));
    }
  }
}

/// O^T += V^T P^T.
template <class Tile>
__device__ __forceinline__ void multiply_vp(WarpOutput<Tile>& acc, const ColumnScores<Tile>& rS,
                                            const typename Tile::T* sV, float factor) {
  using T = typename Tile::T;
  using Rows = Grouped<Tile::kHeadDim>;
  const Coord from = row_for_b(threadIdx.x % 32);
  const int offset = Rows::offset(from.row, from.col);
#pragma unroll
  for (int ki = 0; ki < Tile::kKeys / 16; ++ki) {
    std::uint32_t p[Tile::kRows / 8][2];
    exponentiate<Tile, T>(p, acc, rS[ki], factor);
#pragma unroll
    for (int mi = 0; mi < Tile::kHeadDim / 16; ++mi) {
      std::uint32_t v[4];  // V^T: 16 columns of V, 16 keys
      ldmatrix_transposed(v, sV + Rows::advance(offset, 16 * ki, 16 * mi));
#pragma unroll
      for (int ni = 0; ni < Tile::kRows / 8; ++ni) mma<T>(acc.o[mi][ni], v, p[ni]);
    }
  }
}

/// Zeros the keys and values from key `valid` of a tile on: copies bring whatever is there, or leave out
/// what no sequence has, and 0 * NaN is NaN. Threads must meet before others read the tile.
template <class Tile>
__device__ __forceinline__ void zero_after(Stage<Tile>& s, int valid) {
  constexpr int kRowChunks = Tile::kPanel * int(sizeof(typename Tile::Element)) / 16;  // of a panel
  constexpr int kChunks = Tile::kKeys * Tile::kPanels * kRowChunks;
  for (int n = threadIdx.x % Tile::kWorkerThreads; n < kChunks; n += Tile::kWorkerThreads) {
    const int row = n / kRowChunks;  // counts through panels and groups
    const int key = Tile::kPanels == 1 ? row : row / (16 * Tile::kPanels) * 16 + row % 16;
    if (key >= valid) {
      reinterpret_cast<uint4*>(s.k)[n] = make_uint4(0, 0, 0, 0);
      reinterpret_cast<uint4*>(s.v)[n] = make_uint4(0, 0, 0, 0);
    }
  }
  __syncwarp();                                          // lanes have stored different numbers of chunks
  if constexpr (Tile::kByTma) ptx::fence_proxy_async();  // before wgmma reads zeros, or TMA overwrites them
}

/// A warp at work on a unit.
template <class Tile>
struct Warp {
  Queries<Tile> rQ;
  WarpOutput<Tile> acc;
  float factor;

  template <class T>
  __device__ __forceinline__ Warp(const Decoding<T>& a, const Unit& unit, SharedTiles<Tile>&)
      : factor(a.score_factor(unit.kv_head)) {
    rQ.load(a.q + unit.row_in(a) * Tile::kHeadDim, unit.rows);
  }

  /// Multiplies a tile that has landed.
  template <class T>
  __device__ __forceinline__ void multiply(Stage<Tile>& s, const Decoding<T>& a, const Unit& unit,
                                           int first_key) {
    if (first_key + Tile::kKeys > unit.length) {
      zero_after<Tile>(s, unit.length - first_key);
      __syncwarp();
    }
    ColumnScores<Tile> rS = {};
    multiply_kq<Tile>(rS, s.k, rQ);
    if (first_key + Tile::kKeys > unit.length - a.seq_q + 1) mask<Tile>(rS, a, unit, first_key);
    rescale<Tile>(acc, rS, factor);
    multiply_vp<Tile>(acc, rS, s.v, factor);
  }

  /// Stores O and the state of its rows for the merge of the block.
  __device__ __forceinline__ void store(SharedTiles<Tile>& s) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int ni = 0; ni < Tile::kRows / 8; ++ni) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = 8 * ni + lane % 4 * 2 + e;
        float l = acc.l[ni][e];
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) l += shuffle_xor(l, distance);
        if (lane / 4 == 0) s.state[warp][row] = {acc.m[ni][e], l};
#pragma unroll
        for (int mi = 0; mi < Tile::kHeadDim / 16; ++mi) {
          s.o[warp][row][16 * mi + lane / 4] = acc.o[mi][ni][e];
          s.o[warp][row][16 * mi + lane / 4 + 8] = acc.o[mi][ni][2 + e];
        }
      }
    }
  }
};

}  // namespace fa::ch14
