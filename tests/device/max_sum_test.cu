// Maxima and sums of exponentials, merged in any order.

#include "device/max_sum.cuh"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "device/launch.cuh"
#include "device_vector.hpp"

namespace fa {
namespace max_sum_test {

constexpr float kInf = std::numeric_limits<float>::infinity();

__global__ void merge_two(const MaxSum* parts, MaxSum* out) { *out = merge(parts[0], parts[1]); }

MaxSum merged(MaxSum a, MaxSum b) {
  DeviceVector<MaxSum> parts(std::vector<MaxSum>{a, b}), out(1);
  launch(merge_two, 1, 1, 0, nullptr, parts.get(), out.get());
  return out.host()[0];
}

TEST(Merge, BringsSumsToTheCommonMaximum) {
  for (const bool swapped : {false, true}) {
    const MaxSum a{1.0f, 2.0f}, b{3.0f, 5.0f};
    const MaxSum all = swapped ? merged(b, a) : merged(a, b);
    EXPECT_EQ(all.m, 3.0f);
    EXPECT_FLOAT_EQ(all.l, 2.0f * std::exp(-2.0f) + 5.0f);
  }
}

TEST(Merge, AnEmptyPartChangesNothing) {
  const MaxSum empty{-FLT_MAX, 0.0f};
  EXPECT_EQ(merged(empty, {-4.0f, 3.0f}).m, -4.0f);
  EXPECT_EQ(merged(empty, {-4.0f, 3.0f}).l, 3.0f);
  EXPECT_EQ(merged(empty, empty).l, 0.0f);
  EXPECT_EQ(merged(empty, {-kInf, 1.0f}).l, 0.0f);  // exp(-inf) = 0
}

TEST(Merge, PassesNaNOn) {
  EXPECT_TRUE(std::isnan(merged({0.0f, 1.0f}, {std::numeric_limits<float>::quiet_NaN(), 1.0f}).l));
  EXPECT_TRUE(std::isnan(merged({0.0f, 1.0f}, {kInf, 1.0f}).l));
}

__global__ void statistics(const float* x, MaxSum* out) {
  const MaxSum all = warp_reduce(MaxSum{x[threadIdx.x], 1.0f}, merge);
  out[threadIdx.x] = all;
}

TEST(Merge, ReducesAWarp) {
  std::vector<float> values(32);
  double sum = 0;
  for (std::size_t lane = 0; lane < 32; ++lane) values[lane] = float(lane * 37 % 32) - 10.0f;
  for (const float value : values) sum += std::exp(double(value) - 21.0);
  DeviceVector<float> x(values);
  DeviceVector<MaxSum> out(32);
  launch(statistics, 1, 32, 0, nullptr, x.get(), out.get());
  for (const MaxSum& all : out.host()) {
    EXPECT_EQ(all.m, 21.0f);
    EXPECT_NEAR(all.l, sum, 1e-6);
  }
}

}  // namespace max_sum_test
}  // namespace fa
