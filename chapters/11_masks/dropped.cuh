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
#include "kept.cuh"
#include "walk.cuh"

namespace fa::ch11 {

/// Which elements of P are kept: a word for every 32 keys, a bit for each of the lane's elements. Even
/// columns come first.
template <class Tile>
struct Kept {
  static_assert(Tile::kWarpRows == 32 && Tile::kSlice % 32 == 0);
  std::uint32_t words[Tile::kSlice / 32];

  /// A mask for two neighbouring elements: row `row` of the lane's rows, columns 8 * ni to 8 * ni + 7 of the
  /// slice.
  __device__ __forceinline__ std::uint32_t mask(int row, int ni) const {
    return kept_pair(words[ni / 4], Dropout::place(8 * row, 8 * ni));
  }
};

/// Draws for a slice. Of each 32 keys, a lane holds 32 elements of P, which two calls of Philox decide: one
/// for its even columns, one for its odd ones.
/// @param head  counts through all batches     @param first_query, first_key  of the warp and of the slice
template <class Tile>
__device__ __forceinline__ Kept<Tile> draw(const Dropout& dropout, int head, int first_query, int first_key) {
  const uint4 first =
      Dropout::counter(head, first_query + threadIdx.x % 32 / 4, first_key + threadIdx.x % 4 * 2);
  Kept<Tile> kept;
#pragma unroll
  for (int key = 0; key < Tile::kSlice; key += 32) {
    uint4 even = first, odd = first;
    even.y += Dropout::kStepOfTile * (key / 32);
    odd.y = even.y + Dropout::kStepOfColumn;
    // Two rounds at a time, of which neither waits for the other.
#pragma unroll
    for (const uint2& of_round : dropout.keys.of_round)
      even = philox_round(even, of_round), odd = philox_round(odd, of_round);
    kept.words[key / 32] = kept_by(dropout, even, odd);
  }
  return kept;
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
    std::uint32_t p[Tile::kRowTiles][4];  // two fragments C are one fragment A
#pragma unroll
    for (int mi = 0; mi < Tile::kRowTiles; ++mi) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 2 * mi + i % 2, ni = 2 * step + i / 2;
        const float* pair = ch07::row_pair(rS, row, ni);
        const float left = ptx::exp2_approx(fmaf(pair[0], factor, -acc.m[row]));
        const float right = ptx::exp2_approx(fmaf(pair[1], factor, -acc.m[row]));
        // EXERCISE 8: Add both to l, and pack those that dropout keeps.
        acc.l[row] += left + right;
        p[mi][i] = pack<T>(left, right) & kept.mask(row, ni);
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

/// The elements that dropout keeps, for device/unresolved_rows.cuh.
template <class T>
struct DroppedPairs : MaskedPairs<T> {
  const Dropout& dropout;

  __device__ __forceinline__ DroppedPairs(const MaskedPairs<T>& pairs, const Dropout& of_all)
      : MaskedPairs<T>(pairs), dropout(of_all) {}
  __device__ __forceinline__ float kept(int query, int key) const {
    return dropout.keeps(this->head, query, key) ? dropout.scale : 0.0f;
  }
};

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
