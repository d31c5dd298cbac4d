#include "harness/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace fa {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kTolerance = 1e-6;

using Index = std::vector<std::int64_t>;

TensorCheck compare_row(std::vector<float> got, const std::vector<double>& expected,
                        double tolerance = kTolerance) {
  return compare({{1, std::int64_t(got.size())}, std::move(got)}, expected, {Measure::kRelL2, tolerance});
}

TEST(Compare, EqualIsExact) {
  const TensorCheck check = compare_row({1, 2, 3}, {1, 2, 3});
  EXPECT_TRUE(check.passed);
  EXPECT_EQ(check.rel_l2, 0);
  EXPECT_EQ(check.max_abs, 0);
  EXPECT_EQ(check.tolerance, kTolerance);
  EXPECT_EQ(check.wrong_elements, 0);
  EXPECT_FALSE(check.first_wrong);
}

TEST(Compare, ErrorIsRelativeToTheNorm) {
  const TensorCheck check = compare_row({3, 4.5}, {3, 4}, 0.2);
  EXPECT_DOUBLE_EQ(check.rel_l2, 0.1);
  EXPECT_DOUBLE_EQ(check.max_abs, 0.5);
  EXPECT_TRUE(check.passed);
  EXPECT_TRUE(compare_row({3, 4.5}, {3, 4}, 0.1).passed);
  EXPECT_FALSE(compare_row({3, 4.5}, {3, 4}, 0.0999).passed);
}

TEST(Compare, FindsTheFirstWrongElement) {
  Tensor got{{2, 3, 4}, std::vector<float>(24, 1)};
  const std::vector<double> expected(24, 1);
  got.data[17] = 2;
  got.data[23] = 5;
  const TensorCheck check = compare(got, expected, {Measure::kRelL2, kTolerance});
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.wrong_elements, 2);
  ASSERT_TRUE(check.first_wrong);
  EXPECT_EQ(check.first_wrong->index, (Index{1, 1, 1}));
  EXPECT_EQ(check.first_wrong->got, 2);
  EXPECT_EQ(check.first_wrong->expected, 1);
}

TEST(Compare, SmallErrorsBeforeTheWrongElementAreNotWrong) {
  const TensorCheck check = compare_row({1 + 2e-7f, 1, 1.5f}, {1, 1, 1});
  ASSERT_TRUE(check.first_wrong);
  EXPECT_EQ(check.first_wrong->index, (Index{0, 2}));
  EXPECT_EQ(check.wrong_elements, 1);
}

TEST(Compare, WhateverFailsHasAWrongElement) {
  // Every element is off by a little more than the tolerance: none stands out.
  const TensorCheck check = compare_row({1.0011f, 1.0011f, 1.0011f}, {1, 1, 1}, 1e-3);
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.wrong_elements, 3);
}

TEST(Compare, LargestErrorCanDecide) {
  const Tensor got{{1, 3}, {100, -kInf, 2.001f}};
  const std::vector<double> expected = {100, -double(kInf), 2};
  const TensorCheck check = compare(got, expected, {Measure::kMaxAbs, 1e-4});
  EXPECT_FALSE(check.passed);
  EXPECT_NEAR(check.error(), 1e-3, 1e-7);
  EXPECT_EQ(check.wrong_elements, 1);
  ASSERT_TRUE(check.first_wrong);
  EXPECT_EQ(check.first_wrong->index, (Index{0, 2}));
  EXPECT_TRUE(compare(got, expected, {Measure::kMaxAbs, 1.1e-3}).passed);
  EXPECT_TRUE(compare(got, expected, {Measure::kRelL2, 1e-4}).passed);  // 1e-3 of 100
}

TEST(Compare, LargestErrorOfInfinityAndNaN) {
  const Tolerance tolerance{Measure::kMaxAbs, 1e30};
  EXPECT_TRUE(compare({{1}, {-kInf}}, {-double(kInf)}, tolerance).passed);
  for (const auto& [got, expected] : {std::pair{-kInf, 1.0},
                                      {1.0f, -double(kInf)},
                                      {kInf, -double(kInf)},
                                      {kNaN, 1.0},
                                      {kNaN, -double(kInf)}}) {
    const TensorCheck check = compare({{1}, {got}}, {expected}, tolerance);
    EXPECT_FALSE(check.passed) << got << ' ' << expected;
    EXPECT_EQ(check.wrong_elements, 1);
  }
}

TEST(Compare, NaNNeverPasses) {
  for (const double tolerance : {kTolerance, 1e30, double(kInf)}) {
    const TensorCheck check = compare_row({1, kNaN, 1}, {1, 1, 1}, tolerance);
    EXPECT_FALSE(check.passed);
    EXPECT_TRUE(std::isnan(check.rel_l2));
    EXPECT_TRUE(std::isnan(check.max_abs));
    ASSERT_TRUE(check.first_wrong);
    EXPECT_EQ(check.first_wrong->index, (Index{0, 1}));
    EXPECT_EQ(check.wrong_elements, 1);
  }
}

TEST(Compare, NaNPassesOnlyWhereTheReferenceIsNaN) {
  EXPECT_TRUE(compare_row({1, kNaN}, {1, kNaN}).passed);
  const TensorCheck elsewhere = compare_row({kNaN, 1}, {1, kNaN});
  EXPECT_FALSE(elsewhere.passed);
  EXPECT_EQ(elsewhere.wrong_elements, 2);
  const TensorCheck forgotten = compare_row({1, 0}, {1, kNaN});
  EXPECT_FALSE(forgotten.passed);
  EXPECT_EQ(forgotten.first_wrong->index, (Index{0, 1}));
}

TEST(Compare, InfinityPassesOnlyWhereTheReferenceHasTheSame) {
  EXPECT_TRUE(compare_row({1, -kInf}, {1, -kInf}).passed);
  EXPECT_FALSE(compare_row({1, kInf}, {1, -kInf}).passed);
  EXPECT_FALSE(compare_row({1, kInf}, {1, 1}, 1e30).passed);
  EXPECT_FALSE(compare_row({1, 1}, {1, kInf}).passed);
  EXPECT_FALSE(compare_row({1, kNaN}, {1, kInf}).passed);
  const TensorCheck check = compare_row({1, kInf, 1}, {1, 1, 1});
  EXPECT_EQ(check.max_abs, kInf);
  EXPECT_EQ(check.first_wrong->index, (Index{0, 1}));
}

TEST(Compare, ZeroReference) {
  EXPECT_TRUE(compare_row({0, -0.0f}, {0, 0}).passed);
  const TensorCheck check = compare_row({0, 1e-30f}, {0, 0});
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.first_wrong->index, (Index{0, 1}));
}

TEST(Compare, OtherNumberOfElementsIsAnError) {
  EXPECT_THROW(compare_row({1, 2}, {1}), std::invalid_argument);
}

TEST(Check, PassesWhenEveryTensorDoes) {
  Check check;
  check.tensors["o"] = compare_row({1}, {1});
  check.tensors["lse"] = compare_row({1}, {1});
  EXPECT_TRUE(check.passed());
  check.tensors["lse"] = compare_row({1}, {2});
  EXPECT_FALSE(check.passed());
}

}  // namespace
}  // namespace fa
