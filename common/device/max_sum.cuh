/// @file
/// The maximum of a row and the sum of its exponentials, found together. Taught by chapter 02.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "device/reduce.cuh"

namespace fa {

/// Statistics of part of a row: its maximum, and the sum of exp(x - m) over that part.
///
/// An empty part is {-FLT_MAX, 0}: m begins at the lowest finite number, because (-inf) - (-inf) is NaN.
struct MaxSum {
  float m;
  float l;
};

/// The statistics of two parts combined. Associative and commutative, so elements, lanes and warps may be
/// merged in any order (Milakov & Gimelshein 2018, section 3.1).
///
/// A single element x is the part {x, 1}. If it may be -inf, merge it into a part that began empty: such a
/// part has m >= -FLT_MAX, and exp(-inf - m) = 0.
__device__ __forceinline__ MaxSum merge(MaxSum a, MaxSum b) {
  const float m = fmaxf(a.m, b.m);
  return {m, a.l * expf(a.m - m) + b.l * expf(b.m - m)};
}

/// The logarithm of the sum of exp(x) over a part; -inf for the empty one.
__device__ __forceinline__ float log_sum_exp(MaxSum part) { return part.m + logf(part.l); }

/// A pair travels between lanes in two shuffles. With this, warp_reduce() and block_reduce() take pairs.
__device__ __forceinline__ MaxSum shuffle_xor(MaxSum part, int mask) {
  return {shuffle_xor(part.m, mask), shuffle_xor(part.l, mask)};
}

}  // namespace fa
