/// @file
/// Columns that exist on the chip only. Taught by chapter 07.
#pragma once

#include <cuda_runtime.h>

namespace fa {

/// Zeros in columns first_col to kCols - 1 of rows of 16-bit elements in shared memory. Copies that leave
/// these columns as they are then bring rows of first_col elements into tiles of kCols columns.
///
/// @tparam Layout     where an element lies: see swizzle.cuh     @tparam kThreads  that take part
/// @param rows        of all tiles, which follow each other from s on
/// @param first_col   a multiple of 8; kCols: nothing happens
/// @param thread      among the kThreads
template <class Layout, int kThreads, int kCols, class T>
__device__ __forceinline__ void pad(T* s, int rows, int first_col, unsigned thread = threadIdx.x) {
  constexpr int kChunk = 8;  // elements in 16 bytes
  const int chunks = (kCols - first_col) / kChunk;
  for (int n = thread; n < rows * chunks; n += kThreads) {
    const int row = n % rows, col = first_col + n / rows * kChunk;  // neighbouring rows: no bank conflicts
    *reinterpret_cast<uint4*>(s + Layout::offset(row, col)) = make_uint4(0, 0, 0, 0);
  }
}

}  // namespace fa
