/// @file
/// Q K^T of a warp, from shared memory to fragments of S, and the mask in them. Taught by chapter 06, where a warp has
/// 16 queries and a fragment of K feeds one row of mma; here it may have 32, and feed two.
///
/// Tile has T, Rows, kHeadDim, kSlice, kRowTiles, kLaneRows, kKeepQ and kFragmentDoubleBuffer: see MultiStageTiles of
/// chapter 07.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "device/attention.cuh"
#include "device/fragments.cuh"
#include "device/swizzle.cuh"
#include "device/tensor_core.cuh"

namespace fa {

/// S of a warp's rows and a slice of keys: fragments C, [rows / 16][keys / 8].
template <class Tile>
using Scores = float[Tile::kRowTiles][Tile::kSlice / 8][4];

/// A warp's rows of Q as fragments A, where the policy keeps them.
template <class Tile>
struct QueryFragments {
  const typename Tile::T* sQ;  ///< of the warp
  std::uint32_t kept[Tile::kHeadDim / 16][Tile::kRowTiles][4];

  __device__ __forceinline__ void load(std::uint32_t (&q)[Tile::kRowTiles][4], int step) const {
    const Coord from = row_for_a(threadIdx.x % 32);
    const int at = Tile::Rows::offset(from.row, from.col);
#pragma unroll
    for (int m = 0; m < Tile::kRowTiles; ++m) ldmatrix(q[m], sQ + Tile::Rows::advance(at, 16 * m, 16 * step));
  }
};

/// use(fragment, i) for kCount fragments, each after load(fragment, i). With a double buffer the next one is loaded
/// before this one is used.
template <bool kDoubleBuffer, int kCount, class Load, class Use>
__device__ __forceinline__ void for_each_fragment(const Load& load, const Use& use) {
  constexpr int kLead = kDoubleBuffer ? 1 : 0;
  std::uint32_t fragments[1 + kLead][4];
  if (kDoubleBuffer) load(fragments[0], 0);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i + kLead < kCount) load(fragments[(i + kLead) % (1 + kLead)], i + kLead);
    use(fragments[i % (1 + kLead)], i);
  }
}

/// S += Q K^T. Each fragment of K is loaded once and multiplied with all rows of the warp.
template <class Tile>
__device__ __forceinline__ void multiply_qk(Scores<Tile>& rS, const QueryFragments<Tile>& rQ,
                                            const typename Tile::T* sK) {
  const Coord from = row_for_b(threadIdx.x % 32);
  const int at = Tile::Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::kHeadDim / 16; ++step) {
    std::uint32_t loaded[Tile::kRowTiles][4];
    if constexpr (!Tile::kKeepQ) rQ.load(loaded, step);
    const auto& q = Tile::kKeepQ ? rQ.kept[step] : loaded;
    for_each_fragment<Tile::kFragmentDoubleBuffer, Tile::kSlice / 16>(  // 16 keys, 16 columns
        [&](std::uint32_t(&k)[4], int i) { ldmatrix(k, sK + Tile::Rows::advance(at, 16 * i, 16 * step)); },
        [&](const std::uint32_t(&k)[4], int i) {
#pragma unroll
          for (int m = 0; m < Tile::kRowTiles; ++m) {
            mma<typename Tile::T>(rS[m][2 * i], q[m], {k[0], k[1]});
            mma<typename Tile::T>(rS[m][2 * i + 1], q[m], {k[2], k[3]});
          }
        });
  }
}

/// Scores of keys that a row does not see become -inf. @param first_query  of the warp
template <class Tile>
__device__ __forceinline__ void mask(Scores<Tile>& rS, const Attention<typename Tile::T>& a, int first_query,
                                     int first_key) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < Tile::kLaneRows; ++row) {
    const int seen = a.visible_keys(first_query + 8 * row + lane / 4) - first_key - lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < Tile::kSlice / 8; ++n) {
      float* pair = &rS[row / 2][n][row % 2 * 2];
      if (8 * n >= seen) pair[0] = -INFINITY;
      if (8 * n + 1 >= seen) pair[1] = -INFINITY;
    }
  }
}

}  // namespace fa
