#include "attention/attention_backward.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attention/half.hpp"

namespace fa {
namespace {

using Shape = AttentionBackward::Shape;

/// Inputs that are multiples of 1/1024, so that a step of 1/128 up or down is exact in fp32.
TensorMap steppable_inputs(const Shape& shape) {
  TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 5);
  for (auto& [name, tensor] : inputs) {
    for (float& x : tensor.data) x = std::round(x * 1024.0f) / 1024.0f;
  }
  return inputs;
}

/// sum(dO * O): the loss whose gradient with respect to O is dO.
double loss(const Shape& shape, const TensorMap& inputs) {
  const Reference forward = AttentionForward::reference(shape, inputs);
  double sum = 0;
  for (std::size_t i = 0; i < forward.at("o").size(); ++i) {
    sum += forward.at("o")[i] * double(inputs.at("do").data[i]);
  }
  return sum;
}

/// Compares every gradient with central differences of the float64 forward pass, of fourth order.
void expect_differences(const Shape& shape) {
  const TensorMap inputs = steppable_inputs(shape);
  const Reference gradients = AttentionBackward::reference(shape, inputs);
  constexpr float kStep = 0x1p-7f;
  for (const std::string name : {"q", "k", "v"}) {
    const std::vector<double>& gradient = gradients.at("d" + name);
    ASSERT_EQ(gradient.size(), inputs.at(name).data.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto loss_at = [&](int steps) {
        TensorMap moved = inputs;
        moved.at(name).data[i] += float(steps) * kStep;
        return loss(shape, moved);
      };
      const double difference =
          (8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * double(kStep));
      ASSERT_NEAR(gradient[i], difference, 2e-7) << "d" << name << " " << i;
    }
  }
}

TEST(AttentionBackwardReference, IsTheDerivativeOfTheForwardPass) {
  expect_differences({.seq_q = 3, .seq_k = 5, .head_dim = 4});
  expect_differences(
      {.batch = 2, .heads = 2, .kv_heads = 2, .seq_q = 4, .seq_k = 3, .head_dim = 2, .scale = 0.8});
  expect_differences({.seq_q = 66, .seq_k = 70, .head_dim = 1});  // more than one block of either
}

TEST(AttentionBackwardReference, KeysAndValuesCollectFromAllHeadsThatShareThem) {
  expect_differences({.batch = 2, .heads = 4, .kv_heads = 2, .seq_q = 3, .seq_k = 4, .head_dim = 2});
  expect_differences({.heads = 3, .kv_heads = 1, .seq_q = 2, .seq_k = 5, .head_dim = 3, .causal = true});
}

TEST(AttentionBackwardReference, HiddenPairsAddNothing) {
  expect_differences({.seq_q = 5, .seq_k = 5, .head_dim = 3, .causal = true});
  expect_differences({.seq_q = 2, .seq_k = 6, .head_dim = 3, .causal = true});
  expect_differences({.seq_q = 6, .seq_k = 2, .head_dim = 3, .causal = true});  // four queries see no key
}

TEST(AttentionBackwardReference, QueriesWithoutKeysAndKeysWithoutQueriesAreZero) {
  const Shape shape{.seq_q = 4, .seq_k = 2, .head_dim = 2, .causal = true};
  TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 1);
  const Reference gradients = AttentionBackward::reference(shape, inputs);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(gradients.at("dq")[i], 0) << i;
  for (const auto& [name, values] : gradients) {
    for (const double value : values) EXPECT_TRUE(std::isfinite(value)) << name;
  }
}

TEST(AttentionBackwardReference, WhatAHiddenKeyHoldsCountsNothing) {
  const Shape shape{.seq_q = 3, .seq_k = 3, .head_dim = 2, .causal = true};
  TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 1);
  inputs.at("v").data[2 * 2] = std::numeric_limits<float>::infinity();  // only query 2 sees key 2
  const Reference gradients = AttentionBackward::reference(shape, inputs);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isfinite(gradients.at("dq")[i])) << i;
  EXPECT_TRUE(std::isnan(gradients.at("dq")[4]));
}

TEST(AttentionBackwardReference, InputsAreRoundedToTheTypeOfTheDevice) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Shape shape{.seq_q = 4, .seq_k = 6, .head_dim = 4, .dtype = dtype};
    const TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 3);
    TensorMap rounded = inputs;
    for (auto& [name, tensor] : rounded) tensor.data = rounded_to(dtype, tensor.data);
    Shape fp32 = shape;
    fp32.dtype = DType::kFloat32;
    EXPECT_EQ(AttentionBackward::reference(shape, inputs), AttentionBackward::reference(fp32, rounded));
  }
}

TEST(AttentionBackward, WithASingleKeyTheZerosOfDqAndDkAreNotMeasuredRelatively) {
  const Shape shape{.heads = 2, .kv_heads = 1, .seq_q = 3, .seq_k = 1, .head_dim = 8};
  const Reference gradients =
      AttentionBackward::reference(shape, AttentionBackward::random_inputs(shape, Init::kNormal, 4));
  for (const char* name : {"dq", "dk"}) {
    for (const double value : gradients.at(name)) EXPECT_NEAR(value, 0, 1e-14) << name;
    EXPECT_EQ(AttentionBackward::tolerances(shape).at(name).measure, Measure::kMaxAbs);
  }
  EXPECT_EQ(AttentionBackward::tolerances(shape).at("dv").measure, Measure::kRelL2);
  EXPECT_EQ(AttentionBackward::tolerances({.seq_q = 3, .seq_k = 2}).at("dq").measure, Measure::kRelL2);
}

TEST(AttentionBackward, LimitsGrowWithTheLogits) {
  const Shape shape{.heads = 2, .kv_heads = 1, .seq_q = 70, .seq_k = 150, .head_dim = 64};
  TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 3);
  const auto limits = [&] {
    return AttentionBackward::tolerances(shape, inputs, AttentionBackward::reference(shape, inputs));
  };
  for (const auto& [name, tolerance] : limits()) EXPECT_EQ(tolerance.limit, 2e-5) << name;
  for (float& x : inputs.at("q").data) x = 1 + 0.05f * x;
  for (float& x : inputs.at("k").data) x -= 40;
  const Tolerances here = limits();  // P is off by 320 * 5 * 2^-24
  EXPECT_NEAR(here.at("dv").limit, 9.6e-5, 1e-5);
  EXPECT_GT(here.at("dq").limit, 9e-5);
  EXPECT_GT(here.at("dk").limit, 9e-5);
}

// A NaN in V at a key that only the last query sees: its D, its dQ and the dK of all keys. The reference
// multiplies no hidden key.
TEST(AttentionBackward, NaNReachesOnlyGradientsThatDependOnIt) {
  const Shape shape{.seq_q = 100, .seq_k = 100, .head_dim = 4, .causal = true};
  TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 3);
  inputs.at("v").data.back() = std::numeric_limits<float>::quiet_NaN();
  Reference gradients = AttentionBackward::reference(shape, inputs);
  const auto is_nan = [&](const char* name, std::size_t row) {
    return std::isnan(gradients.at(name)[4 * row]);
  };
  for (std::size_t row = 0; row < 100; ++row) {
    EXPECT_EQ(is_nan("dq", row), row == 99) << row;
    EXPECT_TRUE(is_nan("dk", row)) << row;
    EXPECT_FALSE(is_nan("dv", row)) << row;
  }
  inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 3);
  inputs.at("do").data.front() =
      std::numeric_limits<float>::quiet_NaN();  // of a query that sees only the first key
  gradients = AttentionBackward::reference(shape, inputs);
  for (std::size_t row = 0; row < 100; ++row) {
    for (const char* name : {"dq", "dk", "dv"}) EXPECT_EQ(is_nan(name, row), row == 0) << name << row;
  }
  const Tolerances limits = AttentionBackward::tolerances(shape, inputs, gradients);
  for (const char* name : {"dq", "dk", "dv"}) EXPECT_EQ(limits.at(name).nan_in_part, std::vector{true});
}

// What rounding O costs: next to nothing on normal inputs, more where V and K have offsets, and in fp32
// little.
TEST(AttentionBackward, LimitsFollowTheCancellationInTheInputs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
    const Shape shape{.heads = 2, .kv_heads = 2, .seq_q = 31, .seq_k = 131, .head_dim = 64, .dtype = dtype};
    const Tolerances general = AttentionBackward::tolerances(shape);
    for (const Init init : {Init::kNormal, Init::kOffset}) {
      const TensorMap inputs = AttentionBackward::random_inputs(shape, init, 7);
      const Tolerances here =
          AttentionBackward::tolerances(shape, inputs, AttentionBackward::reference(shape, inputs));
      EXPECT_EQ(here.at("dv").limit, general.at("dv").limit);
      for (const char* name : {"dq", "dk"}) {
        const double ratio = here.at(name).limit / general.at(name).limit;
        if (dtype == DType::kFloat32) {
          EXPECT_GE(ratio, 1) << name;
          EXPECT_LT(ratio, init == Init::kNormal ? 1.0001 : 2) << name;
        } else if (init == Init::kNormal) {
          EXPECT_GT(ratio, 1) << name;
          EXPECT_LT(ratio, 1.1) << name;
        } else {
          EXPECT_GT(ratio, name == std::string("dq") ? 2 : 1) << name;
          EXPECT_LT(ratio, 12) << name;
        }
      }
    }
  }
}

TEST(AttentionBackward, NamesItsTensorsAfterThoseOfTheForwardPass) {
  const Shape shape{.batch = 2, .heads = 4, .kv_heads = 2, .seq_q = 3, .seq_k = 5, .head_dim = 8};
  std::string names;
  for (const TensorSpec& spec : AttentionBackward::inputs(shape)) names += spec.name + " ";
  for (const TensorSpec& spec : AttentionBackward::outputs(shape)) names += spec.name + " ";
  EXPECT_EQ(names, "q k v do dq dk dv ");
  EXPECT_EQ(AttentionBackward::inputs(shape)[3].shape, (std::vector<std::int64_t>{2, 4, 3, 8}));
  EXPECT_EQ(AttentionBackward::outputs(shape)[1].shape, (std::vector<std::int64_t>{2, 2, 5, 8}));
  EXPECT_EQ(AttentionBackward::flops({.seq_q = 3, .seq_k = 5, .head_dim = 7}), 10.0 * 3 * 5 * 7);
}

/// Checks that the ends of a problem, computed on their own, equal those of the whole.
template <class P>
void expect_ends(const AttentionShape& shape, std::int64_t batch, std::int64_t heads) {
  const Excerpt<AttentionShape> ends = P::ends(shape);
  EXPECT_EQ(ends.shape.batch, batch);
  EXPECT_EQ(ends.shape.heads, heads);
  EXPECT_EQ(ends.shape.kv_heads, 1);
  const TensorMap inputs = P::random_inputs(shape, Init::kNormal, 3);
  TensorMap whole;
  const Reference reference = P::reference(shape, inputs);
  for (const TensorSpec& spec : P::outputs(shape)) {
    const std::vector<double>& values = reference.at(spec.name);
    whole[spec.name] = {.shape = spec.shape, .data = {values.begin(), values.end()}};
  }
  const TensorMap cut = ends.cut(whole);
  const Reference alone = P::reference(ends.shape, ends.cut(inputs));
  for (const TensorSpec& spec : P::outputs(ends.shape)) {
    const std::vector<double>& values = alone.at(spec.name);
    EXPECT_EQ(cut.at(spec.name).shape, spec.shape) << spec.name;
    EXPECT_EQ(cut.at(spec.name).data, std::vector<float>(values.begin(), values.end())) << spec.name;
  }
}

TEST(AttentionEnds, AreAProblemOfTheirOwn) {
  const auto expect = [](const AttentionShape& shape, std::int64_t batch, std::int64_t heads) {
    expect_ends<AttentionForward>(shape, batch, heads);
    expect_ends<AttentionBackward>(shape, batch, heads);
  };
  expect({.batch = 3, .heads = 2, .kv_heads = 2, .seq_q = 70, .seq_k = 75, .head_dim = 8, .causal = true}, 2,
         1);
  expect({.batch = 1, .heads = 6, .kv_heads = 3, .seq_q = 5, .seq_k = 9, .head_dim = 4, .scale = 0.3}, 2, 2);
  expect({.batch = 2, .heads = 4, .kv_heads = 1, .seq_q = 9, .seq_k = 3, .head_dim = 4, .causal = true}, 2,
         4);
  expect({.heads = 3, .kv_heads = 1, .seq_q = 3, .seq_k = 3, .head_dim = 2}, 1, 3);
}

}  // namespace
}  // namespace fa
