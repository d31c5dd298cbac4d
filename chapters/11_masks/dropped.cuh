/// @file
/// Dropout of P between the softmax and P V.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "07_multi_stage/softmax.cuh"
#include "device/convert.cuh"
#include "device/dropout.cuh"
#include "device/fragments.cuh"
#include "device/ptx.cuh"
#include "device/tensor_core.cuh"

namespace fa::ch11 {

/// A mask for a pair of 16-bit elements: for each of them ones if it is kept, otherwise zeros.
/// @param left, right  what Dropout::keeps() says of the column of each     @param row  0 to 3: the byte
__device__ __forceinline__ std::uint32_t kept_pair(std::uint32_t left, std::uint32_t right, int row) {
  return ptx::prmt(left, right, 0xcc88 + 0x1111 * row);  // the sign of byte `row`, of each, twice
}

/// The random numbers for a warp's share of a slice. For 32 rows and 32 keys, a lane holds 32 elements of P, which two calls of
/// Philox decide: one for its even columns, one for its odd ones.
template <class Tile>
struct Draws {
  static_assert(Tile::kWarpRows == 32 && Tile::kSlice % 32 == 0);
  static constexpr int kParts = Tile::kSlice / 32;
  uint4 words[kParts][2];  ///< of even and of odd columns

  /// @param head  counts through all batches     @param first_query, first_key  of the warp and of the slice
  __device__ __forceinline__ Draws(int head, int first_query, int first_key) {
    const int row = first_query + threadIdx.x % 32 / 4, col = first_key + threadIdx.x % 4 * 2;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) words[part][odd] = Dropout::counter(head, row, col + 32 * part + odd);
    }
  }
  /// Rounds first to end - 1 of all calls.
  __device__ __forceinline__ void rounds(int first, int end, uint2 seed) {
#pragma unroll
    for (int round = first; round < end; ++round) {
#pragma unroll
      for (auto& of_part : words) {
#pragma unroll
        for (uint4& x : of_part) x = philox_round(x, seed, round);
      }
    }
  }
  /// Keeps what has been computed so far from being moved to where it is used, after the scores.
  __device__ __forceinline__ void stay() {
#pragma unroll
    for (auto& of_part : words) {
#pragma unroll
      for (uint4& x : of_part) {
        for (std::uint32_t* word : {&x.x, &x.y, &x.z, &x.w}) *word = ptx::unknown(int(*word));
      }
    }
  }
};

/// Which elements of P are kept: a word for each 8 columns, a byte for each 8 rows.
template <class Tile>
struct Kept {
  std::uint32_t even[Draws<Tile>::kParts][4], odd[Draws<Tile>::kParts][4];

  __device__ __forceinline__ Kept(const Dropout& dropout, const Draws<Tile>& drawn) {
#pragma unroll
    for (int part = 0; part < Draws<Tile>::kParts; ++part) {
      dropout.keeps(even[part], drawn.words[part][0]);
      dropout.keeps(odd[part], drawn.words[part][1]);
    }
  }
};

/// Draws for a share.
template <class Tile>
__device__ __forceinline__ Kept<Tile> draw(const Dropout& dropout, int head, int first_query, int first_key) {
  Draws<Tile> draws(head, first_query, first_key);
  draws.rounds(0, kPhiloxRounds, dropout.seed);
  return {dropout, draws};
}

/// multiply_qk() and draw(). The numbers do not depend on the scores: a few rounds of Philox follow the products of each step,
/// and the warp can compute them while its last products are still under way.
template <class Tile>
__device__ __forceinline__ Kept<Tile> draw_during_qk(ch07::Scores<Tile>& rS,
                                                     const ch07::QueryFragments<Tile>& rQ,
                                                     const typename Tile::T* sK, const Dropout& dropout,
                                                     int head, int first_query, int first_key) {
  constexpr int kSteps = Tile::kHeadDim / 16;
  Draws<Tile> draws(head, first_query, first_key);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    ch07::multiply_qk_step<Tile>(rS, rQ, sK, step);
    draws.rounds(step * kPhiloxRounds / kSteps, (step + 1) * kPhiloxRounds / kSteps, dropout.seed);
    draws.stay();
  }
  return {dropout, draws};
}

/// multiply_pv() of chapter 07 with dropout: l sums all of P, and O what is kept.
template <class Tile>
__device__ __forceinline__ void multiply_dropped_pv(ch07::Accumulators<Tile>& acc,
                                                    const ch07::Scores<Tile>& rS, const typename Tile::T* sV,
                                                    float factor, const Kept<Tile>& kept) {
  using T = typename Tile::T;
  const Coord from = row_for_a(threadIdx.x % 32);
  const int at = Tile::Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::kSlice / 16; ++step) {
    const auto &even = kept.even[step / 2], &odd = kept.odd[step / 2];
    std::uint32_t p[Tile::kRowTiles][4];  // two fragments C are one fragment A
#pragma unroll
    for (int mi = 0; mi < Tile::kRowTiles; ++mi) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 2 * mi + i % 2, ni = 2 * step + i / 2;
        const float* pair = ch07::row_pair(rS, row, ni);
        const float left = ptx::exp2_approx(pair[0] * factor - acc.m[row]);
        const float right = ptx::exp2_approx(pair[1] * factor - acc.m[row]);
        // EXERCISE 8: Add both to l, and pack those that dropout keeps. kept_pair() turns what even and odd say into a mask.
        acc.l[row] += left + right;
        p[mi][i] = pack<T>(left, right) & kept_pair(even[ni % 4], odd[ni % 4], row);
        // END 8
      }
    }
#pragma unroll
    for (int ni = 0; ni < Tile::kHeadDim / 8; ni += 2) {
      std::uint32_t v[4];  // 16 keys, 16 columns
      ldmatrix_transposed(v, sV + Tile::Rows::advance(at, 16 * step, 8 * ni));
#pragma unroll
      for (int mi = 0; mi < Tile::kRowTiles; ++mi) {
        mma<T>(acc.o[mi][ni], p[mi], {v[0], v[1]});
        mma<T>(acc.o[mi][ni + 1], p[mi], {v[2], v[3]});
      }
    }
  }
}

/// O of the elements that are kept is a sum of fewer: scaled up, its expectation is that of all.
template <class Tile>
__device__ __forceinline__ void scale(ch07::Accumulators<Tile>& acc, float by) {
#pragma unroll
  for (auto& of_rows : acc.o) {
#pragma unroll
    for (auto& fragment : of_rows) {
#pragma unroll
      for (float& o : fragment) o *= by;
    }
  }
}

}  // namespace fa::ch11
