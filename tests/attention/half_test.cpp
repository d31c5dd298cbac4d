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

TEST(Half, EightBitsAreE4m3) {
  EXPECT_EQ(narrow_to_8_bits({0.0f, -0.0f, 1.0f, -2.0f, 448.0f, 0x1p-6f, 0x1p-9f, 1.125f}),
            (std::vector<std::uint8_t>{0x00, 0x80, 0x38, 0xC0, 0x7E, 0x08, 0x01, 0x39}));
  for (int bits = 0; bits < 256; ++bits) {
    const float value = widen({std::uint8_t(bits)})[0];
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(narrow_to_8_bits({value})[0], bits);
    }
  }
}

TEST(Half, EightBitsAreTheNearestOfAllPatterns) {
  for (int bits = 0; bits < 0x7E; ++bits) {
    const float low = widen({std::uint8_t(bits)})[0], high = widen({std::uint8_t(bits + 1)})[0];
    const float middle = (low + high) / 2;
    EXPECT_LT(low, high);
    EXPECT_EQ(narrow_to_8_bits({std::nextafter(middle, low), middle, std::nextafter(middle, high)}),
              (std::vector<std::uint8_t>{std::uint8_t(bits), std::uint8_t(bits + bits % 2),
                                         std::uint8_t(bits + 1)}))
        << bits;
  }
  EXPECT_EQ(rounded_to(DType::kFloat8, {449.0f, -1e30f, kInf}),
            (std::vector<float>{448.0f, -448.0f, 448.0f}));
  EXPECT_TRUE(std::isnan(rounded_to(DType::kFloat8, {std::nanf("")})[0]));
}

TEST(Half, Fp32StaysAsItIs) {
  const std::vector<float> values = {0.1f, -0.0f, 1e-40f, kInf};
  EXPECT_EQ(rounded_to(DType::kFloat32, values), values);
  EXPECT_THROW(narrow(values, DType::kFloat32), std::invalid_argument);
  EXPECT_THROW(widen({0}, DType::kFloat32), std::invalid_argument);
}

}  // namespace
}  // namespace fa
