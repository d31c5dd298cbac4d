/// @file
/// Where the rows of a tile lie in shared memory, so that ldmatrix has no bank conflicts. Taught by chapter
/// 06.
#pragma once

#include <cuda_runtime.h>

namespace fa {

/// Element (row, col) of a tile of kCols columns lies at offset(row, col): row after row.
template <int kCols>
struct RowMajor {
  static constexpr int kStride = kCols;
  __host__ __device__ static constexpr int offset(int row, int col) { return row * kStride + col; }
  __host__ __device__ static constexpr int advance(int at, int rows, int cols) {
    return at + rows * kStride + cols;
  }
};

/// Rows that are followed by 16 unused bytes: each begins four banks after the one before it.
template <int kCols>
struct Padded {
  static constexpr int kStride = kCols + 8;
  __host__ __device__ static constexpr int offset(int row, int col) { return row * kStride + col; }
  __host__ __device__ static constexpr int advance(int at, int rows, int cols) {
    return at + rows * kStride + cols;
  }
};

/// Rows of 16-bit elements whose 16-byte chunks are permuted by XOR within each group of up to 128 bytes.
///
/// The 32 banks span 128 bytes, so bits 3 to 5 of an element's offset say in which 16 bytes of the banks it
/// lies. In rows of 64, 128, 192 or 256 elements, a column has the same three bits in every row. XOR with the
/// last three bits of the row number makes them differ in any eight neighbouring rows. In rows of 32 or 96
/// elements, bit 5 differs between a row and the next. The other two have to differ between pairs of rows:
/// the number of the pair is used instead of the row's. (For 32 columns, chapter 06 uses three bits of it.
/// Two are enough, and work for 96 as well.)
template <int kCols>
struct Swizzled {
  static constexpr int kStride = kCols;
  static_assert(kCols % 32 == 0, "rows of whole groups of 64 bytes");
  static constexpr int kGroup = kCols % 64 == 0 ? 64 : 32;  ///< elements whose chunks are permuted
  static constexpr int kRowsToRepeat = 64 / kGroup;         ///< rows that do not overlap in the banks anyway

  __host__ __device__ static constexpr int offset(int row, int col) {
    // XOR before the rows are added, so that the compiler knows that rows 8 * kRowsToRepeat apart differ by a
    // constant.
    return row * kStride + (col ^ row / kRowsToRepeat % (kGroup / 8) * 8);
  }
  /// Turns the offset of an element into that of another, `rows` further down and `cols` to the right, with
  /// one XOR and one addition of constants. `rows` is a multiple of 8, `cols` of 16, the first column less
  /// than 16. All groups of a row have the same XORs, so d = 128 needs 4 registers for addresses, not 8.
  __host__ __device__ static constexpr int advance(int at, int rows, int cols) {
    return (at ^ cols % kGroup) + cols / kGroup * kGroup + rows * kStride;
  }
};

}  // namespace fa
