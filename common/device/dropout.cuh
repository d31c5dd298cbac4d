/// @file
/// Which elements of P dropout keeps. Taught by chapter 11.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "device/philox.cuh"

namespace fa {

/// Dropout of P, passed to a kernel by value. An element is kept or dropped because of its seed, head, row
/// and column alone: however the work is divided, it is the same, and the backward pass draws again what the
/// forward pass drew.
///
/// One call of Philox decides 16 elements, with 8 bits for each: rows r, r + 8, r + 16 and r + 24 and columns
/// c, c + 8, c + 16 and c + 24 of a 32 x 32 tile, r < 8 and c < 8. A lane that has 32 x 32 scores of a warp
/// as fragments C holds all elements of two calls, whether rows are queries or keys.
///
/// An answer is eight half-words: first bit 0 of all 16 elements, then bit 1, .. . So one instruction
/// compares a bit of the numbers of 32 elements, which two answers decide.
struct Dropout {
  static constexpr int kBits = 8, kOf = 1 << kBits;
  static constexpr std::uint32_t kStepOfTile = 2, kStepOfColumn = 1;  ///< see counter()

  std::uint32_t kept;  ///< of 256 elements, on average; 256: all
  PhiloxKeys<> keys;
  float scale;  ///< of what is kept: 256 / kept, so that the expectation of O is what it is without dropout
  float minus_share;  ///< -1 / scale
  std::uint32_t
      most[kBits];  ///< each bit of kept - 1, 32 times: the largest number of an element that is kept

  /// @param probability  of dropping an element, at least 0 and below 1; rounded to a multiple of 1 / 256
  static Dropout of(double probability, std::uint64_t seed) {
    const auto kept = std::uint32_t(std::max(1l, std::lround((1 - probability) * kOf)));
    Dropout dropout = {.kept = kept,
                       .keys = PhiloxKeys(uint2{std::uint32_t(seed), std::uint32_t(seed >> 32)}),
                       .scale = float(double(kOf) / kept),
                       .minus_share = -float(kept) / kOf,
                       .most = {}};
    for (int bit = 0; bit < kBits; ++bit) dropout.most[bit] = 0 - ((kept - 1) >> bit & 1);
    return dropout;
  }

  /// What Philox is given for the call that decides an element. 32 columns further to the right, the second
  /// word is larger by kStepOfTile; one column further, if that is an odd one, by kStepOfColumn; the others
  /// are the same.
  /// @param head  counts through all batches
  __host__ __device__ __forceinline__ static uint4 counter(int head, int row, int col) {
    const std::uint32_t r = row, c = col;
    return {r / 32, c / 32 * kStepOfTile + c % 2 * kStepOfColumn, r % 8 * 4 + c % 8 / 2, std::uint32_t(head)};
  }
  /// The bit of an element in each half-word of the answer.
  __host__ __device__ static constexpr int place(int row, int col) { return row / 8 % 4 * 4 + col / 8 % 4; }

  /// Whether an element is kept.
  __host__ __device__ bool keeps(int head, int row, int col) const {
    const uint4 answer = philox(counter(head, row, col), keys);
    const std::uint32_t words[] = {answer.x, answer.y, answer.z, answer.w};
    std::uint32_t number = 0;
    for (int bit = 0; bit < kBits; ++bit)
      number |= (words[bit / 2] >> (bit % 2 * 16 + place(row, col)) & 1) << bit;
    return number < kept;
  }

  /// The same for 32 elements at once: a bit for each of them.
  ///
  /// Compares their numbers from the lowest bit on: where two bits are equal, those below have decided;
  /// otherwise, the number with a 0 is smaller.
  ///
  /// @param bits  of the numbers: bit 0 of all of them in the first word, bit 1 in the second, ..
  __host__ __device__ __forceinline__ std::uint32_t keeps(const std::uint32_t (&bits)[kBits]) const {
    std::uint32_t smaller = ~0u;           // or equal
    for (int bit = 0; bit < kBits; ++bit)  // the majority of three: one instruction
      smaller = (~bits[bit] & most[bit]) | (~bits[bit] & smaller) | (most[bit] & smaller);
    return smaller;
  }
};

}  // namespace fa
