// Tests the variants of chapter 12 on every kind of shape, forward and backward, and the claims of the
// lesson.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/program.hpp"
#include "harness/runner.hpp"
#include "large_scores.hpp"

namespace fa {
namespace {

using Shape = TwoWayAttention::Shape;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const AnyChapter& chapter() {
  static const AnyChapter instance = describe_chapter();
  return instance;
}

VariantResult run_on(const std::string& variant, const Shape& shape, Init init = Init::kNormal,
                     std::uint64_t seed = 12) {
  return run<TwoWayAttention>(chapter(), variant, shape, random_inputs<TwoWayAttention>(shape, init, seed));
}

const Variant<TwoWayAttention>& variant_named(const std::string& name) {
  for (const auto& variant : chapter_of<TwoWayAttention>(chapter()).variants) {
    if (variant.name == name) return variant;
  }
  throw std::invalid_argument("no variant " + name);
}

auto what_device_lacks_for(const std::string& variant) {
  return what_device_lacks<TwoWayAttention>(variant_named(variant),
                                            {{.head_dim = 64, .dtype = DType::kBFloat16}, false});
}

class LargeHeads : public testing::TestWithParam<std::string> {
 protected:
  static const Variant<TwoWayAttention>& variant() { return variant_named(GetParam()); }
  void SetUp() override {
    if (const auto lacking = what_device_lacks_for(GetParam())) GTEST_SKIP() << lacking->reason;
  }
  /// Whether another variant's tests run the same kernel: LargeHeadsFinal.HasTheBitsOfCluster.
  static bool is_tested_with_cluster(const Shape& problem) {
    return GetParam() == "final" && problem.dtype == DType::kBFloat16 && !problem.backward;
  }
  /// The variant refuses, or is right, in each type and in both directions.
  static void expect_right(AttentionShape shape, Init init = Init::kNormal,
                           const std::vector<DType>& types = {DType::kBFloat16}) {
    for (const DType dtype : types) {
      for (const bool backward : {false, true}) {
        shape.dtype = dtype;
        const Shape problem = {shape, backward};
        if (is_tested_with_cluster(problem) || why_refused<TwoWayAttention>(variant(), problem)) continue;
        EXPECT_EQ(run_on(GetParam(), problem, init).complaint(), "")
            << name_of(dtype) << (backward ? " backward " : " ") << shape.seq_q << "x" << shape.seq_k << " "
            << shape.head_dim << "/" << shape.value_dim();
      }
    }
  }
  static constexpr DType kFloat32 = DType::kFloat32, kFloat16 = DType::kFloat16, kBFloat16 = DType::kBFloat16;
};

TEST_P(LargeHeads, SLOW_IsRightForAllWidths) {
  const std::pair<std::int64_t, std::int64_t> widths[] = {
      {8, 8},     {64, 64},   {72, 40},   {128, 64},  {192, 128}, {256, 264}, {512, 8},    {8, 512},
      {512, 520}, {576, 512}, {640, 512}, {648, 512}, {1024, 8},  {8, 1024},  {1024, 1024}};
  for (const auto& [d, d_v] : widths)
    expect_right({.heads = 2,
                  .kv_heads = 1,
                  .seq_q = 70,
                  .seq_k = 150,
                  .head_dim = d,
                  .head_dim_v = d_v,
                  .causal = true},
                 Init::kNormal, {kBFloat16, kFloat32});
}

TEST_P(LargeHeads, IsRightForAllLengths) {
  bool causal = false;
  for (const auto& [queries, keys] : {std::pair{1, 1},
                                      {1, 300},
                                      {300, 1},
                                      {63, 65},
                                      {64, 64},
                                      {65, 63},
                                      {127, 129},
                                      {128, 128},
                                      {129, 127},
                                      {200, 257}}) {
    expect_right({.seq_q = queries, .seq_k = keys, .head_dim = 80, .head_dim_v = 136, .causal = causal});
    causal = !causal;
  }
}

TEST_P(LargeHeads, SLOW_IsRightForGroupsAndBatches) {
  for (const auto& [kv_heads, dtype] : {std::pair{1, kFloat16}, {2, kFloat32}, {6, kFloat16}, {1, kFloat32}})
    expect_right({.batch = 2,
                  .heads = 6,
                  .kv_heads = kv_heads,
                  .seq_q = 70,
                  .seq_k = 90,
                  .head_dim = 64,
                  .head_dim_v = 72,
                  .causal = true},
                 Init::kNormal, {dtype});
}

TEST_P(LargeHeads, SLOW_IsRightOnOutliersAndOffsets) {
  for (const Init init : {Init::kOutliers, Init::kUniform, Init::kOffset}) {
    for (const auto& [d, dtype] : {std::pair{128, kFloat16}, {520, kBFloat16}, {520, kFloat32}})
      expect_right({.seq_q = 66, .seq_k = 300, .head_dim = d}, init, {dtype});
  }
}

TEST_P(LargeHeads, TakesAnyStrides) {
  for (const Layout layout : {Layout::kBshd, Layout::kSliced}) {
    AttentionShape shape{
        .batch = 2, .heads = 2, .kv_heads = 2, .seq_q = 70, .seq_k = 90, .head_dim = 72, .head_dim_v = 136};
    for (const DType dtype : {kBFloat16, kFloat32}) {
      shape.dtype = dtype;
      shape.set_layout(layout);
      expect_right(shape, Init::kNormal, {dtype});
    }
  }
}

// Scores of tiles taken later are much larger: O is rescaled, and rows differ in when.
TEST_P(LargeHeads, FollowsMaximaThatGrow) {
  for (const DType dtype : {kBFloat16, kFloat32}) {
    const Shape shape = {{.seq_q = 70, .seq_k = 600, .head_dim = 72, .dtype = dtype}, false};
    if (is_tested_with_cluster(shape) || why_refused<TwoWayAttention>(variant(), shape)) continue;
    TensorMap inputs = random_inputs<TwoWayAttention>(shape, Init::kNormal, 3);
    std::vector<float>& k = inputs.at("k").data;
    for (std::size_t i = 0; i < k.size(); ++i) k[i] *= 1.0f + 0.01f * float(600 - i / 72);
    EXPECT_EQ(run<TwoWayAttention>(chapter(), GetParam(), shape, inputs).complaint(), "") << name_of(dtype);
  }
}

// Rows of V and K of very different sizes: in fp32, each has an exponent of its own.
TEST_P(LargeHeads, IsRightForRowsOfVeryDifferentSizes) {
  const Shape shape = {{.seq_q = 70, .seq_k = 300, .head_dim = 128, .dtype = kFloat32}, false};
  if (why_refused<TwoWayAttention>(variant(), shape)) GTEST_SKIP() << "not in fp32";
  TensorMap inputs = random_inputs<TwoWayAttention>(shape, Init::kNormal, 4);
  for (const char* name : {"q", "k", "v"}) {
    std::vector<float>& x = inputs.at(name).data;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::ldexp(1.0f, int(i / 128 % 23) - 20);
  }
  EXPECT_EQ(run<TwoWayAttention>(chapter(), GetParam(), shape, inputs).complaint(), "");
  std::vector<float>& v = inputs.at("v").data;
  std::fill_n(v.begin(), 128 * 10, 0.0f);
  EXPECT_EQ(run<TwoWayAttention>(chapter(), GetParam(), shape, inputs).complaint(), "") << "rows of zeros";
}

// Logits near -320 and -1280: in fp32, each is rounded by about as much as the limit of O.
TEST_P(LargeHeads, SLOW_IsRightWhereLogitsAreFarFromZero) {
  for (const std::int64_t d : {16, 64, 1024}) {
    const Shape shape = {
        {.heads = 14, .kv_heads = 2, .seq_q = 20, .seq_k = 150, .head_dim = d, .causal = true}, false};
    if (why_refused<TwoWayAttention>(variant(), shape)) GTEST_SKIP() << "not in fp32";
    TensorMap inputs = random_inputs<TwoWayAttention>(shape, Init::kNormal, 9);
    for (float& x : inputs.at("q").data) x = 1 + 0.05f * x;
    for (float& x : inputs.at("k").data) x -= 40;
    EXPECT_EQ(run<TwoWayAttention>(chapter(), GetParam(), shape, inputs).complaint(), "") << d;
  }
}

// A NaN in V at a key that only the last query sees may reach the queries that read this head, and no others.
// As in the chapters with smaller heads.
TEST_P(LargeHeads, SLOW_TakesScoresOfAnySize) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const double magnitude : score_magnitudes()) {
      for (const double sign : {1.0, -1.0}) {
        Shape shape = {{.seq_q = 19, .seq_k = 70, .head_dim = 72, .causal = sign > 0, .dtype = dtype}, false};
        if (why_refused<TwoWayAttention>(variant(), shape)) continue;
        TensorMap inputs = random_inputs<TwoWayAttention>(shape, Init::kNormal, 17);
        shape.scale = large_scores(shape, inputs, magnitude, sign, true);
        const VariantResult result = run<TwoWayAttention>(chapter(), GetParam(), shape, inputs);
        ASSERT_EQ(complaint_on_large_scores(shape, inputs, result.outputs, magnitude, sign), "");
      }
    }
  }
}

TEST_P(LargeHeads, SLOW_LetsNaNOfAHiddenKeySpreadWithinItsHead) {
  for (const DType dtype : {kBFloat16, kFloat32}) {
    for (const bool backward : {false, true}) {
      const Shape shape = {{.heads = 4,
                            .kv_heads = 2,
                            .seq_q = 70,
                            .seq_k = 70,
                            .head_dim = 64,
                            .causal = true,
                            .dtype = dtype},
                           backward};
      if (is_tested_with_cluster(shape) || why_refused<TwoWayAttention>(variant(), shape)) continue;
      TensorMap inputs = random_inputs<TwoWayAttention>(shape, Init::kNormal, 5);
      inputs.at("v").data[69 * 64] = kNaN;
      EXPECT_EQ(run<TwoWayAttention>(chapter(), GetParam(), shape, inputs).complaint(), "")
          << name_of(dtype) << backward;
    }
  }
}

// What hidden keys hold does not matter.
TEST_P(LargeHeads, IgnoresHiddenKeys) {
  for (const DType dtype : {kBFloat16, kFloat32}) {
    const Shape shape = {{.seq_q = 100, .seq_k = 100, .head_dim = 64, .causal = true, .dtype = dtype}, false};
    if (is_tested_with_cluster(shape) || why_refused<TwoWayAttention>(variant(), shape)) continue;
    TensorMap inputs = random_inputs<TwoWayAttention>(shape, Init::kNormal, 5);
    const VariantResult before = run<TwoWayAttention>(chapter(), GetParam(), shape, inputs);
    std::fill_n(inputs.at("k").data.end() - 64, 64, 1e4f);
    const VariantResult after = run<TwoWayAttention>(chapter(), GetParam(), shape, inputs);
    EXPECT_TRUE(std::equal(before.outputs.at("o").data.begin(), before.outputs.at("o").data.end() - 64,
                           after.outputs.at("o").data.begin()))
        << name_of(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, LargeHeads, testing::ValuesIn(variant_names(describe_chapter())),
                         [](const auto& parameter) { return parameter.param; });

// ---- `final` in 16 bits -----------------------------------------------------------------------------------

TEST(LargeHeadsFinal, HasTheBitsOfCluster) {
  if (const auto lacking = what_device_lacks_for("cluster")) GTEST_SKIP() << lacking->reason;
  for (const auto& [d, d_v] : {std::pair{72, 40}, {648, 520}}) {
    const Shape shape = {{.seq_q = 70,
                          .seq_k = 300,
                          .head_dim = d,
                          .head_dim_v = d_v,
                          .causal = true,
                          .dtype = DType::kBFloat16},
                         false};
    const VariantResult of_cluster = run_on("cluster", shape), of_final = run_on("final", shape);
    EXPECT_EQ(of_final.complaint(), "") << d << "/" << d_v;
    for (const char* name : {"o", "lse"})
      EXPECT_EQ(of_final.outputs.at(name).data, of_cluster.outputs.at(name).data)
          << name << " " << d << "/" << d_v;
  }
}

// ---- what is refused --------------------------------------------------------------------------------------

void expect_refused(const std::vector<std::string>& options, const std::string& line) {
  std::vector<const char*> argv = {"ch12_large_heads"};
  for (const std::string& option : options) argv.push_back(option.c_str());
  std::ostringstream out, err;
  EXPECT_EQ(run_program(describe_chapter(), int(argv.size()), argv.data(), out, err), 2) << line;
  EXPECT_EQ(err.str(), "error: --variant " + options[1] + " cannot run this: " + line + "\n");
  EXPECT_EQ(out.str(), "");
}

TEST(LargeHeadsRefuse, WhatTheyHaveNoKernelsFor) {
  expect_refused({"--variant", "final", "--head-dim", "1032"},
                 "--head-dim is 1032: must be a multiple of 8 up to 1024");
  expect_refused({"--variant", "final", "--head-dim-v", "12"},
                 "--head-dim-v is 12: must be a multiple of 8 up to 1024");
  expect_refused({"--variant", "final", "--dtype", "bf16", "--backward", "--head-dim", "520"},
                 "--head-dim is 520: must be a multiple of 8 up to 512");
  expect_refused({"--variant", "final", "--dtype", "fp32", "--backward", "--head-dim", "64"},
                 "--dtype is fp32: this variant takes fp16, bf16");
  expect_refused({"--variant", "o_shared", "--dtype", "fp16", "--head-dim", "64"},
                 "--dtype is fp16: this variant takes bf16");
  for (const char* step : {"cluster", "overlapped"})
    expect_refused({"--variant", step, "--backward", "--dtype", "bf16"},
                   "--backward is given: this variant has no backward pass; final has");
}

// ---- the bytes of the steps -------------------------------------------------------------------------------

// K is read once for each part of O's columns, V once altogether, Q by every block.
TEST(LargeHeadsBytes, AreThoseOfPartsAndBlocks) {
  if (const auto lacking = what_device_lacks_for("cluster")) GTEST_SKIP() << lacking->reason;
  const Shape shape = {{.seq_q = 128, .seq_k = 256, .head_dim = 1024, .dtype = DType::kBFloat16}, false};
  const std::int64_t q = 128 * 1024 * 2, k = 256 * 1024 * 2;
  struct Expected {
    const char* variant;
    std::int64_t parts, blocks, rows;  ///< queries of a tile
  };
  for (const auto& [variant, parts, blocks, rows] : {Expected{"slices_of_d", 4, 1, 64},
                                                     {"spilled", 1, 1, 64},
                                                     {"o_shared", 2, 1, 64},
                                                     {"cluster", 1, 2, 64},
                                                     {"overlapped", 1, 2, 64}}) {
    const VariantResult result = run_on(variant, shape);
    ASSERT_EQ(result.complaint(), "") << variant;
    if (!result.counted) GTEST_SKIP() << "bytes are counted on the simulator";
    const auto& tensors = result.counted->traffic.tensors;
    EXPECT_EQ(tensors.at("q").read_bytes, parts * blocks * q) << variant;
    EXPECT_EQ(tensors.at("k").read_bytes, 128 / rows * parts * k) << variant;
    EXPECT_EQ(tensors.at("v").read_bytes, 128 / rows * k) << variant;
  }
}

}  // namespace
}  // namespace fa
