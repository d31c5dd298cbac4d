/// @file
/// <curand_kernel.h>: random numbers in kernels. Philox gives cuRAND's numbers. XORWOW, MRG32k3a and the
/// quasirandom generators are other generators of the same quality here, with the right distribution and
/// other numbers.
#pragma once

#include "cuda_runtime.h"
#include "curand.h"
#include "curand_philox4x32_x.h"

/// Marsaglia's xorwow (2003), whose first state is the hash of the seed, the subsequence and the offset.
struct curandStateXORWOW {
  unsigned d, v[5];
  int has_normal, has_normal_double;
  float normal;
  int unused;  ///< instead of padding, which nothing would write
  double normal_double;
};
typedef struct curandStateXORWOW curandStateXORWOW_t;
typedef struct curandStateXORWOW curandState_t;
typedef struct curandStateXORWOW curandState;

struct curandStateMRG32k3a : curandStatePhilox4_32_10 {};
typedef struct curandStateMRG32k3a curandStateMRG32k3a_t;

namespace gpusim::random {

GPUSIM_INLINE std::uint64_t mix(std::uint64_t& x) {  // splitmix64 (Steele, Lea, Flood 2014)
  std::uint64_t z = x += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace gpusim::random

GPUSIM_INLINE unsigned curand(curandStateXORWOW* state) {
  const unsigned t = state->v[0] ^ (state->v[0] >> 2);
  for (int i = 0; i < 4; ++i) state->v[i] = state->v[i + 1];
  state->v[4] = (state->v[4] ^ (state->v[4] << 4)) ^ (t ^ (t << 1));
  state->d += 362437u;
  return state->v[4] + state->d;
}
GPUSIM_INLINE void skipahead(unsigned long long n, curandStateXORWOW* state) {
  for (unsigned long long i = 0; i < n; ++i) curand(state);
}
GPUSIM_INLINE void curand_init(unsigned long long seed, unsigned long long subsequence,
                               unsigned long long offset, curandStateXORWOW* state) {
  std::uint64_t x = seed;
  x = gpusim::random::mix(x) ^ subsequence;
  for (unsigned& word : state->v) word = unsigned(gpusim::random::mix(x) >> 32) | 1u;
  state->d = unsigned(gpusim::random::mix(x));
  state->has_normal = state->has_normal_double = 0;
  state->normal = 0.0f;
  state->unused = 0;
  state->normal_double = 0.0;
  skipahead(offset, state);
}
GPUSIM_INLINE void curand_init(unsigned long long seed, unsigned long long subsequence,
                               unsigned long long offset, curandStateMRG32k3a* state) {
  curand_init(seed, subsequence, offset, static_cast<curandStatePhilox4_32_10*>(state));
}
GPUSIM_INLINE unsigned curand(curandStateMRG32k3a* state) {
  return curand(static_cast<curandStatePhilox4_32_10*>(state));
}

namespace gpusim::random {

/// In (0, 1].
GPUSIM_INLINE float uniform(unsigned x) { return float(x) * 0x1p-32f + 0x1p-33f; }
GPUSIM_INLINE double uniform_double(unsigned x, unsigned y) {
  const std::uint64_t z = x ^ std::uint64_t(y) << 21;
  return double(z) * 0x1p-53 + 0x1p-54;
}
/// Two normal numbers from two uniform ones (Box and Muller 1958).
GPUSIM_INLINE float2 box_muller(unsigned x, unsigned y) {
  const float u = uniform(x), angle = float(y) * (0x1p-32f * 6.2831855f) + 0x1p-33f * 6.2831855f;
  const float radius = sqrtf(-2.0f * logf(u));
  return {radius * sinf(angle), radius * cosf(angle)};
}
GPUSIM_INLINE double2 box_muller_double(double u, double v) {
  const double radius = ::sqrt(-2.0 * ::log(u));
  return {radius * sinpi(2.0 * v), radius * cospi(2.0 * v)};
}

}  // namespace gpusim::random

template <class State>
GPUSIM_INLINE float curand_uniform(State* state) {
  return gpusim::random::uniform(curand(state));
}
template <class State>
GPUSIM_INLINE double curand_uniform_double(State* state) {
  const unsigned x = curand(state);
  return gpusim::random::uniform_double(x, curand(state));
}
/// Of Philox, from 32 bits.
GPUSIM_INLINE double curand_uniform_double(curandStatePhilox4_32_10* state) {
  return double(curand(state)) * 0x1p-32 + 0x1p-32;
}
template <class State>
GPUSIM_INLINE float2 curand_normal2(State* state) {
  const unsigned x = curand(state);
  return gpusim::random::box_muller(x, curand(state));
}
template <class State>
GPUSIM_INLINE double2 curand_normal2_double(State* state) {
  const double u = curand_uniform_double(state);
  return gpusim::random::box_muller_double(u, curand_uniform_double(state));
}
/// Each second call has the second number of a pair.
template <class State>
GPUSIM_INLINE float curand_normal(State* state) {
  if (state->has_normal != 0) {
    state->has_normal = 0;
    return state->normal;
  }
  const float2 pair = curand_normal2(state);
  state->has_normal = 1;
  state->normal = pair.y;
  return pair.x;
}
template <class State>
GPUSIM_INLINE double curand_normal_double(State* state) {
  if (state->has_normal_double != 0) {
    state->has_normal_double = 0;
    return state->normal_double;
  }
  const double2 pair = curand_normal2_double(state);
  state->has_normal_double = 1;
  state->normal_double = pair.y;
  return pair.x;
}
template <class State>
GPUSIM_INLINE float curand_log_normal(State* state, float mean, float deviation) {
  return expf(mean + deviation * curand_normal(state));
}
template <class State>
GPUSIM_INLINE double curand_log_normal_double(State* state, double mean, double deviation) {
  return ::exp(mean + deviation * curand_normal_double(state));
}
template <class State>
GPUSIM_INLINE unsigned curand_poisson(State* state, double lambda) {
  if (lambda > 64.0) {  // nearly normal
    const double x = lambda + ::sqrt(lambda) * curand_normal_double(state) + 0.5;
    return x > 0.0 ? unsigned(x) : 0u;
  }
  const double least = ::exp(-lambda);
  unsigned count = 0;
  for (double product = curand_uniform_double(state); product > least;
       product *= curand_uniform_double(state))
    ++count;
  return count;
}

// Four at once, of Philox.
GPUSIM_INLINE float4 curand_uniform4(curandStatePhilox4_32_10* state) {
  const uint4 x = curand4(state);
  using gpusim::random::uniform;
  return {uniform(x.x), uniform(x.y), uniform(x.z), uniform(x.w)};
}
GPUSIM_INLINE float4 curand_normal4(curandStatePhilox4_32_10* state) {
  const uint4 x = curand4(state);
  const float2 one = gpusim::random::box_muller(x.x, x.y), other = gpusim::random::box_muller(x.z, x.w);
  return {one.x, one.y, other.x, other.y};
}
GPUSIM_INLINE double2 curand_uniform2_double(curandStatePhilox4_32_10* state) {
  const uint4 x = curand4(state);
  return {gpusim::random::uniform_double(x.x, x.y), gpusim::random::uniform_double(x.z, x.w)};
}
GPUSIM_INLINE uint4 curand_poisson4(curandStatePhilox4_32_10* state, double lambda) {
  const unsigned x = curand_poisson(state, lambda), y = curand_poisson(state, lambda),
                 z = curand_poisson(state, lambda);
  return {x, y, z, curand_poisson(state, lambda)};
}
