/// @file
/// Where the rows of a tile lie in shared memory, so that ldmatrix has no bank conflicts. Taught by chapter 06.
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

/// Rows of 16-bit elements whose 16-byte chunks are permuted by XOR within each line of 128 bytes.
///
/// The 32 banks span 128 bytes, so bits 3 to 5 of an element's offset say in which 16 bytes of the banks it
/// lies. In rows of 128 bytes or more, a column has the same three bits in every row. XOR with the last three bits of
/// the row number makes them differ in any eight neighbouring rows. Shorter rows share a line of 128 bytes, so the
/// number of the line is used instead of the row's.
template <int kCols>
struct Swizzled {
  static constexpr int kStride = kCols;
  static_assert(kCols == 32 || kCols % 64 == 0, "rows of 64 bytes, or of whole lines of 128");
  static constexpr int kRowsPerLine = kCols < 64 ? 64 / kCols : 1;

  __host__ __device__ static constexpr int offset(int row, int col) {
    // XOR before the rows are added, so that the compiler knows that rows 8 * kRowsPerLine apart differ by a constant.
    const int line = row / kRowsPerLine, in_line = row % kRowsPerLine * kStride + col;
    return line * kRowsPerLine * kStride + (in_line ^ line % 8 * 8);
  }
  /// Turns the offset of an element into that of another, `rows` further down and `cols` to the right, with one XOR
  /// and one addition of constants. `rows` is a multiple of 8 * kRowsPerLine, `cols` of 16, the first column less than
  /// 16. All lines of a row have the same four XORs, so d = 128 needs 4 registers for addresses, not 8.
  __host__ __device__ static constexpr int advance(int at, int rows, int cols) {
    return (at ^ cols % 64) + cols / 64 * 64 + rows * kStride;
  }
};

}  // namespace fa
