#include "diagnosis/diagnosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

/// The outputs of another problem, by its words.
Reference other_problem(const Shape& shape, const TensorMap& inputs, const std::string& change) {
  for (const OtherProblem& other : other_problems<AttentionForward>(shape, inputs)) {
    if (other.change == change) return other.reference();
  }
  ADD_FAILURE() << change;
  return {};
}

TEST(AttentionForwardOthers, LeaveOutMaskOrScale) {
  const Shape shape{.seq_q = 3, .seq_k = 5, .head_dim = 4, .causal = true};
  const TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 1);
  Shape other = shape;
  other.causal = false;
  EXPECT_EQ(other_problem(shape, inputs, "without the causal mask"),
            AttentionForward::reference(other, inputs));
  other = shape;
  other.scale = 0.25;
  EXPECT_EQ(other_problem(shape, inputs, "with the scale applied twice"),
            AttentionForward::reference(other, inputs));
  other.scale = 2;
  EXPECT_EQ(other_problem(shape, inputs, "with a division by the scale"),
            AttentionForward::reference(other, inputs));
}

TEST(AttentionForwardOthers, ReadAnotherHead) {
  const Shape shape{.batch = 2, .heads = 4, .kv_heads = 2, .seq_q = 3, .seq_k = 5, .head_dim = 2};
  const TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 1);
  const Reference right = AttentionForward::reference(shape, inputs);
  const Reference other = other_problem(shape, inputs, "if head h of q read head h % 2 of k and v");
  ASSERT_EQ(other.at("o").size(), right.at("o").size());
  for (std::int64_t head = 0; head < 8; ++head) {  // of both batches
    const bool same = head % 4 / 2 == head % 2;
    for (std::int64_t i = head * 6; i < head * 6 + 6; ++i)
      EXPECT_EQ(other.at("o")[std::size_t(i)] == right.at("o")[std::size_t(i)], same) << i;
  }
}

TEST(AttentionForwardOthers, TakeAnInputForAnotherOrInAnotherOrder) {
  const Shape shape{.seq_q = 12, .seq_k = 12, .head_dim = 16};
  const TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 1);
  TensorMap changed = inputs;
  changed["k"] = inputs.at("v");
  EXPECT_EQ(other_problem(shape, inputs, "with v in place of k"),
            AttentionForward::reference(shape, changed));
  changed = inputs;
  for (std::size_t row = 0; row < 12; ++row) {
    for (std::size_t col = 0; col < 16; ++col) {
      const std::size_t from = row ^ 8;  // beyond the end: 0
      changed["v"].data[row * 16 + col] = from < 12 ? inputs.at("v").data[from * 16 + col] : 0;
    }
  }
  EXPECT_EQ(other_problem(shape, inputs, "if v had rows 0 to 7 and 8 to 15 of every 16 swapped"),
            AttentionForward::reference(shape, changed));
}

TEST(AttentionForwardOthers, HavePInDisorder) {
  // One element per row and V = 2^key, so that O is a sum of distinct powers, and K = 0, so that each P is 1.
  const Shape shape{.seq_q = 12, .seq_k = 16, .head_dim = 1, .causal = true};
  TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 1);
  std::fill(inputs["k"].data.begin(), inputs["k"].data.end(), 0.0f);
  for (std::size_t key = 0; key < 16; ++key) inputs["v"].data[key] = std::exp2(float(key));
  const Reference other = other_problem(
      shape, inputs, "if P had the top right and the bottom left quarter of every 16 x 16 tile swapped");
  EXPECT_EQ(other.at("lse"), AttentionForward::reference(shape, inputs).at("lse"));
  // Row 0 sees keys 0 to 4. Its keys 8 to 15 have the P of row 8 and keys 0 to 7, all of which that row sees.
  EXPECT_NEAR(other.at("o")[0], (0x1Fp0 + 0xFF00p0) / 5, 1e-9);
  // Row 5 sees keys 0 to 9. Row 13 does not exist: its scores are 0.
  EXPECT_NEAR(other.at("o")[5], (0xFFp0 + 0xFF00p0) / 10, 1e-9);
  // Row 9 sees keys 0 to 13. Its keys 0 to 7 have the P of row 1 and keys 8 to 15, none of which that row
  // sees.
  EXPECT_NEAR(other.at("o")[9], 0x3F00p0 / 14, 1e-9);
}

TEST(AttentionForwardOthers, HaveAMaskThatIsOffByOneOrBeginsAtTheFirstKey) {
  // V = 2^key and K = 0: O is the mean of the powers for the keys that a query sees.
  const Shape shape{.heads = 2, .kv_heads = 2, .seq_q = 3, .seq_k = 5, .head_dim = 1, .causal = true};
  TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 1);
  std::fill(inputs["k"].data.begin(), inputs["k"].data.end(), 0.0f);
  for (std::size_t key = 0; key < 10; ++key) inputs["v"].data[key] = std::exp2(float(key % 5));
  const auto expect_o = [&](const std::string& change, const std::vector<double>& of_a_head) {
    SCOPED_TRACE(change);
    const Reference other = other_problem(shape, inputs, change);
    ASSERT_EQ(other.at("o").size(), 6u);
    ASSERT_EQ(other.at("lse").size(), 6u);
    for (std::size_t row = 0; row < 6; ++row)
      EXPECT_NEAR(other.at("o")[row], of_a_head[row % 3], 1e-12) << row;
  };
  expect_o("if every query saw one key more, and zeros for a key after the last",
           {15.0 / 4, 31.0 / 5, 31.0 / 6});
  expect_o("if every query saw one key more", {15.0 / 4, 31.0 / 5, 31.0 / 5});
  expect_o("if every query saw one key fewer", {3.0 / 2, 7.0 / 3, 15.0 / 4});
  expect_o("if query i saw keys 0 to i", {1, 3.0 / 2, 7.0 / 3});
}

TEST(AttentionForwardOthers, HaveAMaskFromTheFirstKeyAlsoWithMoreQueriesThanKeys) {
  const Shape shape{.seq_q = 4, .seq_k = 2, .head_dim = 1, .causal = true};
  TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 1);
  inputs["k"].data = {0, 0};
  inputs["v"].data = {1, 4};
  const Reference other = other_problem(shape, inputs, "if query i saw keys 0 to i");
  EXPECT_EQ(other.at("o"), (std::vector<double>{1, 2.5, 2.5, 2.5}));
  EXPECT_EQ(other.at("lse"), (std::vector<double>{0, std::log(2), std::log(2), std::log(2)}));
}

}  // namespace
}  // namespace fa
