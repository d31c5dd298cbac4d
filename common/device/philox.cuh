/// @file
/// Random numbers that depend on nothing but a counter and a key. Taught by chapter 11.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fa {

inline constexpr int kPhiloxRounds = 7;  ///< the fewest that pass all tests of BigCrush (table 2 there)

/// Round `round` of Philox4x32, of words that were a counter before round 0.
__host__ __device__ __forceinline__ uint4 philox_round(uint4 words, uint2 key, int round) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;  // the golden ratio, and sqrt(3) - 1
  const std::uint64_t x = std::uint64_t(kMultiplier0) * words.x;
  const std::uint64_t z = std::uint64_t(kMultiplier1) * words.z;
  return {std::uint32_t(z >> 32) ^ words.y ^ (key.x + round * kStep0), std::uint32_t(z),
          std::uint32_t(x >> 32) ^ words.w ^ (key.y + round * kStep1), std::uint32_t(x)};
}

/// Philox4x32 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.2): four words that look independent
/// of each other and of those for any other counter or key.
/// @tparam kRounds  10 leave a margin
template <int kRounds = kPhiloxRounds>
__host__ __device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
  for (int round = 0; round < kRounds; ++round) counter = philox_round(counter, key, round);
  return counter;
}

}  // namespace fa
