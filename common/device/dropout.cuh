/// @file
/// Which elements of P dropout keeps. Taught by chapter 11.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "device/philox.cuh"

namespace fa {

/// Dropout of P, passed to a kernel by value. An element is kept or dropped because of its seed, head, row and column alone:
/// however the work is divided, it is the same, and the backward pass draws again what the forward pass drew.
///
/// One call of Philox decides 16 elements, with 8 bits for each: rows r, r + 8, r + 16 and r + 24 and columns c, c + 8, c + 16 and
/// c + 24 of a 32 x 32 tile, r < 8 and c < 8. A lane that has 32 x 32 scores of a warp as fragments C holds all elements of
/// two calls, whether rows are queries or keys.
struct Dropout {
  static constexpr int kOf = 256;

  std::uint32_t kept;  ///< of 256 elements, on average; 256: all
  uint2 seed;
  float
      scale;  ///< of those that are kept: 256 / kept, so that the expectation of O is what it is without dropout
  std::uint32_t add, either;  ///< what `kept` means to keeps()

  /// @param probability  of dropping an element, at least 0 and below 1; rounded to a multiple of 1 / 256
  static Dropout of(double probability, std::uint64_t seed) {
    const auto kept = std::uint32_t(std::max(1l, std::lround((1 - probability) * kOf)));
    return {.kept = kept,
            .seed = {std::uint32_t(seed), std::uint32_t(seed >> 32)},
            .scale = float(double(kOf) / kept),
            .add = (kept <= 128 ? 128 - kept : 256 - kept) * 0x01010101,
            .either = kept <= 128 ? 0xffffffff : 0};
  }

  /// The random bits of 16 elements. A word is for a column, c, c + 8, .., from x to w; a byte of it for a row, r, r + 8, ..,
  /// from the lowest.
  /// @param head  counts through all batches    @param row, col  any of the 16 elements
  __host__ __device__ __forceinline__ uint4 bits(int head, int row, int col) const {
    return philox(counter(head, row, col), seed);
  }
  /// What the call is given that decides them.
  __host__ __device__ __forceinline__ static uint4 counter(int head, int row, int col) {
    return {std::uint32_t(row / 32), std::uint32_t(col / 32), std::uint32_t(row % 8 * 8 + col % 8),
            std::uint32_t(head)};
  }

  /// Whether an element is kept.
  __host__ __device__ bool keeps(int head, int row, int col) const {
    const uint4 all = bits(head, row, col);
    const std::uint32_t words[] = {all.x, all.y, all.z, all.w};
    return (words[col % 32 / 8] >> row % 32 / 8 * 8 & 0xff) < kept;
  }

  /// The same for the four bytes of a word at once: the top bit of each byte says whether its element is kept.
  ///
  /// For 7 bits, x >= t exactly if x + (128 - t) has the top bit, and no byte carries into the next one. The eighth bit decides
  /// alone unless it is the same in x and in `kept`: the majority of three bits.
  __host__ __device__ __forceinline__ std::uint32_t keeps(std::uint32_t word) const {
    const std::uint32_t reaches = (word & 0x7f7f7f7f) + add;
    return ~((reaches & word) | (reaches & either) | (word & either));
  }

  /// keeps() of the words of a call. @param row, col  any of its 16 elements
  __device__ __forceinline__ void keeps(std::uint32_t (&words)[4], int head, int row, int col) const {
    keeps(words, bits(head, row, col));
  }
  /// The same from what the call has returned.
  __device__ __forceinline__ void keeps(std::uint32_t (&words)[4], const uint4& all) const {
    words[0] = keeps(all.x), words[1] = keeps(all.y), words[2] = keeps(all.z), words[3] = keeps(all.w);
  }
};

}  // namespace fa
