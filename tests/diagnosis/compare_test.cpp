#include "diagnosis/compare.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
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

TEST(Compare, RoundingIsNotWrongBesideAClearError) {
  // The first element is just beyond the margin, as happens to one of many that are rounded.
  EXPECT_EQ(compare_row({1.0011f, 1, 1}, {1, 1, 1}, 5e-4).wrong_elements, 1);
  const TensorCheck check = compare_row({1.0011f, 1, 1.5f}, {1, 1, 1}, 1e-3);
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

TEST(Compare, AcceptsNaNInPartsWhereItMaySpread) {
  const Tolerance tolerance{Measure::kRelL2, 1e-5, {false, true}};
  EXPECT_TRUE(compare({{4}, {1, 2, 3, kNaN}}, {1, 2, 3, 4}, tolerance).passed);
  EXPECT_TRUE(compare({{4}, {1, 2, 3, kNaN}}, {1, 2, 3, kInf}, tolerance).passed);
  EXPECT_FALSE(compare({{4}, {1, kNaN, 3, 4}}, {1, 2, 3, 4}, tolerance).passed);
  EXPECT_FALSE(compare({{4}, {1, 2, 3, 5}}, {1, 2, 3, 4}, tolerance).passed);
  EXPECT_FALSE(compare({{4}, {1, 2, 3, 4}}, {1, 2, 3, kNaN}, tolerance).passed);   // that must be NaN
  for (const std::uint32_t unwritten : {0xFFFFFFFFu, 0xFFFFE000u, 0xFFFF0000u}) {  // fp32, fp16, bf16
    const TensorCheck check =
        compare({{4}, {1, 2, 3, std::bit_cast<float>(unwritten)}}, {1, 2, 3, 4}, tolerance);
    EXPECT_FALSE(check.passed);
    EXPECT_EQ(check.pattern.value().unwritten, 1);
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

// The numbers 1, 2, ..: no two rows are multiples of one another.
std::vector<double> counting(std::int64_t elements) {
  std::vector<double> values(std::size_t(elements), 0.0);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

// The pattern of a tensor in which a function changes some elements.
template <class F>
WrongPattern pattern_of(F change, Index shape = {3, 8}, std::vector<double> expected = counting(24),
                        Measure measure = Measure::kRelL2) {
  Tensor got{shape, {expected.begin(), expected.end()}};
  for (std::int64_t element = 0; element < std::int64_t(expected.size()); ++element)
    change(element / shape[1], element % shape[1], got.data[std::size_t(element)]);
  return compare(got, expected, {measure, kTolerance}).pattern.value();
}

TEST(Pattern, IndicesAlongEachAxis) {
  const WrongPattern pattern = pattern_of([](auto row, auto col, float& y) {
    if (row > 0 && col % 3 == 1) y = 0.5f;
  });
  ASSERT_EQ(pattern.axes.size(), 2u);
  EXPECT_EQ(pattern.axes[0].length, 3);
  EXPECT_EQ(pattern.axes[0].count, 2);
  EXPECT_EQ(pattern.axes[0].first, 1);
  EXPECT_EQ(pattern.axes[0].last, 2);
  EXPECT_EQ(pattern.axes[1].count, 3);
  EXPECT_EQ(pattern.axes[1].first, 1);
  EXPECT_EQ(pattern.axes[1].last, 7);
  EXPECT_EQ(pattern.axes[1].step, 3);
}

TEST(Pattern, IrregularIndicesHaveNoStep) {
  const WrongPattern pattern = pattern_of([](auto, auto col, float& y) {
    if (col == 1 || col == 2 || col == 5) y = 0.5f;
  });
  EXPECT_EQ(pattern.axes[1].count, 3);
  EXPECT_EQ(pattern.axes[1].step, 0);
}

// The wrong columns of a tensor [2, cols].
template <class F>
WrongIndices wrong_columns(std::int64_t cols, F is_wrong) {
  return pattern_of(
             [&](auto, auto col, float& y) {
               if (is_wrong(col)) y = 0.5f;
             },
             {2, cols}, counting(2 * cols))
      .axes[1];
}

using Ranges = std::vector<IndexRange>;

TEST(Pattern, AFewRangesOfIndices) {
  const WrongIndices quarters = wrong_columns(32, [](auto col) { return col / 8 % 2 == 1; });
  EXPECT_EQ(quarters.ranges, (Ranges{{8, 15}, {24, 31}}));
  EXPECT_EQ(quarters.period, 0);
  const WrongIndices single =
      wrong_columns(9, [](auto col) { return col == 0 || col == 3 || col == 4 || col == 8; });
  EXPECT_EQ(single.ranges, (Ranges{{0, 0}, {3, 4}, {8, 8}}));
}

TEST(Pattern, MoreRangesThatRepeat) {
  const WrongIndices blocks = wrong_columns(100, [](auto col) { return col / 8 % 2 == 1; });
  EXPECT_EQ(blocks.period, 16);
  EXPECT_EQ(blocks.ranges, (Ranges{{8, 15}}));
  const WrongIndices corners = wrong_columns(64, [](auto col) { return col % 8 == 0 || col % 8 == 7; });
  EXPECT_EQ(corners.period, 8);
  EXPECT_EQ(corners.ranges, (Ranges{{0, 0}, {7, 7}}));
}

TEST(Pattern, RangesWithoutARuleAreNotListed) {
  const WrongIndices primes =
      wrong_columns(24, [](auto col) { return col == 2 || col == 5 || col == 7 || col == 11 || col == 17; });
  EXPECT_TRUE(primes.ranges.empty());
  EXPECT_EQ(primes.period, 0);
}

TEST(Pattern, OneFactorForAll) {
  const WrongPattern pattern = pattern_of([](auto row, auto, float& y) { y *= row == 1 ? 1.0f : 0.25f; });
  ASSERT_TRUE(pattern.factor);
  EXPECT_DOUBLE_EQ(*pattern.factor, 0.25);
  EXPECT_FALSE(pattern.factor_per_line);
}

TEST(Pattern, AFactorWithinTheMarginOfEachElement) {
  std::vector<double> expected = counting(24);
  Tensor got{{3, 8}, {}};
  for (const double value : expected) got.data.push_back(float(value * 0.5 + (value > 12 ? 0.004 : -0.004)));
  const auto factor_at = [&](double limit) {
    return compare(got, expected, {Measure::kRelL2, limit}).pattern.value().factor;
  };
  ASSERT_TRUE(factor_at(1e-2));
  EXPECT_NEAR(*factor_at(1e-2), 0.5, 1e-3);
  EXPECT_FALSE(factor_at(1e-4));
}

TEST(Pattern, AFactorForEachLine) {
  const WrongPattern lines = pattern_of([](auto row, auto, float& y) { y *= float(2 + row); });
  EXPECT_FALSE(lines.factor);
  EXPECT_TRUE(lines.factor_per_line);
  const WrongPattern none = pattern_of([](auto, auto col, float& y) { y *= float(2 + col); });
  EXPECT_FALSE(none.factor || none.factor_per_line);
  const WrongPattern one =
      pattern_of([](auto row, auto col, float& y) { y *= row == 1 ? float(2 + col) : 1; });
  EXPECT_FALSE(one.factor || one.factor_per_line);
}

TEST(Pattern, OneConstantInPlaceOfAnotherIsNoFactor) {
  const auto halve = [](auto, auto, float& y) { y *= 0.5f; };
  EXPECT_FALSE(pattern_of(halve, {24, 1}, std::vector<double>(24, 1)).factor);  // softmax of a single column
  const auto by_row = [](auto row, auto, float& y) { y *= float(2 + row); };
  EXPECT_FALSE(pattern_of(by_row, {3, 8}, std::vector<double>(24, 0.125)).factor_per_line);
  const auto only_one = [](auto row, auto col, float& y) { y *= row == 1 && col == 2 ? 0.5f : 1.0f; };
  EXPECT_FALSE(pattern_of(only_one).factor);
}

TEST(Pattern, OneDifferenceWhereTheLargestErrorDecides) {
  const auto add = [](auto row, auto col, float& y) { y += row == 1 && col == 2 ? 0.0f : 1.5f; };
  const WrongPattern same = pattern_of(add, {3, 8}, counting(24), Measure::kMaxAbs);
  ASSERT_TRUE(same.difference);
  EXPECT_DOUBLE_EQ(*same.difference, 1.5);
  EXPECT_FALSE(same.factor);
  EXPECT_FALSE(pattern_of(add).difference);
  EXPECT_FALSE(pattern_of(add, {3, 8}, std::vector<double>(24, 1), Measure::kMaxAbs).difference);
  const auto twice = [](auto, auto, float& y) { y *= 2; };
  EXPECT_FALSE(pattern_of(twice, {3, 8}, counting(24), Measure::kMaxAbs).difference);
}

TEST(Pattern, PoisonNaNAndZeroAreTold) {
  const WrongPattern pattern = pattern_of([](auto row, auto col, float& y) {
    if (row == 0) y = std::bit_cast<float>(0xFFFFFFFFu);
    if (row == 1) y = col == 0 ? kInf : kNaN;
    if (row == 2 && col == 3) y = 0;
  });
  EXPECT_EQ(pattern.unwritten, 8);
  EXPECT_EQ(pattern.not_a_number, 8);
  EXPECT_EQ(pattern.zeros, 1);
  EXPECT_FALSE(pattern.factor);
}

TEST(Pattern, IsAbsentWhereNothingIsWrong) { EXPECT_FALSE(compare_row({1, 2}, {1, 2}).pattern); }

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
