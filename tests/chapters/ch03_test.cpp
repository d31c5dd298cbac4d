// Tests the claims of lesson 03.

#include <gtest/gtest.h>

#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

VariantResult run_variant_on(const char* variant, const Shape& shape) {
  return run<AttentionForward>(describe_chapter(), variant, shape,
                               random_inputs<AttentionForward>(shape, Init::kNormal, 13));
}

TEST(OnePassAttention, OnePassReadsKOnceWhereTwoPassesReadItTwice) {
  const Shape shape{.heads = 2, .kv_heads = 2, .seq_q = 40, .seq_k = 50, .head_dim = 64};
  const Traffic two = run_variant_on("two_pass", shape).predicted;
  const Traffic one = run_variant_on("one_pass", shape).predicted;
  EXPECT_EQ(two.tensors.at("k").read_bytes, 2 * one.tensors.at("k").read_bytes);
  EXPECT_EQ(two.tensors.at("v"), one.tensors.at("v"));
  EXPECT_EQ(one.tensors.at("k").read_bytes, 2 * 40 * 50 * 64 * 4);
}

TEST(OnePassAttention, OnlyThreeKernelsNeedMemoryThatGrowsWithTheSquareOfTheLength) {
  const Shape shape{.heads = 2, .kv_heads = 2, .seq_q = 48, .seq_k = 48, .head_dim = 32};
  Shape twice = shape;
  twice.seq_q = twice.seq_k = 96;
  const std::size_t bytes = run_variant_on("three_kernels", shape).workspace_bytes;
  EXPECT_GE(bytes, 2u * 48 * 48 * 4);
  EXPECT_EQ(run_variant_on("three_kernels", twice).workspace_bytes, 4 * bytes);
  for (const char* variant : {"two_pass", "one_pass"}) {
    EXPECT_EQ(run_variant_on(variant, shape).workspace_bytes, 0u) << variant;
  }
}

TEST(OnePassAttention, AWarpPerRowAsksForMoreThanTheMatrixWouldCost) {
  const Shape shape{.seq_q = 128, .seq_k = 128, .head_dim = 64};
  EXPECT_GT(run_variant_on("one_pass", shape).predicted.bytes(),
            5 * run_variant_on("three_kernels", shape).predicted.bytes());
}

TEST(OnePassAttention, ACausalMaskSavesTheKeysThatARowDoesNotSee) {
  Shape shape{.seq_q = 99, .seq_k = 99, .head_dim = 32};
  const std::int64_t all = run_variant_on("one_pass", shape).predicted.tensors.at("k").read_bytes;
  shape.causal = true;
  const std::int64_t seen = run_variant_on("one_pass", shape).predicted.tensors.at("k").read_bytes;
  EXPECT_EQ(2 * 99 * seen, (99 + 1) * all);
}

// The recurrence corrects o at most once per key, and 5000 corrections do not add up to an error.
TEST(OnePassAttention, IsRightOnALongRow) {
  const VariantResult result = run_variant_on("one_pass", {.seq_q = 2, .seq_k = 5000, .head_dim = 32});
  EXPECT_EQ(result.complaint(), "");
}

}  // namespace
}  // namespace fa
