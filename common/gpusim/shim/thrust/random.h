/// @file
/// <thrust/random.h>: engines and distributions, also for functors of the device.
#pragma once

#include <cmath>
#include <cstdint>

#include "gpusim_thrust.h"

namespace thrust {
namespace random {

/// x -> a * x mod m.
template <class T, T kA, T kC, T kM>
class linear_congruential_engine {
 public:
  using result_type = T;
  static constexpr T min = kC == 0 ? 1 : 0, max = kM - 1, default_seed = 1;
  GPUSIM_INLINE explicit linear_congruential_engine(T seed = 1) { this->seed(seed); }
  GPUSIM_INLINE void seed(T s = 1) { x_ = s % kM == 0 && kC == 0 ? 1 : s % kM; }
  GPUSIM_INLINE T operator()() { return x_ = T((std::uint64_t(x_) * kA + kC) % kM); }
  /// Skips numbers, in logarithmic time.
  GPUSIM_INLINE void discard(unsigned long long n) {
    std::uint64_t a = kA, c = kC, power = 1, sum = 0;
    for (; n != 0; n >>= 1) {
      if (n & 1) {
        power = power * a % kM;
        sum = (sum * a + c) % kM;
      }
      c = c * (a + 1) % kM;
      a = a * a % kM;
    }
    x_ = T((power * x_ + sum) % kM);
  }

 private:
  T x_;
};
using minstd_rand0 = linear_congruential_engine<std::uint32_t, 16807u, 0u, 2147483647u>;
using minstd_rand = linear_congruential_engine<std::uint32_t, 48271u, 0u, 2147483647u>;
using default_random_engine = minstd_rand;

template <class T = double>
class uniform_real_distribution {
 public:
  GPUSIM_INLINE explicit uniform_real_distribution(T a = 0, T b = 1) : a_(a), b_(b) {}
  template <class Engine>
  GPUSIM_INLINE T operator()(Engine& engine) const {
    return T(a_ + (b_ - a_) * (T(engine() - Engine::min) / (T(Engine::max - Engine::min) + T(1))));
  }

 private:
  T a_, b_;
};
template <class T = int>
class uniform_int_distribution {
 public:
  GPUSIM_INLINE explicit uniform_int_distribution(T a = 0, T b = T(2147483647)) : a_(a), b_(b) {}
  template <class Engine>
  GPUSIM_INLINE T operator()(Engine& engine) const {
    const double part = double(engine() - Engine::min) / (double(Engine::max - Engine::min) + 1);
    return T(a_ + T(part * (double(b_) - double(a_) + 1)));
  }

 private:
  T a_, b_;
};
template <class T = double>
class normal_distribution {
 public:
  GPUSIM_INLINE explicit normal_distribution(T mean = 0, T deviation = 1)
      : mean_(mean), deviation_(deviation) {}
  template <class Engine>
  GPUSIM_INLINE T operator()(Engine& engine) const {
    const uniform_real_distribution<T> uniform(0, 1);
    const T u = T(1) - uniform(engine), v = uniform(engine);
    return mean_ + deviation_ * sqrt(T(-2) * log(u)) * cos(T(6.283185307179586) * v);
  }

 private:
  T mean_, deviation_;
};

}  // namespace random
using namespace random;
}  // namespace thrust
