/// @file
/// What happens to S^T and dP^T between the products.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "backward.cuh"
#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/ptx.cuh"
#include "products.cuh"

namespace fa::ch10 {

/// Sets the scores of keys that a query does not see to -inf. @param first_key  the warp's first
template <class Tile>
__device__ __forceinline__ void mask(Scores<Tile>& rS, const Attention<typename Tile::T>& a, int first_query,
                                     int first_key) {
  const int lane = threadIdx.x % 32;
  // EXERCISE 3: Query i sees the first a.visible_keys(i) keys. Set the other scores to -INFINITY. Which scores does this lane hold?
#pragma unroll
  for (int n = 0; n < Tile::Br / 8; ++n) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int seen = a.visible_keys(first_query + 8 * n + lane % 4 * 2 + odd) - first_key - lane / 4;
      if (seen <= 0) rS[4 * n + odd] = -INFINITY;
      if (seen <= 8) rS[4 * n + 2 + odd] = -INFINITY;
    }
  }
  // END 3
}

/// Overwrites S with P = 2^(factor * S - log2_sum). @param log2_sum  of the query tile
template <class Tile>
__device__ __forceinline__ void probabilities(Scores<Tile>& rS, const float* log2_sum, float factor) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < Tile::Br / 8; ++n) {
    const float2 sum = *reinterpret_cast<const float2*>(log2_sum + 8 * n + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      rS[4 * n + i] = ptx::exp2_approx(fmaf(rS[4 * n + i], factor, -(i % 2 ? sum.y : sum.x)));
  }
}

/// Overwrites dP with dS = P * (dP - D), which still lacks the factor `scale`.
/// @param delta  of the query tile
template <class Tile>
__device__ __forceinline__ void score_gradients(Scores<Tile>& rdP, const Scores<Tile>& rP,
                                                const float* delta) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < Tile::Br / 8; ++n) {
    const float2 d = *reinterpret_cast<const float2*>(delta + 8 * n + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) rdP[4 * n + i] = rP[4 * n + i] * (rdP[4 * n + i] - (i % 2 ? d.y : d.x));
  }
}

/// Rounds P^T or dS^T to 16 bits, as operand A.
template <class Tile>
__device__ __forceinline__ void pack_operand(Operand<Tile>& to, const Scores<Tile>& from) {
#pragma unroll
  for (int step = 0; step < Tile::Br / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[step][i] = pack<typename Tile::T>(from[8 * step + 2 * i], from[8 * step + 2 * i + 1]);
  }
}

/// Stores a register of each lane: the pairs of 8 rows and 8 columns, into a tile. A tile is panels of kRows
/// rows and 64 columns, swizzled as TMA does it.
/// @param first_row  of the 8, a multiple of 8    @param n  the 8 columns begin at column 8 * n
template <int kRows, class T>
__device__ __forceinline__ void store_pair(T* tile, int first_row, int n, std::uint32_t pair) {
  const int lane = threadIdx.x % 32;
  // EXERCISE 4: Store the pair at its place in the swizzled row. Which row, and which of its columns, does this lane have?
  T* row = tile + n / 8 * kRows * 64 + (first_row + lane / 4) * 64;
  *reinterpret_cast<std::uint32_t*>(row + 8 * (n % 8 ^ lane / 4) + lane % 4 * 2) = pair;
  // END 4
}

/// Stores a warp's 16 keys of dS^T for dQ = dS K, as panels of 64 queries.
/// @param ds  a stage    @param warp_key  the warp's first key in the tile
template <class Tile>
__device__ __forceinline__ void store_ds(typename Tile::T* ds, const Operand<Tile>& rdS, int warp_key) {
#pragma unroll
  for (int step = 0; step < Tile::Br / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i)  // registers 0 and 1 are 8 keys apart, 0 and 2 are 8 queries apart
      store_pair<Tile::Bc>(ds, warp_key + 8 * (i % 2), 2 * step + i / 2, rdS[step][i]);
  }
}

}  // namespace fa::ch10
