/// @file
/// What dropout keeps: a bit for each of 32 elements, and masks for pairs of elements.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/dropout.cuh"
#include "device/ptx.cuh"

namespace fa::ch11 {

/// Dropout::keeps() for the 32 elements that two answers of Philox decide. Bit Dropout::place() is for an element of the first
/// answer, 16 bits further up for one of the second.
///
/// Compares all 32 numbers at once, from their lowest bit: where two bits are equal, those below have decided; otherwise, the
/// number with a 0 is smaller.
__device__ __forceinline__ std::uint32_t kept_by(const Dropout& dropout, const uint4& first,
                                                 const uint4& second) {
  const std::uint32_t low[] = {first.x, first.y, first.z, first.w},
                      high[] = {second.x, second.y, second.z, second.w};
  std::uint32_t kept = ~0u;  // equal numbers
#pragma unroll
  for (int bit = 0; bit < Dropout::kBits; ++bit) {
    const std::uint32_t ones = ptx::prmt(low[bit / 2], high[bit / 2], bit % 2 == 0 ? 0x5410 : 0x7632),
                        most = dropout.most[bit];
    kept = (~ones & most) | (~ones & kept) | (most & kept);  // the majority of three: one instruction
  }
  return kept;
}

/// A mask for two neighbouring 16-bit elements: for each of them ones if it is kept, otherwise zeros.
/// @param kept  by answers for the left one and for the right one     @param place  of both
__device__ __forceinline__ std::uint32_t kept_pair(std::uint32_t kept, int place) {
  const std::uint32_t bits =
      kept << (7 - place % 8);  // theirs are now the signs of bytes 0 and 2, or 1 and 3
  return ptx::prmt(bits, 0, place < 8 ? 0xaa88 : 0xbb99);
}

}  // namespace fa::ch11
