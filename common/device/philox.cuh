/// @file
/// Random numbers that depend on nothing but a counter and a key. Taught by chapter 11.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fa {

/// Philox4x32 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.2): four words that look independent
/// of each other and of those for any other counter or key.
/// @tparam kRounds  10 leave a margin; 7 are the fewest that pass all tests of BigCrush (table 2 there)
template <int kRounds = 7>
__host__ __device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;  // the golden ratio, and sqrt(3) - 1
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t x = std::uint64_t(kMultiplier0) * counter.x;
    const std::uint64_t z = std::uint64_t(kMultiplier1) * counter.z;
    counter = {std::uint32_t(z >> 32) ^ counter.y ^ key.x, std::uint32_t(z),
               std::uint32_t(x >> 32) ^ counter.w ^ key.y, std::uint32_t(x)};
    key.x += kStep0, key.y += kStep1;
  }
  return counter;
}

}  // namespace fa
