/// @file
/// Reduces many values to one, with any associative and commutative operation. Taught by chapter 01:
/// row_per_warp reduces over a warp with shuffles, row_per_block over a block with shared memory and
/// barriers.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

namespace fa {

inline constexpr unsigned kAllLanes = 0xffffffffu;  ///< all 32 lanes of the warp take part in the shuffle

/// The operations that reductions use.
struct Sum {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ __forceinline__ int operator()(int a, int b) const { return max(a, b); }
};

/// The value that lane (this lane ^ mask) holds. All 32 lanes of the warp must call it together.
///
/// Every type to be reduced needs an overload in its own namespace.
__device__ __forceinline__ float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
__device__ __forceinline__ int shuffle_xor(int value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}

/// op over the values of kLanes neighbouring lanes; each of them gets the result.
///
/// A butterfly of log2(kLanes) steps. All 32 lanes of the warp must call it together.
///
/// @tparam kLanes  a power of two, at most 32: the warp is divided into 32 / kLanes separate groups
template <int kLanes = 32, class T, class Op>
__device__ __forceinline__ T warp_reduce(T value, Op op) {
  static_assert(0 < kLanes && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0);
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value = op(value, shuffle_xor(value, mask));
  return value;
}

/// op over the values of all threads of a block of kWarps warps; each thread gets the result.
///
/// Has one barrier. sPartial must not be in use: for a second reduction in the same kernel, pass another
/// array or put a __syncthreads() between the two.
///
/// @param sPartial  shared memory, one element per warp; kWarps is a power of two
template <int kWarps, class T, class Op>
__device__ __forceinline__ T block_reduce(T value, Op op, T (&sPartial)[kWarps]) {
  const int lane = threadIdx.x % 32;
  value = warp_reduce(value, op);
  if (lane == 0) sPartial[threadIdx.x / 32] = value;
  __syncthreads();  // every warp has written its value
  value = sPartial[lane % kWarps];
  return warp_reduce<kWarps>(value, op);
}

}  // namespace fa
