#include "attention/inputs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fa {
namespace {

constexpr Init kAll[] = {Init::kNormal, Init::kUniform, Init::kOutliers, Init::kOffset};

Tensor random(Init init, std::uint64_t seed, std::int64_t elements, const char* name = "x") {
  return random_tensor({.name = name, .shape = {elements}}, init, seed);
}

struct Moments {
  double mean = 0, variance = 0, min = 0, max = 0;
};

Moments moments(const Tensor& tensor) {
  const auto [min, max] = std::minmax_element(tensor.data.begin(), tensor.data.end());
  Moments result{.min = *min, .max = *max};
  for (const float value : tensor.data) result.mean += value;
  result.mean /= double(tensor.data.size());
  for (const float value : tensor.data) result.variance += std::pow(value - result.mean, 2);
  result.variance /= double(tensor.data.size());
  return result;
}

// The exact numbers: they must not depend on the machine, the compiler or the number of cores.
TEST(Inputs, GoldenValues) {
  EXPECT_EQ(random(Init::kNormal, 0, 4).data,
            (std::vector<float>{-0x1.43fp-4f, 0x1.2436p-1f, -0x1.01d8p-3f, -0x1.7fbbp+0f}));
  EXPECT_EQ(random(Init::kUniform, 0, 4).data,
            (std::vector<float>{-0x1.f673p-3f, 0x1.834fdp-3f, 0x1.573e4cp-1f, 0x1.0fba5p-1f}));
  EXPECT_EQ(random(Init::kNormal, 1, 2).data, (std::vector<float>{0x1.dfcep-1f, -0x1.30fap+1f}));
}

TEST(Inputs, AnElementDoesNotDependOnTheShape) {
  for (const Init init : kAll) {
    const Tensor few = random(init, 3, 1000);
    const Tensor many = random(init, 3, 100'000);
    EXPECT_TRUE(std::equal(few.data.begin(), few.data.end(), many.data.begin())) << name_of(init);
    if (init == Init::kOffset) continue;  // has an offset for each column
    EXPECT_EQ(random_tensor({.name = "x", .shape = {10, 100}}, init, 3).data, few.data) << name_of(init);
  }
}

TEST(Inputs, SeedsAndNamesGiveOtherNumbers) {
  for (const Init init : kAll) {
    EXPECT_NE(random(init, 1, 100).data, random(init, 2, 100).data) << name_of(init);
    EXPECT_NE(random(init, 1, 100, "q").data, random(init, 1, 100, "k").data) << name_of(init);
  }
}

TEST(Inputs, NormalHasMeanZeroAndVarianceOne) {
  const Moments m = moments(random(Init::kNormal, 5, 1 << 20));
  EXPECT_NEAR(m.mean, 0, 0.005);
  EXPECT_NEAR(m.variance, 1, 0.01);
  EXPECT_GT(m.max, 4);
  EXPECT_LT(m.max, 6);
  EXPECT_LT(m.min, -4);
  EXPECT_GT(m.min, -6);
}

TEST(Inputs, UniformFillsItsInterval) {
  const Moments m = moments(random(Init::kUniform, 5, 1 << 20));
  EXPECT_NEAR(m.mean, 0, 0.005);
  EXPECT_NEAR(m.variance, 1.0 / 3, 0.005);
  EXPECT_GE(m.min, -1);
  EXPECT_LT(m.min, -0.999);
  EXPECT_GT(m.max, 0.999);
  EXPECT_LT(m.max, 1);
}

TEST(Inputs, OutliersOverflowExp) {
  const Tensor x = random(Init::kOutliers, 5, 1 << 20);
  std::int64_t high = 0, low = 0;
  for (const float value : x.data) {
    ASSERT_TRUE(std::abs(value) < 6 || (std::abs(value) >= 90 && std::abs(value) < 110)) << value;
    high += value >= 90;
    low += value <= -90;
  }
  EXPECT_TRUE(std::isinf(std::exp(90.0f)));
  EXPECT_NEAR(double(high) / double(x.data.size()), 1.0 / 64, 0.001);
  EXPECT_NEAR(double(low) / double(x.data.size()), 1.0 / 64, 0.001);
}

TEST(Inputs, OffsetsAreTheSameInAColumn) {
  const Tensor x = random_tensor({.name = "k", .shape = {2, 100, 3}}, Init::kOffset, 5);
  const Tensor normal = random_tensor({.name = "k", .shape = {2, 100, 3}}, Init::kNormal, 5);
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    EXPECT_EQ(x.data[i] - normal.data[i], x.data[i % 3] - normal.data[i % 3]) << i;
  }
  EXPECT_NE(x.data[0] - normal.data[0], x.data[1] - normal.data[1]);
}

TEST(Inputs, SpecialRowsInTurn) {
  const Tensor x = random_tensor({.name = "x", .shape = {400, 64}}, Init::kSpecial, 5);
  const Tensor normal = random_tensor({.name = "x", .shape = {400, 64}}, Init::kNormal, 5);
  int hidden = 0;
  for (std::size_t row = 0; row < 400; ++row) {
    int not_numbers = 0;
    for (std::size_t i = row * 64; i < row * 64 + 64; ++i) {
      const float value = x.data[i];
      not_numbers += std::isnan(value);
      hidden += row % 4 == 1 && std::isinf(value);
      const bool is_finite = row % 4 != 2 && std::isfinite(value);
      if (is_finite) {
        EXPECT_EQ(value, normal.data[i]) << i;
      } else if (!std::isnan(value)) {
        EXPECT_EQ(value, -std::numeric_limits<float>::infinity()) << i;
      }
    }
    EXPECT_EQ(not_numbers, row % 4 == 3) << row;
  }
  EXPECT_NEAR(hidden, 100 * 64 / 4, 150);
}

TEST(Inputs, NamesOfDistributions) {
  for (const Init init : kAll) EXPECT_EQ(init_of(name_of(init)), init);
  EXPECT_EQ(init_of("special"), Init::kSpecial);
  EXPECT_EQ(init_of("gaussian"), std::nullopt);
  EXPECT_EQ(init_of(""), std::nullopt);
}

TEST(Inputs, AllTensorsOfAList) {
  const TensorMap tensors =
      random_tensors({{.name = "q", .shape = {2, 3}}, {.name = "k", .shape = {4}}}, Init::kNormal, 1);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors.at("q").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensors.at("k").data, random(Init::kNormal, 1, 4, "k").data);
}

}  // namespace
}  // namespace fa
