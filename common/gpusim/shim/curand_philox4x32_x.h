/// @file
/// <curand_philox4x32_x.h>: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011), of whose numbers curand() gets
/// those that cuRAND has for the same seed, subsequence and offset.
#pragma once

#include <cstdint>

#include "vector_types.h"

namespace gpusim::random {

/// Ten rounds: four numbers for each counter and key.
GPUSIM_INLINE uint4 philox(uint4 counter, uint2 key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t one = std::uint64_t(0xd2511f53u) * counter.x,
                        other = std::uint64_t(0xcd9e8d57u) * counter.z;
    counter = {unsigned(other >> 32) ^ counter.y ^ key.x, unsigned(other),
               unsigned(one >> 32) ^ counter.w ^ key.y, unsigned(one)};
    key.x += 0x9e3779b9u;
    key.y += 0xbb67ae85u;
  }
  return counter;
}

}  // namespace gpusim::random

struct curandStatePhilox4_32_10 {
  uint4 counter, numbers;
  uint2 key;
  unsigned used;  ///< of the numbers
  int has_normal, has_normal_double;
  float normal;
  double normal_double, unused;  ///< the latter instead of padding
};
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

namespace gpusim::random {

GPUSIM_INLINE void advance(curandStatePhilox4_32_10& state, std::uint64_t steps) {
  const std::uint64_t low = (std::uint64_t(state.counter.y) << 32 | state.counter.x) + steps;
  const bool carry = low < steps;
  state.counter.x = unsigned(low);
  state.counter.y = unsigned(low >> 32);
  if (carry && ++state.counter.z == 0) ++state.counter.w;
}

}  // namespace gpusim::random

GPUSIM_INLINE void skipahead(unsigned long long n, curandStatePhilox4_32_10* state) {
  const unsigned long long at = state->used + n;
  state->used = unsigned(at % 4);
  gpusim::random::advance(*state, at / 4);
  state->numbers = gpusim::random::philox(state->counter, state->key);
}
GPUSIM_INLINE void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10* state) {
  const std::uint64_t high = (std::uint64_t(state->counter.w) << 32 | state->counter.z) + n;
  state->counter.z = unsigned(high);
  state->counter.w = unsigned(high >> 32);
  state->numbers = gpusim::random::philox(state->counter, state->key);
}
GPUSIM_INLINE void curand_init(unsigned long long seed, unsigned long long subsequence,
                               unsigned long long offset, curandStatePhilox4_32_10* state) {
  *state = {};
  state->key = {unsigned(seed), unsigned(seed >> 32)};
  state->counter.z = unsigned(subsequence);
  state->counter.w = unsigned(subsequence >> 32);
  skipahead(offset, state);
}
GPUSIM_INLINE unsigned curand(curandStatePhilox4_32_10* state) {
  const unsigned number = state->used == 0   ? state->numbers.x
                          : state->used == 1 ? state->numbers.y
                          : state->used == 2 ? state->numbers.z
                                             : state->numbers.w;
  if (++state->used == 4) {
    gpusim::random::advance(*state, 1);
    state->numbers = gpusim::random::philox(state->counter, state->key);
    state->used = 0;
  }
  return number;
}
GPUSIM_INLINE uint4 curand4(curandStatePhilox4_32_10* state) {
  const unsigned x = curand(state), y = curand(state), z = curand(state);
  return {x, y, z, curand(state)};
}
