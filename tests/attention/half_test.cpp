#include "attention/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace fa {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Half, BitPatternsAreThoseOfTheFormats) {
  EXPECT_EQ(narrow({1.0f, -2.0f, 65504.0f, 0x1p-24f}, DType::kFloat16),
            (std::vector<std::uint16_t>{0x3c00, 0xc000, 0x7bff, 0x0001}));
  EXPECT_EQ(narrow({1.0f, -2.0f, 0x1p127f}, DType::kBFloat16),
            (std::vector<std::uint16_t>{0x3f80, 0xc000, 0x7f00}));
}

TEST(Half, RoundsToNearestTiesToEven) {
  const float u = 0x1p-11f;  // half a unit in the last place of 1
  EXPECT_EQ(rounded_to(DType::kFloat16, {1 + u, 1 + 3 * u, 1 + u * 1.01f}),
            (std::vector<float>{1.0f, 1 + 4 * u, 1 + 2 * u}));
  const float v = 0x1p-8f;
  EXPECT_EQ(rounded_to(DType::kBFloat16, {1 + v, 1 + 3 * v, 1 + v * 1.01f}),
            (std::vector<float>{1.0f, 1 + 4 * v, 1 + 2 * v}));
}

TEST(Half, EveryPatternSurvives) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<std::uint16_t> bits(1 << 16);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = std::uint16_t(i);
    const std::vector<float> values = widen(bits, dtype);
    const std::vector<std::uint16_t> again = narrow(values, dtype);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(widen({again[i]}, dtype)[0])) << i;
      } else {
        ASSERT_EQ(again[i], bits[i]);
      }
    }
  }
}

TEST(Half, WhatIsTooLargeBecomesInfinity) {
  EXPECT_EQ(rounded_to(DType::kFloat16, {65519.0f, 65520.0f, -1e30f}),
            (std::vector<float>{65504.0f, kInf, -kInf}));
  EXPECT_EQ(rounded_to(DType::kBFloat16, {3e38f, std::numeric_limits<float>::max()})[1], kInf);
}

TEST(Half, Fp32StaysAsItIs) {
  const std::vector<float> values = {0.1f, -0.0f, 1e-40f, kInf};
  EXPECT_EQ(rounded_to(DType::kFloat32, values), values);
  EXPECT_THROW(narrow(values, DType::kFloat32), std::invalid_argument);
  EXPECT_THROW(widen({0}, DType::kFloat32), std::invalid_argument);
}

}  // namespace
}  // namespace fa
