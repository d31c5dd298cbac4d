/// @file
/// Packing two floats as 16-bit numbers into one register. Taught by chapter 06.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fa {

/// Rounds both to the nearest number of type T: __half or __nv_bfloat16. `low` goes into the lower 16 bits, which
/// hold the first element of the two, both in a fragment and in an array in memory.
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

}  // namespace fa
