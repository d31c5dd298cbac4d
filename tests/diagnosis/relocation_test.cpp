#include "diagnosis/relocation.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace fa {
namespace {

constexpr double kLimit = 1e-5;

std::vector<double> random_values(std::int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements; ++i) values.push_back(normal(random));
  return values;
}

/// An output `o`, by default [1, 2, 32, 16], that a kernel gets wrong.
class RelocationTest : public testing::Test {
 protected:
  void SetUp() override { set_shape({1, 2, 32, 16}); }

  void set_shape(const TensorIndex& shape) {
    shape_ = shape;
    const std::int64_t elements = TensorSpec{.name = "o", .shape = shape}.elements();
    reference_["o"] = random_values(elements, 1);
    outputs_["o"] = {shape, {reference_["o"].begin(), reference_["o"].end()}};
  }

  /// Puts into each element of o the value of another one. @param source  of batch, head, row and column
  template <class F>
  void take_from(F source) {
    const std::vector<double>& right = reference_.at("o");
    for (std::int64_t element = 0; element < std::int64_t(right.size()); ++element) {
      TensorIndex index(4);
      std::int64_t rest = element, place = 0;
      for (std::size_t axis = 4; axis-- > 0; rest /= shape_[axis]) index[axis] = rest % shape_[axis];
      source(index);
      for (std::size_t axis = 0; axis < 4; ++axis) place = place * shape_[axis] + index[axis];
      outputs_.at("o").data[std::size_t(element)] = float(right[std::size_t(place)]);
    }
  }

  std::optional<Relocation> found(double limit = kLimit) const {
    Tolerances tolerances;
    for (const auto& [name, output] : outputs_) tolerances[name] = {Measure::kRelL2, limit};
    return find_relocation("o", outputs_, reference_, tolerances, inputs_);
  }

  TensorIndex shape_;
  Reference reference_;
  TensorMap outputs_, inputs_;
};

TEST_F(RelocationTest, RowAndRowPlus8) {
  take_from([](TensorIndex& at) { at[2] ^= 8; });
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(name_of(rule->relation), "xor");
  EXPECT_EQ(rule->tensor, "o");
  EXPECT_EQ(rule->axis, 2);
  EXPECT_EQ(rule->by, 8);
  EXPECT_EQ(rule->element, (TensorIndex{0, 0, 0, 0}));
  EXPECT_EQ(rule->source, (TensorIndex{0, 0, 8, 0}));
  EXPECT_EQ(rule->share, 1);
}

TEST_F(RelocationTest, TwoBlocksOfColumns) {
  take_from([](TensorIndex& at) { at[3] = at[3] / 4 == 1 || at[3] / 4 == 2 ? at[3] ^ 12 : at[3]; });
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->relation, Relation::kXor);
  EXPECT_EQ(rule->axis, 3);
  EXPECT_EQ(rule->by, 12);
  EXPECT_EQ(rule->element, (TensorIndex{0, 0, 0, 4}));
  EXPECT_EQ(rule->source, (TensorIndex{0, 0, 0, 8}));
}

TEST_F(RelocationTest, ThePreviousRow) {
  take_from([](TensorIndex& at) { at[2] -= at[2] > 0; });
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(name_of(rule->relation), "shift");
  EXPECT_EQ(rule->axis, 2);
  EXPECT_EQ(rule->by, -1);
}

TEST_F(RelocationTest, AlwaysTheFirstRow) {
  take_from([](TensorIndex& at) { at[2] = 0; });
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(name_of(rule->relation), "fixed");
  EXPECT_EQ(rule->by, 0);
  EXPECT_EQ(rule->element, (TensorIndex{0, 0, 1, 0}));
}

TEST_F(RelocationTest, AnotherHead) {
  take_from([](TensorIndex& at) { at[1] = 1 - at[1]; });
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->relation, Relation::kXor);
  EXPECT_EQ(rule->axis, 1);
}

TEST_F(RelocationTest, AnyPermutationOfRows) {
  take_from([](TensorIndex& at) { at[2] = at[2] * 5 % 32; });
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(name_of(rule->relation), "map");
  EXPECT_EQ(rule->axis, 2);
  EXPECT_EQ(rule->element, (TensorIndex{0, 0, 1, 0}));
  EXPECT_EQ(rule->source, (TensorIndex{0, 0, 5, 0}));
}

TEST_F(RelocationTest, TheSecondAndThirdRegisterOfAFragment) {
  take_from([](TensorIndex& at) {  // rows g and g + 8, columns 2 t and 2 t + 1
    const bool is_lower = at[2] % 16 >= 8, is_odd = at[3] % 2;
    if (is_lower == is_odd) return;
    at[2] += is_lower ? -8 : 8;
    at[3] += is_lower ? 1 : -1;
  });
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(name_of(rule->relation), "offset");
  EXPECT_EQ(rule->offset, (TensorIndex{0, 0, 8, -1}));
  EXPECT_EQ(rule->element, (TensorIndex{0, 0, 0, 1}));
  EXPECT_EQ(rule->source, (TensorIndex{0, 0, 8, 0}));
}

TEST_F(RelocationTest, RowsAsColumns) {
  set_shape({1, 2, 16, 16});
  take_from([](TensorIndex& at) { std::swap(at[2], at[3]); });
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(name_of(rule->relation), "transposed");
  EXPECT_EQ(rule->element, (TensorIndex{0, 0, 0, 1}));
  EXPECT_EQ(rule->source, (TensorIndex{0, 0, 1, 0}));
}

TEST_F(RelocationTest, AnotherOutput) {
  reference_["dv"] = random_values(1024, 2);
  outputs_["dv"] = {shape_, {}};
  outputs_["o"].data.assign(reference_["dv"].begin(), reference_["dv"].end());
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(name_of(rule->relation), "same_index");
  EXPECT_EQ(rule->tensor, "dv");
  EXPECT_FALSE(rule->is_input);
  EXPECT_EQ(rule->source, rule->element);
}

TEST_F(RelocationTest, AnInput) {
  inputs_["v"] = {shape_, {}};
  for (const double value : random_values(1024, 3)) inputs_["v"].data.push_back(float(value));
  outputs_["o"].data = inputs_["v"].data;
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->tensor, "v");
  EXPECT_TRUE(rule->is_input);
}

TEST_F(RelocationTest, HoldsForSomeOfTheWrongElements) {
  take_from([](TensorIndex& at) { at[2] ^= 8; });
  for (std::size_t element = 0; element < 64; ++element) outputs_["o"].data[element] = 77;
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_NEAR(rule->share, 1 - 64.0 / 1024, 1e-9);
  EXPECT_EQ(rule->element, (TensorIndex{0, 0, 4, 0}));
  for (std::size_t element = 0; element < 300; ++element) outputs_["o"].data[element] = 77;
  EXPECT_FALSE(found());
}

TEST_F(RelocationTest, OtherValuesBelongNowhere) {
  const std::vector<double> other = random_values(1024, 4);
  outputs_["o"].data.assign(other.begin(), other.end());
  EXPECT_FALSE(found());
  EXPECT_FALSE(found(1e-2));  // some of them are found by chance
}

TEST_F(RelocationTest, ZerosAndMissingNumbersBelongNowhere) {
  take_from([](TensorIndex& at) { at[2] ^= 8; });
  for (std::size_t element = 0; element < 700; ++element) outputs_["o"].data[element] = 0;
  EXPECT_FALSE(found());
}

TEST_F(RelocationTest, ValuesThatAreEverywhereAreNoEvidence) {
  for (std::size_t element = 0; element < 1024; ++element) {
    reference_["o"][element] = double(element % 2 + 1);
    outputs_["o"].data[element] = float((element / 16 % 3 + element) % 2 + 1);
  }
  EXPECT_FALSE(found());
}

TEST_F(RelocationTest, LargeTensorsAreSampled) {
  set_shape({2, 4, 256, 64});
  take_from([](TensorIndex& at) { at[2] ^= 8; });
  const auto rule = found();
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->relation, Relation::kXor);
  EXPECT_EQ(rule->by, 8);
}

}  // namespace
}  // namespace fa
