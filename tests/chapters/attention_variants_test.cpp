// Tests every variant of a chapter on the forward pass with every kind of shape and input: right O and LSE,
// no defects, and exactly the bytes of its formula. Linked once with each of these chapters.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "attention_checks.hpp"
#include "harness/runner.hpp"
#include "large_scores.hpp"
#include "scales.hpp"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const AnyChapter& chapter() {
  static const AnyChapter instance = describe_chapter();
  return instance;
}

std::string text(const Shape& shape) {
  std::string words;
  for (const auto& [name, length] : AttentionForward::describe(shape))
    words += name + " " + std::to_string(length) + " ";
  return words + (shape.causal ? "causal" : "");
}

/// On a GPU that is too old for every variant, none of the chapter's tests can run.
class NewEnoughDevice : public testing::Environment {
  void SetUp() override {
    std::string reason;
    const AttentionShape shape{.head_dim = 64, .dtype = DType::kBFloat16};
    for (const Variant<AttentionForward>& variant : chapter_of<AttentionForward>(chapter()).variants) {
      if (why_unsuitable<AttentionForward>(variant, shape)) return;  // kernels of fp32 run on any device
      const auto skip = what_device_lacks<AttentionForward>(variant, shape);
      if (!skip || !skip->device_too_old) return;
      reason = skip->reason;
    }
    GTEST_SKIP() << reason;
  }
};
const testing::Environment* const new_enough_device =
    testing::AddGlobalTestEnvironment(new NewEnoughDevice);  // GoogleTest deletes it

class AttentionVariant : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!takes(as_taken({.head_dim = 64}))) GTEST_SKIP() << "this device lacks what the variant needs";
  }
  static bool takes(const Shape& shape) {
    for (const Variant<AttentionForward>& variant : chapter_of<AttentionForward>(chapter()).variants) {
      if (variant.name == GetParam()) return !why_refused<AttentionForward>(variant, shape);
    }
    return false;
  }
  /// The shape in the first element type that the variant supports, and with 64 columns if it has no kernel
  /// for fewer. These tests are about lengths, masks and heads.
  static Shape as_taken(Shape shape) {
    for (const std::int64_t head_dim : {shape.head_dim, std::max<std::int64_t>(64, shape.head_dim)}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        shape.head_dim = head_dim;
        shape.dtype = dtype;
        if (takes(shape)) return shape;
      }
    }
    return shape;
  }
  static VariantResult run_on(const Shape& shape, const TensorMap& inputs) {
    return run<AttentionForward>(chapter(), GetParam(), shape, inputs);
  }
  static void expect_right_as_given(const Shape& shape, Init init, std::uint64_t seed) {
    EXPECT_EQ(run_on(shape, random_inputs<AttentionForward>(shape, init, seed)).complaint(), "")
        << text(shape);
  }
  static void expect_right(const Shape& shape, Init init = Init::kNormal, std::uint64_t seed = 1) {
    expect_right_as_given(as_taken(shape), init, seed);
  }
};

TEST_P(AttentionVariant, IsRightOnAlignedAndRaggedShapes) {
  for (const auto& [queries, keys] :
       {std::pair{1, 1}, {2, 3}, {1, 130}, {130, 1}, {64, 64}, {65, 63}, {31, 100}, {33, 129}, {130, 131}}) {
    expect_right({.seq_q = queries, .seq_k = keys, .head_dim = 32});
  }
}

TEST_P(AttentionVariant, IsRightForEveryHeadDimension) {
  for (const std::int64_t head_dim : {32, 64, 128, 256}) {
    for (const bool causal : {false, true}) {
      const Shape shape = as_taken({.seq_q = 34, .seq_k = 70, .head_dim = head_dim, .causal = causal});
      if (head_dim <= 64 || takes(shape)) expect_right(shape);  // not all are compiled for larger ones
    }
  }
}

// Columns past the last one must neither be read nor written, nor add anything. HBM bytes are those of the
// columns that exist. The element types take turns, so that each one meets every width of the kernels.
TEST_P(AttentionVariant, SLOW_IsRightForEveryMultipleOfEight) {
  constexpr Layout kLayouts[] = {Layout::kBhsd, Layout::kBshd, Layout::kSliced};
  std::size_t runs = 0;
  for (std::int64_t head_dim = 8; head_dim <= 256; head_dim += 8) {
    const bool causal = head_dim % 16 == 0;
    Shape dense{.heads = 2,
                .kv_heads = causal ? 1 : 2,
                .seq_q = 35,
                .seq_k = 70,
                .head_dim = head_dim,
                .causal = causal};
    std::vector<DType> types;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      dense.dtype = dtype;
      if (takes(dense)) types.push_back(dtype);
    }
    if (types.empty()) continue;
    dense.dtype = types[std::size_t(head_dim / 16) % types.size()];
    Shape shape = dense;
    shape.set_layout(kLayouts[runs++ % 3]);
    expect_right_as_given(takes(shape) ? shape : dense, Init::kNormal, 8);
  }
}

TEST_P(AttentionVariant, IsRightInEveryLayoutOrRefuses) {
  const Shape dense = as_taken(
      {.batch = 2, .heads = 6, .kv_heads = 3, .seq_q = 70, .seq_k = 150, .head_dim = 32, .causal = true});
  for (const Layout layout : {Layout::kBshd, Layout::kSliced}) {
    Shape shape = dense;
    shape.set_layout(layout);
    try {
      expect_right_as_given(shape, Init::kNormal, 8);
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("1): this variant takes ("), std::string::npos)
          << error.what();
    }
  }
}

TEST_P(AttentionVariant, IsRightUnderACausalMask) {
  for (const int seq : {1, 2, 31, 64, 65, 100, 129}) {
    expect_right({.seq_q = seq, .seq_k = seq, .head_dim = 32, .causal = true});
  }
}

// The mask is aligned to the last query and the last key.
TEST_P(AttentionVariant, IsRightUnderACausalMaskOfUnequalLengths) {
  for (const auto& [queries, keys] : {std::pair{1, 70}, {5, 133}, {65, 100}, {63, 64}}) {
    expect_right({.seq_q = queries, .seq_k = keys, .head_dim = 32, .causal = true});
  }
}

TEST_P(AttentionVariant, GivesZeroAndMinusInfinityWhereAQuerySeesNoKey) {
  for (const auto& [queries, keys] : {std::pair{2, 1}, {100, 30}, {130, 65}, {64, 63}}) {
    const Shape shape = as_taken(
        {.heads = 2, .kv_heads = 2, .seq_q = queries, .seq_k = keys, .head_dim = 32, .causal = true});
    const VariantResult result = run_on(shape, random_inputs<AttentionForward>(shape, Init::kNormal, 2));
    ASSERT_EQ(result.complaint(), "") << text(shape);
    EXPECT_EQ(result.outputs.at("lse").data[0], -kInf);
    for (int d = 0; d < shape.head_dim; ++d) EXPECT_EQ(result.outputs.at("o").data[std::size_t(d)], 0.0f);
  }
}

TEST_P(AttentionVariant, IsRightForSeveralBatchesAndHeads) {
  expect_right({.batch = 3, .heads = 2, .kv_heads = 2, .seq_q = 33, .seq_k = 40, .head_dim = 32});
  expect_right(
      {.batch = 2, .heads = 3, .kv_heads = 3, .seq_q = 34, .seq_k = 34, .head_dim = 32, .causal = true});
}

TEST_P(AttentionVariant, IsRightForGroupedQueries) {
  expect_right({.batch = 2, .heads = 6, .kv_heads = 2, .seq_q = 33, .seq_k = 37, .head_dim = 32});
  expect_right({.heads = 4, .kv_heads = 1, .seq_q = 40, .seq_k = 66, .head_dim = 32, .causal = true});
}

TEST_P(AttentionVariant, TakesAGivenScale) {
  expect_right({.seq_q = 33, .seq_k = 65, .head_dim = 32, .scale = 0.7});
  expect_right({.seq_q = 20, .seq_k = 65, .head_dim = 64, .scale = 1e-3});
  expect_right({.seq_q = 20, .seq_k = 65, .head_dim = 64, .scale = kLeastScale});
}

TEST_P(AttentionVariant, TakesTheLargestScale) {
  const Shape shape = as_taken({.seq_q = 33, .seq_k = 65, .head_dim = 32, .scale = kMostScale});
  TensorMap inputs = random_inputs<AttentionForward>(shape, Init::kNormal, 1);
  for (const char* name : {"q", "k"}) {
    for (float& x : inputs.at(name).data) x *= 2.5e-20f;  // logits are near 1
  }
  EXPECT_EQ(run_on(shape, inputs).complaint(), "");
}

// From 2^30 on, the rounding error of the row's largest exponent is too large an exponent itself. See
// device/unresolved_rows.cuh.
TEST_P(AttentionVariant, SLOW_IsRightForScoresOfAnySize) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const double magnitude : score_magnitudes()) {
      for (const double sign : {1.0, -1.0}) {
        Shape shape = as_taken({.seq_q = 19, .seq_k = 70, .head_dim = 32, .causal = sign > 0});
        shape.dtype = dtype;
        if (!takes(shape)) continue;
        if (GetParam() == "three_kernels" && dtype != DType::kFloat32) continue;  // rounds scores to 16 bits
        TensorMap inputs = random_inputs<AttentionForward>(shape, Init::kNormal, 17);
        shape.scale = large_scores(shape, inputs, magnitude, sign, dtype != DType::kFloat16);
        const VariantResult result = run_on(shape, inputs);
        ASSERT_EQ(complaint_on_large_scores(shape, inputs, result.outputs, magnitude, sign), "")
            << text(shape);
      }
    }
  }
}

TEST_P(AttentionVariant, SLOW_IsRightOnRandomShapes) {
  std::mt19937 random(30);
  const auto up_to = [&](std::uint32_t most) { return std::int64_t(1 + random() % most); };
  for (int i = 0; i < 12; ++i) {
    const std::int64_t kv_heads = up_to(2);
    expect_right({.batch = up_to(2),
                  .heads = kv_heads * up_to(2),
                  .kv_heads = kv_heads,
                  .seq_q = up_to(70),
                  .seq_k = up_to(70),
                  .head_dim = i % 3 == 0 ? 64 : 32,
                  .causal = i % 2 == 0},
                 i % 4 == 0 ? Init::kUniform : Init::kNormal, random());
  }
}

// Logits reach about +-80: sums and maxima change by many orders of magnitude from tile to tile.
TEST_P(AttentionVariant, IsRightOnOutliers) {
  expect_right({.seq_q = 65, .seq_k = 130, .head_dim = 64}, Init::kOutliers, 3);
  expect_right({.seq_q = 70, .seq_k = 70, .head_dim = 32, .causal = true}, Init::kOutliers, 4);
}

// Logits near -320: fp32 rounds each by about 2e-5, and probabilities with it.
TEST_P(AttentionVariant, IsRightWhereLogitsAreFarFromZero) {
  const Shape shape =
      as_taken({.heads = 14, .kv_heads = 2, .seq_q = 38, .seq_k = 150, .head_dim = 64, .causal = true});
  EXPECT_EQ(
      run_on(shape, far_from_zero(random_inputs<AttentionForward>(shape, Init::kNormal, 9))).complaint(), "");
}

// The first tokens of the first heads of the bundled input.
TEST_P(AttentionVariant, IsRightOnTheRealInput) {
  Shape shape = as_taken({.heads = 3, .kv_heads = 3, .seq_q = 70, .seq_k = 70, .head_dim = 32});
  if (shape.head_dim != 32) GTEST_SKIP() << "the bundled input has 32 columns";
  const TensorMap inputs = real_inputs(shape);
  for (const bool causal : {false, true}) {
    shape.causal = causal;
    EXPECT_EQ(run_on(shape, inputs).complaint(), "") << text(shape);
  }
}

TEST_P(AttentionVariant, PassesNaNOnToItsQueryAndNoOther) {
  const Shape shape = as_taken({.seq_q = 40, .seq_k = 50, .head_dim = 32});
  TensorMap inputs = random_inputs<AttentionForward>(shape, Init::kNormal, 5);
  const auto head_dim = std::size_t(shape.head_dim);
  inputs.at("q").data[7 * head_dim + 3] = kNaN;
  const VariantResult result = run_on(shape, inputs);
  for (std::size_t query = 0; query < 40; ++query) {
    EXPECT_EQ(std::isnan(result.outputs.at("lse").data[query]), query == 7) << query;
    for (std::size_t d = 0; d < head_dim; ++d) {
      ASSERT_EQ(std::isnan(result.outputs.at("o").data[query * head_dim + d]), query == 7)
          << query << ' ' << d;
    }
  }
}

// Every query before the last one multiplies the row of V by 0, or leaves it out. The other head of K and V
// is not touched.
TEST_P(AttentionVariant, SLOW_LetsNaNOfAHiddenKeySpreadWithinItsHead) {
  const Shape shape =
      as_taken({.heads = 4, .kv_heads = 2, .seq_q = 40, .seq_k = 50, .head_dim = 32, .causal = true});
  for (const auto& [name, value] : {std::pair{"v", kNaN}, {"v", kInf}, {"k", kNaN}}) {
    TensorMap inputs = random_inputs<AttentionForward>(shape, Init::kNormal, 5);
    inputs.at(name).data[std::size_t(49 * shape.head_dim + 3)] = value;
    const VariantResult result = run_on(shape, inputs);
    EXPECT_EQ(result.complaint(), "") << name << ' ' << value;
    EXPECT_FALSE(std::isfinite(result.outputs.at("o").data[std::size_t(39 * shape.head_dim + 3)])) << name;
  }
}

// A variant refuses, with a message, what it was not compiled for, and computes everything else.
TEST_P(AttentionVariant, IsRightOrRefuses) {
  const auto expect_right_or = [&](const std::string& refusal, const Shape& shape) {
    try {
      expect_right_as_given(shape, Init::kNormal, 1);
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()).find(refusal), 0u) << error.what();
    }
  };
  for (const std::int64_t head_dim : {1, 40, 512}) {
    expect_right_or(
        "--head-dim is " + std::to_string(head_dim) + ": must be ",
        {.seq_q = 2, .seq_k = 2, .head_dim = head_dim, .dtype = as_taken({.head_dim = 64}).dtype});
  }
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    expect_right_or("--dtype is " + std::string(name_of(dtype)) + ": this variant takes ",
                    {.seq_q = 33, .seq_k = 70, .head_dim = 64, .causal = true, .dtype = dtype});
  }
}

TEST(AttentionProgram, RefusesScalesThatFp32CannotHold) { expect_bad_scales_refused(chapter()); }

INSTANTIATE_TEST_SUITE_P(Every, AttentionVariant, testing::ValuesIn(variant_names(chapter())),
                         [](const auto& variant) { return variant.param; });

}  // namespace
}  // namespace fa
