/// @file
/// Which elements of P dropout keeps. Taught by chapter 11.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "device/philox.cuh"

namespace fa {

/// Dropout of P, passed to a kernel by value. An element is kept or dropped because of its seed, head, row and column alone:
/// however the work is divided, it is the same, and the backward pass draws again what the forward pass drew.
///
/// One call of Philox decides eight elements, with 16 bits for each: rows r and r + 8, columns c, c + 1, c + 8 and c + 9 of a
/// 16 x 16 tile, r < 8 and c < 8 even. These are what a lane holds of operand A of mma.m16n8k16.
struct Dropout {
  std::uint32_t kept;  ///< of 65536 elements, on average; 65536: all
  uint2 seed;
  float
      scale;  ///< of the elements that are kept: 65536 / kept, so that the expectation of O is what it is without dropout

  /// @param probability  of dropping an element, at least 0 and below 1; rounded to a multiple of 2^-16
  static Dropout of(double probability, std::uint64_t seed) {
    const auto kept = std::uint32_t(std::lround((1 - probability) * 65536));
    return {kept, {std::uint32_t(seed), std::uint32_t(seed >> 32)}, float(65536.0 / kept)};
  }

  /// The random bits of eight elements. Word i is for register i of operand A, its lower half for the even column:
  ///
  ///   x  row r,     columns c and c + 1        z  row r,     columns c + 8 and c + 9
  ///   y  row r + 8, columns c and c + 1        w  row r + 8, columns c + 8 and c + 9
  ///
  /// @param head  counts through all batches    @param row, col  any of the eight elements
  __host__ __device__ uint4 bits(int head, int row, int col) const {
    return philox({std::uint32_t(row / 16), std::uint32_t(col / 16), std::uint32_t(row % 8 * 4 + col % 8 / 2),
                   std::uint32_t(head)},
                  seed);
  }

  /// Whether the element with these 16 bits is kept.
  __host__ __device__ bool keeps(std::uint32_t bits) const { return bits < kept; }

  /// Whether an element is kept, whichever call decides it.
  __host__ __device__ bool keeps(int head, int row, int col) const {
    const uint4 all = bits(head, row, col);
    const std::uint32_t word = row % 16 < 8 ? (col % 16 < 8 ? all.x : all.z) : (col % 16 < 8 ? all.y : all.w);
    return keeps(col % 2 == 0 ? word & 0xffff : word >> 16);
  }
};

}  // namespace fa
