/// @file
/// Dropout of P between the softmax and P V: which elements are kept, and P V of these.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "07_multi_stage/softmax.cuh"
#include "device/convert.cuh"
#include "device/dropout.cuh"
#include "device/fragments.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"
#include "device/tensor_core.cuh"

namespace fa::ch11 {

/// Which of the 32 elements that two answers of Philox decide are kept: bit Dropout::place() is for an
/// element of the first answer, 16 bits further up for one of the second.
__device__ __forceinline__ std::uint32_t kept_by(const Dropout& dropout, const uint4& first,
                                                 const uint4& second) {
  const std::uint32_t low[] = {first.x, first.y, first.z, first.w},
                      high[] = {second.x, second.y, second.z, second.w};
  std::uint32_t bits[Dropout::kBits];
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    bits[2 * word] = ptx::prmt(low[word], high[word], 0x5410);      // their lower halves
    bits[2 * word + 1] = ptx::prmt(low[word], high[word], 0x7632);  // their upper halves
  }
  return dropout.keeps(bits);
}

/// A mask for two neighbouring 16-bit elements: for each of them ones if it is kept, otherwise zeros.
/// @param kept  by answers for the left one and for the right one     @param place  of both
__device__ __forceinline__ std::uint32_t kept_pair(std::uint32_t kept, int place) {
  const std::uint32_t bits =
      kept << (7 - place % 8);  // theirs are now the signs of bytes 0 and 2, or 1 and 3
  return ptx::prmt(bits, 0, place < 8 ? 0xaa88 : 0xbb99);
}

/// Which elements of P are kept: a word for every 32 keys, a bit for each of the lane's elements. Even
/// columns come first.
template <class Tile>
struct Kept {
  std::uint32_t words[Tile::kSlice / 32];

  /// A mask for two neighbouring elements: row `row` of the lane's rows, columns 8 * ni to 8 * ni + 7 of the
  /// slice.
  __device__ __forceinline__ std::uint32_t mask(int row, int ni) const {
    return kept_pair(words[ni / 4], Dropout::place(8 * row, 8 * ni));
  }
};

/// Draws for a slice. A lane holds 32 elements of P for each 32 keys. Two calls of Philox decide these: one
/// for its even columns, one for its odd ones.
/// @param head  counts through all batches     @param first_query, first_key  of the warp and of the slice
template <class Tile>
__device__ __forceinline__ Kept<Tile> draw(const Dropout& dropout, int head, int first_query, int first_key) {
  static_assert(Tile::kWarpRows == 32 && Tile::kSlice % 32 == 0);
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
__device__ __forceinline__ void multiply_pv(ch07::Accumulators<Tile>& acc, const ch07::Scores<Tile>& rS,
                                            const typename Tile::T* sV, float factor,
                                            const Kept<Tile>& kept) {
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
      ldmatrix_transposed(v, sV + Tile::Rows::advance(offset, 16 * step, 8 * ni));
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

/// Dropout of P, passed to a kernel by value.
struct WithDropout {
  Dropout dropout;

  template <class Tile>
  struct OfWarp {
    const Dropout& dropout;
    int head, first_query;
    /// Draws for the slice that begins at a key.
    __device__ __forceinline__ Kept<Tile> operator()(int first_key) const {
      return draw<Tile>(dropout, head, first_query, first_key);
    }
    __device__ __forceinline__ void scale(ch07::Accumulators<Tile>& acc) const {
      ch11::scale<Tile>(acc, dropout.scale);
    }
  };
  template <class Tile>
  __device__ __forceinline__ OfWarp<Tile> of_warp(int head, int first_query) const {
    return {dropout, head, first_query};
  }
  /// A number that is the same in all lanes. The shuffle shows the compiler that it is, and fewer registers
  /// are spilled.
  __device__ __forceinline__ static int same_in_warp(int x) { return __shfl_sync(kAllLanes, x, 0); }
  /// By what an element of P is multiplied before P V.
  __device__ __forceinline__ float factor(int head, int query, int key) const {
    return dropout.keeps(head, query, key) ? dropout.scale : 0.0f;
  }
};

}  // namespace fa::ch11
