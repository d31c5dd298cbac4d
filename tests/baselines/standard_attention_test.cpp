#include "baselines/standard_attention.hpp"

#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionShape;

/// Each element type, with and without a mask, on ragged lengths.
std::vector<Shape> small_shapes() {
  std::vector<Shape> shapes;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const bool causal : {false, true}) {
      for (const auto& [queries, keys] :
           {std::pair{1, 1}, {64, 64}, {33, 65}, {7, 100}, {100, 7}, {3, 1030}}) {
        shapes.push_back({.batch = 2,
                          .heads = 2,
                          .kv_heads = 2,
                          .seq_q = queries,
                          .seq_k = keys,
                          .head_dim = 32,
                          .causal = causal,
                          .dtype = dtype});
      }
    }
  }
  return shapes;
}

class StandardAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  }

  static VariantResult run(const Shape& shape, const TensorMap& inputs) {
    Variant<AttentionForward> variant;
    variant.name = "standard";
    variant.launch = standard_attention::launch;
    variant.traffic = standard_attention::traffic;
    variant.refuse = standard_attention::refuse;
    variant.workspace = standard_attention::workspace;
    const Reference reference = AttentionForward::reference(shape, inputs);
    return run_variant<AttentionForward>(variant, shape, inputs, &reference);
  }

  static void expect_right(const Shape& shape, Init init = Init::kNormal) {
    const VariantResult result = run(shape, random_inputs<AttentionForward>(shape, init, 1));
    EXPECT_EQ(result.complaint(), "") << shape.seq_q << " x " << shape.seq_k << " " << name_of(shape.dtype);
    const std::size_t logits = std::size_t(shape.batch * shape.heads * shape.seq_q * shape.seq_k);
    EXPECT_EQ(result.workspace_bytes, 2 * logits * size_of(shape.dtype));
  }
};

TEST_F(StandardAttention, IsRightAndMovesTheBytesOfItsFormula) {
  for (const Shape& shape : small_shapes()) expect_right(shape);
}

TEST_F(StandardAttention, GroupedQueriesShareKeysAndValues) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    expect_right(
        {.batch = 2, .heads = 6, .kv_heads = 2, .seq_q = 9, .seq_k = 13, .head_dim = 40, .dtype = dtype});
    expect_right(
        {.heads = 4, .kv_heads = 1, .seq_q = 9, .seq_k = 12, .head_dim = 8, .causal = true, .dtype = dtype});
  }
}

TEST_F(StandardAttention, TakesAnyHeadDimensionAndScale) {
  for (const std::int64_t head_dim : {1, 7, 64, 300}) {
    expect_right({.seq_q = 5, .seq_k = 9, .head_dim = head_dim, .scale = 0.25});
  }
}

TEST_F(StandardAttention, IsRightOnOutliers) {
  expect_right({.heads = 2, .kv_heads = 2, .seq_q = 70, .seq_k = 130, .head_dim = 64}, Init::kOutliers);
}

// Longer than the part of a row that stays on the chip.
TEST_F(StandardAttention, ReadsTheRestOfAVeryLongRowAgain) {
  for (const std::int64_t keys : {12288, 12300, 12301}) {
    const Shape shape{.seq_q = 2, .seq_k = keys, .head_dim = 8, .causal = true};
    expect_right(shape);
    const std::int64_t pack = keys % 4 == 0 ? 4 : 1;  // the first query sees one key fewer
    const std::int64_t seen = keys + (keys - 1 + pack - 1) / pack * pack;
    EXPECT_EQ(standard_attention::traffic(shape).tensors.at("s").read_bytes,
              4 * (seen + std::max<std::int64_t>(0, seen - 2 * 12288)));
  }
}

TEST_F(StandardAttention, AQueryThatSeesNoKeyIsZero) {
  const Shape shape{.seq_q = 5, .seq_k = 2, .head_dim = 4, .causal = true};
  const VariantResult result = run(shape, random_inputs<AttentionForward>(shape, Init::kNormal));
  EXPECT_EQ(result.complaint(), "");
  EXPECT_EQ(result.outputs.at("o").data[0], 0.0f);
  EXPECT_EQ(result.outputs.at("lse").data[2], -std::numeric_limits<float>::infinity());
}

TEST_F(StandardAttention, PassesNaNOnToItsQueryAndNoOther) {
  const Shape shape{.seq_q = 6, .seq_k = 9, .head_dim = 4};
  TensorMap inputs = random_inputs<AttentionForward>(shape, Init::kNormal);
  inputs.at("q").data[3 * 4] = std::numeric_limits<float>::quiet_NaN();
  const VariantResult result = run(shape, inputs);
  EXPECT_EQ(result.complaint(), "");
  for (std::size_t query = 0; query < 6; ++query) {
    EXPECT_EQ(std::isnan(result.outputs.at("lse").data[query]), query == 3);
    EXPECT_EQ(std::isnan(result.outputs.at("o").data[4 * query + 1]), query == 3);
  }
}

class StandardBackward : public StandardAttention {
 protected:
  static VariantResult run(const Shape& shape, Init init = Init::kNormal) {
    Variant<AttentionBackward> variant;
    variant.name = "standard";
    variant.launch = standard_backward::launch;
    variant.traffic = standard_backward::traffic;
    variant.refuse = standard_attention::refuse;
    variant.workspace = standard_backward::workspace;
    const TensorMap inputs = random_inputs<AttentionBackward>(shape, init, 1);
    const Reference reference = AttentionBackward::reference(shape, inputs);
    return run_variant<AttentionBackward>(variant, shape, inputs, &reference);
  }
};

TEST_F(StandardBackward, IsRightAndMovesTheBytesOfItsFormula) {
  for (const Shape& shape : small_shapes()) {
    EXPECT_EQ(run(shape).complaint(), "")
        << shape.seq_q << " x " << shape.seq_k << " " << name_of(shape.dtype) << " " << shape.causal;
  }
}

TEST_F(StandardBackward, GroupedQueriesAddToTheirSharedKeysAndValues) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const VariantResult result =
        run({.batch = 2, .heads = 6, .kv_heads = 2, .seq_q = 9, .seq_k = 13, .head_dim = 40, .dtype = dtype});
    EXPECT_EQ(result.complaint(), "");
  }
}

TEST_F(StandardBackward, IsRightOnOutliersAndWhereQueriesSeeNoKey) {
  EXPECT_EQ(run({.heads = 2, .kv_heads = 2, .seq_q = 70, .seq_k = 130, .head_dim = 64}, Init::kOutliers)
                .complaint(),
            "");
  EXPECT_EQ(run({.seq_q = 9, .seq_k = 5, .head_dim = 8, .causal = true}).complaint(), "");
}

// Longer than the part of a row that stays on the chip.
TEST_F(StandardBackward, ReadsTheRestOfAVeryLongRowAgain) {
  EXPECT_EQ(run({.seq_q = 2, .seq_k = 6400, .head_dim = 8, .causal = true}).complaint(), "");
}

TEST(StandardAttentionShape, RefusesMoreKeysThanHaveAddresses) {
  EXPECT_EQ(standard_attention::refuse({.seq_q = INT_MAX, .seq_k = 1 << 29}), std::nullopt);
  EXPECT_EQ(standard_attention::refuse({.seq_k = INT_MAX}).value().message(),
            "--seq-k is 2147483647: must be at most 536870912 for standard attention");
}

}  // namespace
}  // namespace fa
