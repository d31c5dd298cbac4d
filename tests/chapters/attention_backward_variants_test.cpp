// Tests every variant of a chapter on the backward pass with every kind of shape and input: right gradients,
// no defects, and exactly the bytes of its formula.

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

using Shape = AttentionBackward::Shape;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

const AnyChapter& chapter() {
  static const AnyChapter instance = describe_chapter();
  return instance;
}

std::string text(const Shape& shape) {
  std::string words;
  for (const auto& [name, length] : AttentionBackward::describe(shape))
    words += name + " " + std::to_string(length) + " ";
  return words + std::string(name_of(shape.dtype)) + (shape.causal ? " causal" : "");
}

class BackwardVariant : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!takes(as_taken({.head_dim = 64}))) GTEST_SKIP() << "this device lacks what the variant needs";
  }
  static bool takes(const Shape& shape) {
    for (const auto& variant : chapter_of<AttentionBackward>(chapter()).variants) {
      if (variant.name == GetParam()) return !why_refused<AttentionBackward>(variant, shape);
    }
    return false;
  }
  /// The shape in the first element type that the variant supports, and with 64 columns if it has no kernel
  /// for fewer.
  static Shape as_taken(Shape shape) {
    for (const std::int64_t head_dim : {shape.head_dim, std::max<std::int64_t>(64, shape.head_dim)}) {
      for (const DType dtype : kTypes) {
        shape.head_dim = head_dim;
        shape.dtype = dtype;
        if (takes(shape)) return shape;
      }
    }
    return shape;
  }
  static VariantResult run_on(const Shape& shape, const TensorMap& inputs) {
    return run<AttentionBackward>(chapter(), GetParam(), shape, inputs);
  }
  static void expect_right_as_given(const Shape& shape, Init init, std::uint64_t seed) {
    EXPECT_EQ(run_on(shape, random_inputs<AttentionBackward>(shape, init, seed)).complaint(), "")
        << text(shape);
  }
  static void expect_right(const Shape& shape, Init init = Init::kNormal, std::uint64_t seed = 1) {
    expect_right_as_given(as_taken(shape), init, seed);
  }
};

TEST_P(BackwardVariant, IsRightOnAlignedAndRaggedShapes) {
  for (const auto& [queries, keys] :
       {std::pair{1, 1}, {3, 1}, {2, 3}, {1, 130}, {130, 1}, {64, 64}, {65, 63}, {31, 129}, {130, 257}}) {
    expect_right({.seq_q = queries, .seq_k = keys, .head_dim = 32});
  }
}

TEST_P(BackwardVariant, SLOW_IsRightForEveryHeadDimensionAndElementType) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t head_dim : {32, 64, 128, 256}) {
      for (const bool causal : {false, true}) {
        const Shape shape{.seq_q = 70, .seq_k = 134, .head_dim = head_dim, .causal = causal, .dtype = dtype};
        if (takes(shape)) expect_right_as_given(shape, Init::kNormal, 7);
      }
    }
  }
}

// Columns past the last one must neither be read nor written, nor add anything. HBM bytes are those of the
// columns that exist. The element types take turns, so that each one meets every width of the kernels.
TEST_P(BackwardVariant, SLOW_IsRightForEveryMultipleOfEight) {
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
    for (const DType dtype : kTypes) {
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

TEST_P(BackwardVariant, SLOW_IsRightInEveryLayoutOrRefuses) {
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

TEST_P(BackwardVariant, IsRightUnderACausalMask) {
  for (const int seq : {1, 2, 31, 64, 65, 129, 200}) {
    expect_right({.seq_q = seq, .seq_k = seq, .head_dim = 32, .causal = true});
  }
}

// The mask is aligned to the last query and the last key.
TEST_P(BackwardVariant, IsRightUnderACausalMaskOfUnequalLengths) {
  for (const auto& [queries, keys] : {std::pair{1, 70}, {5, 133}, {65, 200}, {63, 64}}) {
    expect_right({.seq_q = queries, .seq_k = keys, .head_dim = 32, .causal = true});
  }
}

TEST_P(BackwardVariant, GivesZerosWhereAQuerySeesNoKey) {
  for (const auto& [queries, keys] : {std::pair{2, 1}, {100, 30}, {200, 65}, {64, 63}}) {
    const Shape shape = as_taken(
        {.heads = 2, .kv_heads = 2, .seq_q = queries, .seq_k = keys, .head_dim = 32, .causal = true});
    const VariantResult result = run_on(shape, random_inputs<AttentionBackward>(shape, Init::kNormal, 2));
    ASSERT_EQ(result.complaint(), "") << text(shape);
    for (std::int64_t i = 0; i < (queries - keys) * shape.head_dim; ++i) {
      ASSERT_EQ(result.outputs.at("dq").data[std::size_t(i)], 0.0f) << i;
    }
  }
}

TEST_P(BackwardVariant, IsRightForSeveralBatchesAndHeads) {
  expect_right({.batch = 3, .heads = 2, .kv_heads = 2, .seq_q = 33, .seq_k = 40, .head_dim = 32});
  expect_right(
      {.batch = 2, .heads = 3, .kv_heads = 3, .seq_q = 70, .seq_k = 70, .head_dim = 32, .causal = true});
}

// dK and dV sum over all query heads that share them.
TEST_P(BackwardVariant, IsRightForGroupedQueries) {
  expect_right({.batch = 2, .heads = 6, .kv_heads = 2, .seq_q = 33, .seq_k = 37, .head_dim = 32});
  expect_right({.heads = 4, .kv_heads = 1, .seq_q = 70, .seq_k = 140, .head_dim = 32, .causal = true});
}

TEST_P(BackwardVariant, TakesAGivenScale) {
  expect_right({.seq_q = 33, .seq_k = 65, .head_dim = 32, .scale = 0.7});
  expect_right({.seq_q = 20, .seq_k = 65, .head_dim = 64, .scale = 1e-3});
}

TEST_P(BackwardVariant, TakesTheLargestScale) {
  const Shape shape = as_taken({.seq_q = 33, .seq_k = 65, .head_dim = 32, .scale = kMostScale});
  TensorMap inputs = random_inputs<AttentionBackward>(shape, Init::kNormal, 1);
  for (const char* name : {"q", "k"}) {
    for (float& x : inputs.at(name).data) x *= 2.5e-20f;  // logits are near 1
  }
  EXPECT_EQ(run_on(shape, inputs).complaint(), "");
}

// A rounded LSE of 2^24 or more does not determine P. Rows that have one add nothing, rather than NaN.
TEST_P(BackwardVariant, SLOW_GivesFiniteGradientsForScoresOfAnySize) {
  for (const DType dtype : kTypes) {
    for (const double magnitude : score_magnitudes()) {
      for (const double sign : {1.0, -1.0}) {
        Shape shape = as_taken({.seq_q = 19, .seq_k = 70, .head_dim = 32, .causal = sign > 0});
        shape.dtype = dtype;
        if (!takes(shape)) continue;
        if (GetParam() == "standard" && dtype != DType::kFloat32) continue;  // rounds scores to 16 bits
        TensorMap inputs = random_inputs<AttentionBackward>(shape, Init::kNormal, 17);
        shape.scale = large_scores(shape, inputs, magnitude, sign, dtype != DType::kFloat16);
        const VariantResult result = run_on(shape, inputs);
        for (const char* name : {"dq", "dk", "dv"}) {
          for (const float x : result.outputs.at(name).data) {
            // In fp16, the scale times the error of dS may overflow.
            ASSERT_TRUE(std::isfinite(x) || (std::isinf(x) && dtype == DType::kFloat16))
                << name << ' ' << x << ' ' << magnitude * sign << ' ' << text(shape);
          }
        }
        if (magnitude > 1) continue;
        EXPECT_EQ(result.complaint(), "") << magnitude * sign << ' ' << text(shape);
      }
    }
  }
}

TEST_P(BackwardVariant, SLOW_IsRightOnRandomShapes) {
  std::mt19937 random(31);
  const auto up_to = [&](std::uint32_t most) { return std::int64_t(1 + random() % most); };
  for (int i = 0; i < 8; ++i) {
    const std::int64_t kv_heads = up_to(2);
    expect_right({.batch = up_to(2),
                  .heads = kv_heads * up_to(2),
                  .kv_heads = kv_heads,
                  .seq_q = up_to(100),
                  .seq_k = up_to(100),
                  .head_dim = i % 3 == 0 ? 64 : 32,
                  .causal = i % 2 == 0},
                 i % 4 == 0 ? Init::kUniform : Init::kNormal, random());
  }
}

// Logits near -320: fp32 rounds each by about 2e-5, and P with it.
TEST_P(BackwardVariant, IsRightWhereLogitsAreFarFromZero) {
  const Shape shape =
      as_taken({.heads = 4, .kv_heads = 2, .seq_q = 38, .seq_k = 150, .head_dim = 64, .causal = true});
  EXPECT_EQ(
      run_on(shape, far_from_zero(random_inputs<AttentionBackward>(shape, Init::kNormal, 9))).complaint(),
      "");
}

// The other head of K and V, and the queries that read it, are not touched.
TEST_P(BackwardVariant, LetsNaNSpreadWithinItsHead) {
  const Shape shape =
      as_taken({.heads = 4, .kv_heads = 2, .seq_q = 40, .seq_k = 50, .head_dim = 32, .causal = true});
  const auto last_key = std::size_t(49 * shape.head_dim), first_query = std::size_t(3);
  for (const auto& [name, element] :
       {std::pair{"v", last_key}, {"k", last_key}, {"q", first_query}, {"do", first_query}}) {
    TensorMap inputs = random_inputs<AttentionBackward>(shape, Init::kNormal, 5);
    inputs.at(name).data[element] = kNaN;
    const VariantResult result = run_on(shape, inputs);
    EXPECT_EQ(result.complaint(), "") << name;
    const std::vector<float>& dq = result.outputs.at("dq").data;
    EXPECT_TRUE(std::isnan(dq[std::size_t(name[0] == 'v' || name[0] == 'k' ? 39 * shape.head_dim : 0)]))
        << name;
  }
}

// Logits reach about +-80: P is near 0 or 1.
TEST_P(BackwardVariant, IsRightOnOutliers) {
  expect_right({.seq_q = 65, .seq_k = 130, .head_dim = 64}, Init::kOutliers, 3);
  expect_right({.seq_q = 70, .seq_k = 70, .head_dim = 32, .causal = true}, Init::kOutliers, 4);
}

// The rows of K and of V have a constant in common, which has to cancel in dP - D.
TEST_P(BackwardVariant, IsRightOnOffsets) {
  expect_right({.heads = 4, .kv_heads = 2, .seq_q = 31, .seq_k = 131, .head_dim = 64, .causal = true},
               Init::kOffset, 5);
  expect_right({.seq_q = 100, .seq_k = 70, .head_dim = 32}, Init::kOffset, 6);
}

// The first tokens of the first heads of the bundled input.
TEST_P(BackwardVariant, IsRightOnTheRealInput) {
  const Shape shape =
      as_taken({.heads = 2, .kv_heads = 2, .seq_q = 70, .seq_k = 70, .head_dim = 32, .causal = true});
  if (shape.head_dim != 32) GTEST_SKIP() << "the bundled input has 32 columns";
  EXPECT_EQ(run_on(shape, real_inputs(shape, {"q", "k", "v", "do"})).complaint(), "") << text(shape);
}

TEST_P(BackwardVariant, PassesNaNOnToTheGradientOfItsQueryAndOfNoOther) {
  const Shape shape = as_taken({.seq_q = 40, .seq_k = 50, .head_dim = 32});
  const auto head_dim = std::size_t(shape.head_dim);
  TensorMap inputs = random_inputs<AttentionBackward>(shape, Init::kNormal, 5);
  inputs.at("q").data[7 * head_dim + 3] = kNaN;
  const VariantResult result = run_on(shape, inputs);
  for (std::size_t i = 0; i < 40 * head_dim; ++i) {
    ASSERT_EQ(std::isnan(result.outputs.at("dq").data[i]), i / head_dim == 7) << i;
  }
  for (const char* name : {"dk", "dv"}) {  // every key is seen by that query
    for (const float x : result.outputs.at(name).data) ASSERT_TRUE(std::isnan(x)) << name;
  }
}

// A variant refuses, with a message, what it was not compiled for, and computes everything else.
TEST_P(BackwardVariant, IsRightOrRefuses) {
  const auto expect_right_or = [&](const std::string& refusal, const Shape& shape) {
    try {
      expect_right_as_given(shape, Init::kNormal, 6);
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()).find(refusal), 0u) << error.what();
    }
  };
  for (const std::int64_t head_dim : {1, 40, 256}) {
    expect_right_or(
        "--head-dim is " + std::to_string(head_dim) + ": must be ",
        {.seq_q = 2, .seq_k = 2, .head_dim = head_dim, .dtype = as_taken({.head_dim = 64}).dtype});
  }
  for (const DType dtype : kTypes) {
    expect_right_or("--dtype is " + std::string(name_of(dtype)) + ": this variant takes ",
                    {.seq_q = 33, .seq_k = 70, .head_dim = 64, .causal = true, .dtype = dtype});
  }
}

TEST(BackwardProgram, RefusesScalesThatFp32CannotHold) { expect_bad_scales_refused(chapter()); }

INSTANTIATE_TEST_SUITE_P(Every, BackwardVariant, testing::ValuesIn(variant_names(chapter())),
                         [](const auto& variant) { return variant.param; });

}  // namespace
}  // namespace fa
