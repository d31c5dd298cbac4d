/// @file
/// How the elements of arrays in shared memory lie. This is for reports of the simulator; a GPU does nothing
/// with it.
#pragma once

#include <cuda_runtime.h>

namespace fa {

/// Declares that each row of these arrays begins kStride elements after the one before it. The simulator
/// reads it when it compiles a kernel, and then reports "sK, row 8, column 4" instead of "sK[524]".
template <int kStride, class... Arrays>
__device__ __forceinline__ void declare_rows(const Arrays*...) {}

/// The same for arrays whose element (row, col) lies at Layout::offset(row, col): see swizzle.cuh.
template <class Layout, class... Arrays>
__device__ __forceinline__ void declare_rows(const Arrays*...) {}

}  // namespace fa
