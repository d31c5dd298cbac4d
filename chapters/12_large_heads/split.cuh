/// @file
/// fp32 as pairs of fp16: x = 2^(e - 13) * (high + low), with an exponent for each row. Both halves together
/// have 22 bits, and three products of tensor cores stand for one of fp32: high * high + high * low + low *
/// high. The fourth is too small to matter.
#pragma once

#include <cuda_runtime.h>

namespace fa::ch12 {

/// The largest |x| of a row is 2^e or a little more, and becomes 2^13 or a little more: both halves of all
/// that matters are then normal numbers of fp16.
constexpr int kLargestExponent = 13;

/// 2^exponent, for exponents from -126 to 127.
__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

}  // namespace fa::ch12
