/// @file
/// Arithmetic at the limits of fp32. Taught by chapter 01.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

namespace fa {

inline constexpr float kLog2e = 1.44269504f;  ///< exp(x) = 2^(x * log2 e)
inline constexpr float kLn2 = 0.693147181f;   ///< ln(x) = log2(x) * ln 2

/// 1 / l, or 0 for l = 0: the sum of a row that contains only -inf, whose probabilities are 0 rather than 0 /
/// 0.
__device__ __forceinline__ float inverse_or_zero(float l) { return l == 0.0f ? 0.0f : 1.0f / l; }

/// From here on, fp32 numbers are 2 apart: a rounded LSE no longer determines P.
inline constexpr float kLargestLse = 0x1p24f;

/// LSE as the backward pass subtracts it from scores. If it does not determine P, exp(s - LSE) might
/// overflow. Such a row adds nothing to any gradient: with +inf, P is 0. The same holds for a row without a
/// key.
__device__ __forceinline__ float resolved_lse(float lse) {
  return fabsf(lse) >= kLargestLse ? INFINITY : lse;
}

/// x[col], or -inf past the end of the row, which changes no maximum and adds exp(-inf) = 0 to a sum. Loops
/// that use it take the same number of steps in all threads of a row.
__device__ __forceinline__ float at(const float* x, int col, int cols) {
  return col < cols ? x[col] : -INFINITY;
}

}  // namespace fa
