/// @file
/// <curand.h>: the host computes the numbers.
#include <curand.h>

#include <algorithm>

#include <cmath>
#include <cstdint>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/api.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/shim/curand_philox4x32_x.h"

struct curandGenerator_st {
  unsigned long long seed = 0, next = 0;  ///< the next number of the sequence
  cudaStream_t stream = nullptr;
  bool is_quasirandom = false;
};

namespace gpusim::random {
namespace {

class Numbers {
 public:
  explicit Numbers(curandGenerator_st& generator) : generator_(generator) {}

  std::uint32_t word() {
    if (generator_.next / 4 != block_ || !has_block_) {
      block_ = generator_.next / 4;
      has_block_ = true;
      four_ = philox({unsigned(block_), unsigned(block_ >> 32), 0, 0},
                     {unsigned(generator_.seed), unsigned(generator_.seed >> 32)});
    }
    const unsigned words[4] = {four_.x, four_.y, four_.z, four_.w};
    return words[generator_.next++ % 4];
  }
  std::uint64_t two_words() {
    const std::uint64_t low = word();
    return low | std::uint64_t(word()) << 32;
  }
  /// In (0, 1].
  double uniform() { return (double(two_words() >> 11) + 1.0) * 0x1p-53; }
  double normal() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    const double radius = std::sqrt(-2.0 * std::log(uniform())), angle = 6.283185307179586 * uniform();
    second_ = radius * std::sin(angle);
    has_second_ = true;
    return radius * std::cos(angle);
  }
  unsigned poisson(double lambda) {
    if (lambda > 64.0) return unsigned(std::max(0.0, lambda + std::sqrt(lambda) * normal() + 0.5));
    unsigned count = 0;
    for (double product = uniform(); product > std::exp(-lambda); product *= uniform()) ++count;
    return count;
  }

 private:
  curandGenerator_st& generator_;
  unsigned long long block_ = 0;
  bool has_block_ = false, has_second_ = false;
  uint4 four_{};
  double second_ = 0.0;
};

/// Fills an array of the device, or of the host, with f(numbers).
template <class T, class F>
curandStatus_t generate(curandGenerator_t generator, T* to, std::size_t count, const char* routine, F f) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  begin_routine(generator->stream, routine);
  if (Arena::instance().contains(reinterpret_cast<std::uintptr_t>(to)) &&
      !account_write(to, count * sizeof(T), routine))
    return CURAND_STATUS_LAUNCH_FAILURE;
  const HostRuntime runtime;
  Numbers numbers(*generator);
  for (std::size_t i = 0; i < count; ++i) to[i] = T(f(numbers));
  return CURAND_STATUS_SUCCESS;
}

}  // namespace
}  // namespace gpusim::random

using gpusim::random::generate;
using gpusim::random::Numbers;

curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type) {
  *generator = new curandGenerator_st;
  (*generator)->is_quasirandom = type >= CURAND_RNG_QUASI_DEFAULT;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type) {
  return curandCreateGenerator(generator, type);
}
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
  delete generator;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGetVersion(int* version) {
  *version = CURAND_VERSION;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
  generator->stream = gpusim::api::resolve(stream);
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
  if (generator->is_quasirandom) return CURAND_STATUS_TYPE_ERROR;
  generator->seed = seed;
  generator->next = 0;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
  generator->next = offset;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOrdering(curandGenerator_t, curandOrdering_t) {
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t, unsigned int) {
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGenerateSeeds(curandGenerator_t) { return CURAND_STATUS_SUCCESS; }

curandStatus_t curandGenerate(curandGenerator_t generator, unsigned int* to, std::size_t count) {
  return generate(generator, to, count, __func__, [](Numbers& n) { return n.word(); });
}
curandStatus_t curandGenerateLongLong(curandGenerator_t generator, unsigned long long* to,
                                      std::size_t count) {
  return generate(generator, to, count, __func__, [](Numbers& n) { return n.two_words(); });
}
curandStatus_t curandGenerateUniform(curandGenerator_t generator, float* to, std::size_t count) {
  return generate(generator, to, count, __func__,
                  [](Numbers& n) { return float(n.word()) * 0x1p-32f + 0x1p-33f; });
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double* to, std::size_t count) {
  return generate(generator, to, count, __func__, [](Numbers& n) { return n.uniform(); });
}
// cuRAND makes normal numbers in pairs, and refuses to make an odd number of them.
curandStatus_t curandGenerateNormal(curandGenerator_t generator, float* to, std::size_t count, float mean,
                                    float deviation) {
  if (count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return generate(generator, to, count, __func__, [=](Numbers& n) { return mean + deviation * n.normal(); });
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double* to, std::size_t count,
                                          double mean, double deviation) {
  if (count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return generate(generator, to, count, __func__, [=](Numbers& n) { return mean + deviation * n.normal(); });
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float* to, std::size_t count, float mean,
                                       float deviation) {
  if (count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return generate(generator, to, count, __func__,
                  [=](Numbers& n) { return std::exp(mean + deviation * n.normal()); });
}
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double* to, std::size_t count,
                                             double mean, double deviation) {
  if (count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return generate(generator, to, count, __func__,
                  [=](Numbers& n) { return std::exp(mean + deviation * n.normal()); });
}
curandStatus_t curandGeneratePoisson(curandGenerator_t generator, unsigned int* to, std::size_t count,
                                     double lambda) {
  return generate(generator, to, count, __func__, [=](Numbers& n) { return n.poisson(lambda); });
}
