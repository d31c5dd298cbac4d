#include "attention/attention_forward.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attention/half.hpp"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Attention computed from its definition, one query at a time.
Reference by_definition(const Shape& shape, const TensorMap& inputs) {
  const auto at = [&](const char* name, std::int64_t batch, std::int64_t head, std::int64_t row,
                      std::int64_t d) {
    const Tensor& tensor = inputs.at(name);
    return double(tensor.data[std::size_t(
        ((batch * tensor.shape[1] + head) * tensor.shape[2] + row) * tensor.shape[3] + d)]);
  };
  Reference reference;
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const std::int64_t kv_head = head * shape.kv_heads / shape.heads;
      for (std::int64_t query = 0; query < shape.seq_q; ++query) {
        std::vector<double> logits;
        for (std::int64_t key = 0; key < shape.seq_k; ++key) {
          if (shape.causal && key > query + shape.seq_k - shape.seq_q) break;
          double dot = 0;
          for (std::int64_t d = 0; d < shape.head_dim; ++d) {
            dot += at("q", batch, head, query, d) * at("k", batch, kv_head, key, d);
          }
          logits.push_back(dot * shape.scale.value_or(1 / std::sqrt(double(shape.head_dim))));
        }
        const double max = logits.empty() ? 0 : *std::max_element(logits.begin(), logits.end());
        double sum = 0;
        for (const double logit : logits) sum += std::exp(logit - max);
        reference["lse"].push_back(logits.empty() ? -kInf : max + std::log(sum));
        for (std::int64_t d = 0; d < shape.head_dim; ++d) {
          double o = 0;
          for (std::size_t key = 0; key < logits.size(); ++key) {
            o += std::exp(logits[key] - max) / sum * at("v", batch, kv_head, std::int64_t(key), d);
          }
          reference["o"].push_back(o);
        }
      }
    }
  }
  return reference;
}

void expect_equal(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(expected[i])) {
      ASSERT_EQ(got[i], expected[i]) << i;
    } else {
      ASSERT_NEAR(got[i], expected[i], tolerance) << i;
    }
  }
}

void expect_by_definition(const Shape& shape, Init init = Init::kNormal) {
  const TensorMap inputs = AttentionForward::random_inputs(shape, init, 3);
  const Reference reference = AttentionForward::reference(shape, inputs);
  const Reference expected = by_definition(shape, inputs);
  expect_equal(reference.at("o"), expected.at("o"), 1e-12);
  expect_equal(reference.at("lse"), expected.at("lse"), 1e-12);
}

TEST(AttentionReference, FollowsTheDefinition) {
  expect_by_definition({});
  expect_by_definition({.seq_q = 3, .seq_k = 5, .head_dim = 7});
  expect_by_definition({.seq_q = 65, .seq_k = 130, .head_dim = 32});
  expect_by_definition({.seq_q = 129, .seq_k = 1, .head_dim = 4, .scale = 0.3});
  expect_by_definition({.batch = 2, .heads = 3, .kv_heads = 3, .seq_q = 5, .seq_k = 6, .head_dim = 8});
  expect_by_definition({.seq_q = 70, .seq_k = 90, .head_dim = 64}, Init::kOutliers);
}

TEST(AttentionReference, GroupedQueriesShareKeysAndValues) {
  expect_by_definition({.batch = 2, .heads = 6, .kv_heads = 2, .seq_q = 7, .seq_k = 9, .head_dim = 8});
  expect_by_definition({.batch = 3, .heads = 4, .kv_heads = 1, .seq_q = 7, .seq_k = 9, .head_dim = 8});
}

TEST(AttentionReference, TheMaskIsAlignedAtTheLastQueryAndTheLastKey) {
  for (const auto& [queries, keys] :
       {std::pair{100, 100}, {1, 70}, {65, 100}, {100, 65}, {130, 1}, {200, 3}}) {
    expect_by_definition({.seq_q = queries, .seq_k = keys, .head_dim = 8, .causal = true});
  }
}

TEST(AttentionReference, AQueryThatSeesNoKeyIsZero) {
  const Shape shape{.seq_q = 3, .seq_k = 1, .head_dim = 4, .causal = true};
  const Reference reference =
      AttentionForward::reference(shape, AttentionForward::random_inputs(shape, Init::kNormal, 1));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(reference.at("o")[i], 0);
  EXPECT_EQ(reference.at("lse")[0], -kInf);
  EXPECT_EQ(reference.at("lse")[1], -kInf);
  EXPECT_TRUE(std::isfinite(reference.at("lse")[2]));
}

TEST(AttentionReference, InputsAreRoundedToTheTypeOfTheDevice) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Shape shape{.seq_q = 5, .seq_k = 9, .head_dim = 8, .dtype = dtype};
    const TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 3);
    TensorMap rounded = inputs;
    for (auto& [name, tensor] : rounded) tensor.data = rounded_to(dtype, tensor.data);
    const Reference reference = AttentionForward::reference(shape, inputs);
    expect_equal(reference.at("o"), by_definition(shape, rounded).at("o"), 1e-12);
    expect_equal(reference.at("lse"), by_definition(shape, rounded).at("lse"), 1e-12);
  }
}

/// Which queries of a causal 4 x 4 attention are NaN, as "0101", if one element is set.
std::string nan_rows(const char* tensor, std::size_t row, float value) {
  const Shape shape{.seq_q = 4, .seq_k = 4, .head_dim = 2, .causal = true};
  TensorMap inputs = AttentionForward::random_inputs(shape, Init::kUniform, 2);
  for (float& q : inputs.at("q").data) q = std::abs(q);  // so that an infinite key gives a logit of that sign
  inputs.at(tensor).data[2 * row] = value;
  const Reference reference = AttentionForward::reference(shape, inputs);
  std::string rows;
  for (std::size_t query = 0; query < 4; ++query) {
    const bool o = std::isnan(reference.at("o")[2 * query]);
    const bool lse = std::isnan(reference.at("lse")[query]);
    rows += !o ? '0' : lse ? '1' : 'o';
  }
  return rows;
}

TEST(AttentionReference, NaNAndInfinityReachTheQueriesThatSeeThem) {
  EXPECT_EQ(nan_rows("q", 1, kNaN), "0100");
  EXPECT_EQ(nan_rows("k", 2, kNaN), "0011");
  EXPECT_EQ(nan_rows("k", 2, float(kInf)), "0011");
  EXPECT_EQ(nan_rows("k", 2, -float(kInf)), "0000");  // a logit of -inf: probability 0
  EXPECT_EQ(nan_rows("v", 3, kNaN), "000o");          // logits do not depend on V
}

TEST(AttentionReference, OnlyMinusInfinityIsLikeNoKey) {
  const Shape shape{.seq_q = 1, .seq_k = 2, .head_dim = 1};
  const float minus_inf = -float(kInf);
  const Reference reference =
      AttentionForward::reference(shape, {{"q", {{1, 1, 1, 1}, {1.0f}}},
                                          {"k", {{1, 1, 2, 1}, {minus_inf, minus_inf}}},
                                          {"v", {{1, 1, 2, 1}, {2.0f, 3.0f}}}});
  EXPECT_EQ(reference.at("o")[0], 0);
  EXPECT_EQ(reference.at("lse")[0], -kInf);
}

TEST(AttentionInputs, OutliersMakeLogitsOfAboutEighty) {
  for (const std::int64_t head_dim : {32, 64, 128, 256}) {
    const Shape shape{.seq_q = 100, .seq_k = 100, .head_dim = head_dim};
    const TensorMap inputs = AttentionForward::random_inputs(shape, Init::kOutliers, 1);
    const Tensor x = logits(shape, inputs.at("q"), inputs.at("k"));
    double square = 0;
    for (const float value : x.data) square += double(value) * value;
    const auto [lowest, highest] = std::minmax_element(x.data.begin(), x.data.end());
    EXPECT_NEAR(std::sqrt(square / double(x.data.size())), 13, 2.5) << head_dim;
    EXPECT_GT(*highest, 50) << head_dim;
    EXPECT_LT(*highest, 90) << head_dim;
    EXPECT_LT(*lowest, -50) << head_dim;
    EXPECT_GT(*lowest, -90) << head_dim;
    EXPECT_LT(std::abs(*std::max_element(inputs.at("v").data.begin(), inputs.at("v").data.end())), 7);
  }
}

TEST(AttentionForward, CountsTheOperationsOfVisibleKeys) {
  EXPECT_EQ(AttentionForward::flops({.seq_q = 3, .seq_k = 5, .head_dim = 7}), 4.0 * 3 * 5 * 7);
  EXPECT_EQ(
      AttentionForward::flops(
          {.batch = 2, .heads = 3, .kv_heads = 1, .seq_q = 4, .seq_k = 4, .head_dim = 8, .causal = true}),
      4.0 * 2 * 3 * (1 + 2 + 3 + 4) * 8);
}

TEST(AttentionShape, PairsAreTheSumOfTheKeysOfEachQuery) {
  for (const bool causal : {false, true}) {
    for (const auto& [queries, keys] : {std::pair{1, 1}, {4, 4}, {3, 7}, {7, 3}, {1, 9}, {9, 1}}) {
      const Shape shape{.seq_q = queries, .seq_k = keys, .causal = causal};
      std::int64_t sum = 0;
      for (std::int64_t query = 0; query < queries; ++query) sum += shape.visible_keys(query);
      EXPECT_EQ(shape.visible_pairs(), sum) << queries << ' ' << keys << ' ' << causal;
    }
  }
}

TEST(AttentionShape, RefusesLengthsThatHaveNoAddresses) {
  const std::int64_t most = std::numeric_limits<int>::max();
  const std::int64_t longest = most - 255;  // rounded up to a multiple of 256, it is still an int
  EXPECT_FALSE(refuse({.seq_q = longest, .seq_k = longest, .head_dim = 256}));
  EXPECT_EQ(refuse({.seq_q = longest + 1}).value().message(),
            "--seq-q is 2147483393: must be from 1 to 2147483392");
  EXPECT_EQ(refuse({.seq_k = most}).value().message(), "--seq-k is 2147483647: must be from 1 to 2147483392");
  const Shape shape{.seq_q = longest, .seq_k = 1, .head_dim = most};
  const std::string text = refuse(shape).value().message();
  EXPECT_EQ(text.find("--batch 1 --heads 1 --seq-q 2147483392"), 0u) << text;
}

// Blocks, and rows of all heads, are counted in an int. Every head has whole tiles.
TEST(AttentionShape, RefusesMoreRowsThanAGridHasBlocks) {
  EXPECT_EQ(refuse({.batch = 65536, .heads = 127, .kv_heads = 1}), std::nullopt);
  EXPECT_EQ(refuse({.batch = 65536, .heads = 128, .kv_heads = 1}).value().message(),
            "--batch 65536 times --heads 128 times --seq-q 1, rounded up to a multiple of 256: must be at "
            "most 2147483647");
  EXPECT_EQ(refuse({.batch = 4, .heads = 8, .kv_heads = 8, .seq_k = 1 << 27}).value().message(),
            "--batch 4 times --kv-heads 8 times --seq-k 134217728, rounded up to a multiple of 256: must be "
            "at most 2147483647");
  const std::int64_t most = std::numeric_limits<int>::max();
  EXPECT_TRUE(refuse({.batch = most, .heads = most, .kv_heads = most, .seq_q = most - 255}));
}

TEST(AttentionShape, RefusesWhatAVariantWasNotCompiledFor) {
  const Shape shape{.head_dim = 64, .dtype = DType::kFloat16};
  EXPECT_EQ(refuse_unless(shape, {32, 64}, {DType::kFloat16, DType::kBFloat16}), std::nullopt);
  EXPECT_EQ(refuse_unless(shape, {32, 128}, {DType::kFloat16}).value().message(),
            "--head-dim is 64: must be one of 32, 128");
  EXPECT_EQ(refuse_unless(shape, {64}, {DType::kFloat32}).value().message(),
            "--dtype is fp16: this variant takes fp32");
  EXPECT_EQ(refuse_unless_padded(shape, 64, {DType::kFloat16}), std::nullopt);
  EXPECT_EQ(refuse_unless_padded(shape, 56, {DType::kFloat16}).value().message(),
            "--head-dim is 64: must be a multiple of 8 up to 56");
  EXPECT_EQ(refuse_unless_padded({.head_dim = 68, .dtype = DType::kFloat16}, 256, {DType::kFloat16})
                .value()
                .message(),
            "--head-dim is 68: must be a multiple of 8 up to 256");
  EXPECT_EQ(refuse_unless_padded(shape, 64, {DType::kFloat32}).value().message(),
            "--dtype is fp16: this variant takes fp32");
}

TEST(AttentionShape, RefusalsSayWhetherAnotherVariantMayTakeIt) {
  Shape shape{.heads = 2, .kv_heads = 2, .seq_q = 5, .head_dim = 64};
  const auto reason = [](const std::optional<Refusal>& refusal) { return refusal.value().reason; };
  EXPECT_EQ(reason(refuse_unless(shape, {64}, {DType::kFloat16})), Refusal::Reason::kVariant);
  EXPECT_EQ(reason(refuse_unless(shape, {32}, {DType::kFloat32})), Refusal::Reason::kProblem);
  shape.head_dim_v = 32;
  EXPECT_EQ(reason(refuse_unless_equal_widths(shape)), Refusal::Reason::kVariant);
  shape.set_layout(Layout::kBshd);
  EXPECT_EQ(reason(refuse_unless_dense(shape)), Refusal::Reason::kLayout);
  shape.heads = 0;
  EXPECT_EQ(reason(refuse(shape)), Refusal::Reason::kProblem);
}

TEST(AttentionShapes, LayoutsGiveStrides) {
  AttentionShape shape{.batch = 2, .heads = 6, .kv_heads = 3, .seq_q = 5, .seq_k = 7, .head_dim = 16};
  EXPECT_EQ(shape.strides_of("dq"), (Strides{6 * 5 * 16, 5 * 16, 16}));
  EXPECT_EQ(shape.strides_of("dv"), (Strides{3 * 7 * 16, 7 * 16, 16}));
  EXPECT_EQ(refuse_unless_dense(shape), std::nullopt);
  shape.set_layout(Layout::kBshd);
  EXPECT_EQ(shape.strides_of("do"), (Strides{6 * 5 * 16, 16, 6 * 16}));
  EXPECT_EQ(shape.strides_of("k"), (Strides{3 * 7 * 16, 16, 3 * 16}));
  EXPECT_EQ(shape.tensor("k").extent(), shape.tensor("k").elements());
  EXPECT_EQ(
      refuse_unless_dense(shape).value().message(),
      "q has the strides (480, 16, 96, 1): this variant takes (480, 80, 16, 1), those of --layout bhsd");
  shape.set_layout(Layout::kSliced);
  EXPECT_NE(shape.strides_of("k"), shape.strides_of("v"));
  EXPECT_GT(shape.tensor("k").extent(), shape.tensor("k").elements());
  EXPECT_EQ(refuse(shape), std::nullopt);
  shape.set_layout(Layout::kBhsd);
  EXPECT_TRUE(shape.strides.empty());
}

TEST(AttentionShapes, TakeStridesOfWholeChunks) {
  AttentionShape shape{.batch = 2, .heads = 2, .seq_q = 5, .seq_k = 7, .head_dim = 16};
  shape.set_strides("q", {1000, 500, 20});
  EXPECT_EQ(refuse(shape), std::nullopt);
  shape.dtype = DType::kFloat16;
  EXPECT_EQ(refuse(shape).value().message(),
            "q has the strides (1000, 500, 20, 1): all but the last must be multiples of 8 (16 bytes)");
  shape.set_strides("q", {160, 80, 16});
  EXPECT_TRUE(shape.strides.empty());
  shape.set_strides("k", {112, 3, 16});  // there is one head of K
  EXPECT_TRUE(shape.strides.empty());
}

TEST(AttentionShapes, OutputsThatOverlapAreRefused) {
  const AttentionShape shape{.batch = 2, .heads = 6, .kv_heads = 3, .seq_q = 5, .seq_k = 7, .head_dim = 16};
  const auto reason = [&](const char* name, const Strides& strides) -> std::string {
    AttentionShape changed = shape;
    changed.set_strides(name, strides);
    const auto refusal = refuse(changed);
    return refusal ? refusal->message() : "";
  };
  const std::string overlap = ": rows of a tensor that is written must not overlap";
  for (const char* name : {"o", "dq"}) {
    const std::string has = name + std::string(" has the strides ");
    EXPECT_EQ(reason(name, {480, 80, 0}), has + "(480, 80, 0, 1)" + overlap);
    EXPECT_EQ(reason(name, {480, 80, -16}), has + "(480, 80, -16, 1)" + overlap);
    EXPECT_EQ(reason(name, {480, 80, 8}), has + "(480, 80, 8, 1)" + overlap);
    EXPECT_EQ(reason(name, {0, 80, 16}), has + "(0, 80, 16, 1)" + overlap);
    EXPECT_EQ(reason(name, {480, 64, 16}), has + "(480, 64, 16, 1)" + overlap) << "the fifth row";
    EXPECT_EQ(reason(name, {400, 80, 16}), has + "(400, 80, 16, 1)" + overlap) << "the sixth head";
    EXPECT_EQ(reason(name, {600, 96, 16}), "");
    EXPECT_EQ(reason(name, {480, 16, 96}), "");
    EXPECT_EQ(reason(name, {16, 32, 32 * 6}), "") << "the batch within a row";
  }
  for (const char* name : {"dk", "dv"}) {
    EXPECT_EQ(reason(name, {336, 96, 16}), name + std::string(" has the strides (336, 96, 16, 1)") + overlap);
    EXPECT_EQ(reason(name, {336, 16, 48}), "");
  }
  for (const char* name : {"q", "k", "v", "do"})  // may be expanded
    EXPECT_EQ(reason(name, {0, 0, 16}), "");
  AttentionShape one{.seq_q = 1, .seq_k = 7, .head_dim = 16};
  one.set_strides("o", {0, 0, 0});  // of dimensions of length 1
  EXPECT_EQ(refuse(one), std::nullopt);
}

TEST(AttentionForwardInputs, AreTheLogitsOfAFewKeys) {
  const Shape shape{.heads = 2, .seq_q = 3, .seq_k = 2, .head_dim = 2, .causal = true, .scale = 0.5};
  const TensorMap inputs = {{"q", {{1, 2, 3, 2}, {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 2, 1}}},
                            {"k", {{1, 1, 2, 2}, {3, 10, -1, 4}}},
                            {"v", {{1, 1, 2, 2}, {1, 1, 1, 1}}}};
  const auto said = [&](std::int64_t query) {
    return AttentionForward::describe_inputs(shape, inputs, "o", {0, 1, query, 0});
  };
  EXPECT_EQ(said(0), "query 0 sees no key");
  EXPECT_EQ(said(1), "query 1 sees 1 of 2 keys; its scaled logit is 1.5");
  EXPECT_EQ(said(2), "query 2 sees 2 keys; their scaled logits are 8, 1");
}

TEST(AttentionForwardInputs, AreNotListedIfTheyAreMany) {
  Shape shape{.seq_q = 2, .seq_k = 9, .head_dim = 2};
  const TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 1);
  EXPECT_EQ(AttentionForward::describe_inputs(shape, inputs, "lse", {0, 0, 0}), "");
  shape.causal = true;
  EXPECT_EQ(AttentionForward::describe_inputs(shape, inputs, "lse", {0, 0, 0}), "query 0 sees 8 of 9 keys");
}

/// The limits of fp32 on these inputs.
Tolerances limits_of(const Shape& shape, const TensorMap& inputs) {
  return AttentionForward::tolerances(shape, inputs, AttentionForward::reference(shape, inputs));
}

TEST(AttentionForwardLimits, AreTheSameForAllOrdinaryInputs) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t head_dim : {8, 64, 512}) {
      for (const Init init : {Init::kNormal, Init::kUniform, Init::kOffset, Init::kOutliers}) {
        if (init == Init::kOutliers && head_dim > 64) continue;  // logits are up to 100
        const Shape shape{.heads = 2,
                          .kv_heads = 1,
                          .seq_q = 70,
                          .seq_k = 150,
                          .head_dim = head_dim,
                          .causal = head_dim == 64,
                          .dtype = dtype};
        const Tolerances here = limits_of(shape, AttentionForward::random_inputs(shape, init, 3));
        for (const auto& [name, tolerance] : AttentionForward::tolerances(shape)) {
          EXPECT_EQ(here.at(name).measure, tolerance.measure);
          EXPECT_LE(here.at(name).limit, (init == Init::kOutliers ? 1.1 : 1) * tolerance.limit)
              << name << ' ' << head_dim << ' ' << int(init);
        }
      }
    }
  }
}

TEST(AttentionForwardLimits, GrowWithTheLogits) {
  const Shape shape{.heads = 2, .kv_heads = 1, .seq_q = 70, .seq_k = 150, .head_dim = 64};
  TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 3);
  for (float& x : inputs.at("q").data) x = 1 + 0.05f * x;
  for (float& x : inputs.at("k").data) x -= 40;
  const Tolerances here = limits_of(shape, inputs);  // logits near -320, each off by 320 * 5 * 2^-24
  EXPECT_NEAR(here.at("o").limit, 9.6e-5, 1e-5);
  EXPECT_NEAR(here.at("lse").limit, 3.8e-4, 4e-5);
}

TEST(AttentionForwardLimits, CountWhatCancelsInALogit) {
  const Shape shape{.seq_q = 70, .seq_k = 150, .head_dim = 64};
  TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 3);
  for (float& x : inputs.at("q").data) x = 100 + 0.05f * x;
  for (std::size_t i = 0; i < inputs.at("k").data.size(); ++i)
    inputs.at("k").data[i] = 0.1f * inputs.at("k").data[i] + (i % 64 < 32 ? 10.0f : -10.0f);
  EXPECT_GT(limits_of(shape, inputs).at("o").limit, 1e-4);  // logits are below 100, sums up to 4000
}

// Logits of 1e30 differ by more than they are rounded by, or belong to equal rows of V: the usual limit holds
// for O. If not, O is a mean of two rows of V with any weights. LSE has a relative limit.
TEST(AttentionForwardLimits, AreUsualWhereRoundingCannotChangeO) {
  const Shape shape{.seq_q = 1, .seq_k = 2, .head_dim = 64, .scale = 1};
  const auto tensor = [&](std::int64_t rows, float first, float second) {
    std::vector<float> data(std::size_t(64 * rows), second);
    std::fill_n(data.begin(), 64, first);
    return Tensor{.shape = {1, 1, rows, 64}, .data = data};
  };
  const auto limits = [&](float first_key, float second_key, float first_value, float second_value) {
    return limits_of(shape, {{"q", tensor(1, 1.25e14f, 0)},
                             {"k", tensor(2, first_key, second_key)},
                             {"v", tensor(2, first_value, second_value)}});
  };
  EXPECT_EQ(limits(1.25e14f, 1e14f, 1, 2).at("o").limit, 1e-5);
  EXPECT_EQ(limits(1.25e14f, -1.25e14f, 1, 2).at("o").limit, 1e-5);
  EXPECT_EQ(limits(1.25e14f, 1.25e14f, 2, 2).at("o").limit, 1e-5);
  EXPECT_NEAR(limits(1.25e14f, 1.25e14f, 1, 3).at("o").limit, 0.5, 1e-6);  // O is 2, and may be from 1 to 3
  const double lse = limits(1.25e14f, 1e14f, 1, 2).at("lse").limit;
  EXPECT_GT(lse, 1e24);  // LSE is 1e30
  EXPECT_LT(lse, 3e24);
}

TEST(AttentionForwardLimits, AcceptNaNOnlyInTheHeadThatReadsIt) {
  const Shape shape{
      .batch = 2, .heads = 4, .kv_heads = 2, .seq_q = 3, .seq_k = 3, .head_dim = 2, .causal = true};
  TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 3);
  EXPECT_EQ(limits_of(shape, inputs).at("o").nan_in_part, std::vector<bool>(4, false));
  inputs.at("v").data[2 * 3 * 2 + 5] = kNaN;  // of the second batch
  const Tolerances with_v = limits_of(shape, inputs);
  EXPECT_EQ(with_v.at("o").nan_in_part, (std::vector{false, false, true, false}));
  EXPECT_EQ(with_v.at("lse").nan_in_part, std::vector<bool>(4, false));
  inputs.at("k").data[0] = kNaN;
  const Tolerances with_both = limits_of(shape, inputs);
  EXPECT_EQ(with_both.at("o").nan_in_part, (std::vector{true, false, true, false}));
  EXPECT_EQ(with_both.at("lse").nan_in_part, (std::vector{true, false, false, false}));
}

}  // namespace
}  // namespace fa
