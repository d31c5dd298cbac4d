// Arithmetic at the limits of fp32.

#include "device/math.cuh"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "device/launch.cuh"
#include "device_vector.hpp"

namespace fa {
namespace math_test {

__global__ void inverses(const float* in, float* out) { out[threadIdx.x] = inverse_or_zero(in[threadIdx.x]); }

std::vector<float> inverses_of(const std::vector<float>& in) {
  DeviceVector<float> x(in), y(in.size());
  launch(inverses, 1, unsigned(in.size()), 0, nullptr, x.get(), y.get());
  return y.host();
}

TEST(InverseOrZero, IsTheInverseAndZeroForZero) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(inverses_of({1.0f, 4.0f, 3.0f, FLT_MIN, inf, 0.0f, -0.0f}),
            (std::vector<float>{1.0f, 0.25f, 1.0f / 3.0f, 1.0f / FLT_MIN, 0.0f, 0.0f, 0.0f}));
}

TEST(InverseOrZero, PassesNaNOn) {
  EXPECT_TRUE(std::isnan(inverses_of({std::numeric_limits<float>::quiet_NaN()})[0]));
}

}  // namespace math_test
}  // namespace fa
