/// @file
/// Random numbers that depend on nothing but a counter and a key. Taught by chapter 11.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fa {

inline constexpr int kPhiloxRounds = 7;  ///< the fewest that pass all tests of BigCrush (table 2 there)

/// The key of each round. They depend on the seed alone: a kernel gets them as parameters, and need not
/// compute them.
template <int kRounds = kPhiloxRounds>
struct PhiloxKeys {
  uint2 of_round[kRounds];  ///< the first is the seed

  __host__ __device__ explicit constexpr PhiloxKeys(uint2 seed) : of_round() {
    constexpr std::uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;  // the golden ratio, and sqrt(3) - 1
    for (std::uint32_t round = 0; round < kRounds; ++round)
      of_round[round] = {seed.x + round * kStep0, seed.y + round * kStep1};
  }
};

/// A round of Philox4x32, of words that were a counter before the first.
__host__ __device__ __forceinline__ uint4 philox_round(uint4 words, uint2 key) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  const std::uint64_t x = std::uint64_t(kMultiplier0) * words.x;
  const std::uint64_t z = std::uint64_t(kMultiplier1) * words.z;
  return {std::uint32_t(z >> 32) ^ words.y ^ key.x, std::uint32_t(z),
          std::uint32_t(x >> 32) ^ words.w ^ key.y, std::uint32_t(x)};
}

/// Philox4x32 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.2): four words
/// that look independent of each other and of those for any other counter or key.
/// @tparam kRounds  10 leave a margin
template <int kRounds>
__host__ __device__ __forceinline__ uint4 philox(uint4 counter, const PhiloxKeys<kRounds>& keys) {
  for (const uint2& key : keys.of_round) counter = philox_round(counter, key);
  return counter;
}

}  // namespace fa
