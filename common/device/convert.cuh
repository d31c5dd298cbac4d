/// @file
/// Two floats as 16-bit numbers in one register. Taught by chapter 06.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fa {

/// Rounds both to the nearest number of type T: __half or __nv_bfloat16. `low` goes into the lower 16 bits,
/// which hold the first element of the two, both in a fragment and in an array in memory.
template <class T>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  std::uint32_t bits;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&bits, &pair, sizeof bits);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &pair, sizeof bits);
  }
  return bits;
}

/// The two numbers that pack() has put into a register.
template <class T>
__device__ __forceinline__ float2 unpack(std::uint32_t bits) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  if constexpr (std::is_same_v<T, __half>) {
    __half2 pair;
    memcpy(&pair, &bits, sizeof bits);
    return __half22float2(pair);
  } else {
    __nv_bfloat162 pair;
    memcpy(&pair, &bits, sizeof bits);
    return __bfloat1622float2(pair);
  }
}

}  // namespace fa
