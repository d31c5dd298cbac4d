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

/// multiply_pv() of chapter 07 with dropout: l sums all of P, and O what is kept. For 32 rows and 32 keys, a lane holds 32 elements
/// of P, which two calls of Philox decide: one for its even columns, one for its odd ones.
///
/// @param head  counts through all batches     @param first_query, first_key  of the warp and of the slice
template <class Tile>
__device__ __forceinline__ void multiply_dropped_pv(ch07::Accumulators<Tile>& acc,
                                                    const ch07::Scores<Tile>& rS, const typename Tile::T* sV,
                                                    float factor, const Dropout& dropout, int head,
                                                    int first_query, int first_key) {
  using T = typename Tile::T;
  static_assert(Tile::kWarpRows == 32 && Tile::kSlice % 32 == 0);
  const int lane = threadIdx.x % 32;
  const Coord from = row_for_a(lane);
  const int at = Tile::Rows::offset(from.row, from.col);
  std::uint32_t even[4],
      odd[4];  // which elements are kept: a word for each 8 columns, a byte for each 8 rows
#pragma unroll
  for (int step = 0; step < Tile::kSlice / 16; ++step) {
    if (step % 2 == 0) {
      const int row = first_query + lane / 4, col = first_key + 16 * step + lane % 4 * 2;
      dropout.keeps(even, head, row, col);
      dropout.keeps(odd, head, row, col + 1);
    }
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
