/// @file
/// The arithmetic of wgmma: how a matrix lies in shared memory, and the product of a warp's rows. Nothing
/// here knows of blocks or threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpusim/runtime/device.hpp"

namespace gpusim {

inline constexpr int kWarpgroupWarps = 4;
inline constexpr int kWgmmaK = 16;
inline constexpr int kWgmmaRows = 16;  ///< of a warp; a warpgroup has 64
inline constexpr int kMostWgmmaColumns = 256;

/// The operand of an instruction that says how a matrix lies in shared memory, taken apart.
struct MatrixDescriptor {
  std::uint32_t start = 0;    ///< address of the first element
  std::uint32_t leading = 0;  ///< leading dimension byte offset
  std::uint32_t stride = 0;   ///< stride dimension byte offset
  int base_offset = 0;        ///< of the swizzle's pattern, in 128 bytes
  int swizzle_bytes = 0;      ///< 0 (none), 32, 64 or 128

  static MatrixDescriptor of(std::uint64_t bits);

  /// Where 16 bytes are after the swizzle: bits of the address from 4 on change with those from 7 on.
  std::uint32_t swizzled(std::uint32_t address) const {
    const std::uint32_t mask = swizzle_bytes == 0 ? 0 : std::uint32_t(swizzle_bytes) / 16 - 1;
    return address ^ (((address >> 7) - std::uint32_t(base_offset)) & mask) << 4;
  }
};

/// A matrix operand is made of chunks: 8 elements of 16 bits, next to each other in shared memory. In a
/// K-major matrix, they follow each other in k, in an MN-major one in the other dimension, which is m for A
/// and n for B.
struct ChunkGrid {
  int count;    ///< of chunks
  int per_row;  ///< K-major: two chunks for each m or n; MN-major: for each k
};
inline ChunkGrid chunks_of(int mn, bool mn_major) { return {mn * kWgmmaK / 8, mn_major ? mn / 8 : 2}; }

/// The address of a chunk. @param row, column  in the grid of chunks
std::uint32_t chunk_address(const MatrixDescriptor& matrix, bool mn_major, int row, int column);

/// Elements of an operand as floats: A as [m][k], B as [k][n].
struct OperandPanel {
  alignas(32) std::array<float, kWgmmaK * kMostWgmmaColumns> values;
};

/// Widens the 8 numbers of a chunk into A, or into B of n columns.
void widen_chunk(const void* chunk, device::MmaType type, bool mn_major, int row, int column,
                 OperandPanel& a);
void widen_chunk(const void* chunk, device::MmaType type, bool mn_major, int row, int column, int n,
                 OperandPanel& b);
/// Widens the registers of a lane into the warp's 16 rows of A.
void widen_registers(const std::uint32_t (&registers)[4], device::MmaType type, int lane, float* rows);

/// For each number the exponent that a product aligns it by: that of its leading bit, but of a subnormal
/// number that of the smallest normal one.
using Exponents = std::array<std::int16_t, kWgmmaK * kMostWgmmaColumns>;
void find_exponents(const float* values, std::size_t count, device::MmaType type, Exponents& exponents);

/// d += a * b for the 16 rows of a warp, to the bit as an H100 and an H200 do it. For each element of d: the
/// 16 products are exact; they and d are aligned to the largest of their exponents, 25 binary places are
/// kept, the rest is cut off; the sum of these is exact, and is cut off to 24 bits. (Exponents of products
/// are sums of exponents: 1.5 * 1.5 has exponent 0.)
///
/// @param a  [16][16]    @param b  [16][n]    @param d  [16][n]    @param n  a multiple of 8
/// @param a_exponents, b_exponents  see find_exponents
void multiply_rows(const float* a, const std::int16_t* a_exponents, const float* b,
                   const std::int16_t* b_exponents, float* d, int n);

/// Row and column of an accumulator in the 16 rows of its warp.
constexpr int accumulator_row(int lane, int i) { return lane / 4 + 8 * (i / 2 % 2); }
constexpr int accumulator_column(int lane, int i) { return 8 * (i / 4) + 2 * (lane % 4) + i % 2; }

}  // namespace gpusim
