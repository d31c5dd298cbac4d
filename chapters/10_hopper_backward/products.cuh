/// @file
/// The five products of the backward pass by wgmma, for a warpgroup's 64 keys. Keys are rows: S^T = K Q^T,
/// dP^T = V dO^T. P^T and dS^T then have the layout of operand A of dV = P^T dO and dK = dS^T Q. Only dQ = dS
/// K needs dS in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward.cuh"
#include "device/hopper.cuh"

namespace fa::ch10 {

/// S^T or dP^T of a query tile: element i of a lane is in row lane / 4 + 8 * (i / 2 % 2) of its warp's 16
/// keys, column 8 * (i / 4) + 2 * (lane % 4) + i % 2.
template <class Tile>
using Scores = float[Tile::Br / 2];
/// P^T or dS^T in 16 bits, as operand A: registers of 16 queries at a time.
template <class Tile>
using Operand = std::uint32_t[Tile::Br / 16][4];
/// The same rows of dK or dV.
template <class Tile>
using KeyGradient = float[Tile::kHeadDim / 2];
/// This warpgroup's part of dQ: 64 queries, kDqCols columns.
template <class Tile>
using DqPart = float[Tile::kDqCols / 2];

/// Issues S^T = K Q^T or dP^T = V dO^T.
/// @param keys  the warpgroup's first row in a tile of Bc rows    @param queries  a tile of Br rows
template <class Tile>
__device__ __forceinline__ void issue_scores(Scores<Tile>& r, std::uint64_t keys, std::uint64_t queries) {
  using T = typename Tile::T;
  ptx::wgmma<T, false, false, false>(r, keys, queries);
#pragma unroll
  for (int step = 1; step < Tile::kHeadDim / 16; ++step) {  // 16 columns are 32 bytes, 64 are a panel
    const int panel = step / 4, in_panel = step % 4 * 32;
    ptx::wgmma<T, true, false, false>(r, moved(keys, panel * Tile::Bc * 128 + in_panel),
                                      moved(queries, panel * Tile::Br * 128 + in_panel));
  }
}

/// Issues dV += P^T dO or dK += dS^T Q. @param queries  a tile of Br rows
template <class Tile>
__device__ __forceinline__ void issue_key_gradient(KeyGradient<Tile>& r, const Operand<Tile>& a,
                                                   std::uint64_t queries) {
#pragma unroll
  for (int step = 0; step < Tile::Br / 16; ++step)  // 16 queries are 16 rows of 128 bytes
    ptx::wgmma<typename Tile::T, true, true>(r, a[step], moved(queries, step * 16 * 128));
}

/// Issues this warpgroup's part of dQ = dS K, over all keys of the block.
/// @param ds  the dS^T of 64 queries; its rows are keys    @param k  kDqCols columns of K
template <class Tile>
__device__ __forceinline__ void issue_dq(DqPart<Tile>& r, std::uint64_t ds, std::uint64_t k) {
  using T = typename Tile::T;
  // EXERCISE 2: Overwrite r with the sum over all keys. What does a step of 16 keys add to each of the two descriptors?
  ptx::wgmma<T, false, true, true>(r, ds, k);
#pragma unroll
  for (int step = 1; step < Tile::Bc / 16; ++step)  // 16 keys are 16 rows of 128 bytes in both
    ptx::wgmma<T, true, true, true>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));
  // END 2
}

}  // namespace fa::ch10
