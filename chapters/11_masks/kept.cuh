/// @file
/// What dropout keeps: a bit for each of 32 elements, and masks for pairs of elements.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/dropout.cuh"
#include "device/ptx.cuh"

namespace fa::ch11 {

/// What dropout says of the 32 elements that two answers of Philox decide: bit Dropout::place() is for an
/// element of the first answer, 16 bits further up for one of the second.
__device__ __forceinline__ std::uint32_t kept_by(const Dropout& dropout, const uint4& first,
                                                 const uint4& second) {
  const std::uint32_t low[] = {first.x, first.y, first.z, first.w},
                      high[] = {second.x, second.y, second.z, second.w};
  std::uint32_t bits[Dropout::kBits];
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    bits[2 * word] = ptx::prmt(low[word], high[word], 0x5410);      // their lower halves
    bits[2 * word + 1] = ptx::prmt(low[word], high[word], 0x7632);  // their upper halves
  }
  return dropout.keeps(bits);
}

/// A mask for two neighbouring 16-bit elements: for each of them ones if it is kept, otherwise zeros.
/// @param kept  by answers for the left one and for the right one     @param place  of both
__device__ __forceinline__ std::uint32_t kept_pair(std::uint32_t kept, int place) {
  const std::uint32_t bits =
      kept << (7 - place % 8);  // theirs are now the signs of bytes 0 and 2, or 1 and 3
  return ptx::prmt(bits, 0, place < 8 ? 0xaa88 : 0xbb99);
}

}  // namespace fa::ch11
