// Tests the claims of lesson 01.

#include <gtest/gtest.h>

#include "harness/runner.hpp"

namespace fa {
namespace {

VariantResult run_variant_on(const char* variant, const Softmax::Shape& shape, Init init) {
  return run<Softmax>(describe_chapter(), variant, shape, random_inputs<Softmax>(shape, init, 11));
}

TEST(SafeSoftmax, UnsafeOverflowsOnLargeLogits) {
  const VariantResult result = run_variant_on("unsafe", {16, 512}, Init::kOutliers);
  ASSERT_TRUE(result.known_failure.has_value());
  EXPECT_FALSE(result.check->passed());
  EXPECT_EQ(result.verdict(), Verdict::kFailsAsDeclared);
}

TEST(SafeSoftmax, UnsafeIsRightOnSmallLogits) {
  const VariantResult result = run_variant_on("unsafe", {16, 512}, Init::kNormal);
  EXPECT_FALSE(result.known_failure.has_value());
  EXPECT_EQ(result.verdict(), Verdict::kOk) << result.complaint();
}

TEST(SafeSoftmax, AThreadPerRowTouchesEightTimesTheSectors) {
  const Softmax::Shape shape{256, 1024};
  const VariantResult thread = run_variant_on("row_per_thread", shape, Init::kNormal);
  const VariantResult warp = run_variant_on("row_per_warp", shape, Init::kNormal);
  if (!thread.counted) GTEST_SKIP() << "sectors are counted on the simulator";
  EXPECT_EQ(thread.counted->traffic.bytes(), warp.counted->traffic.bytes());
  EXPECT_EQ(thread.counted->read_sectors, 8 * warp.counted->read_sectors);
  EXPECT_EQ(thread.counted->write_sectors, 8 * warp.counted->write_sectors);
}

TEST(SafeSoftmax, OnlyABlockPerRowUsesSharedMemory) {
  const Softmax::Shape shape{8, 1000};
  for (const char* variant : {"unsafe", "row_per_thread", "row_per_warp"}) {
    const VariantResult result = run_variant_on(variant, shape, Init::kNormal);
    if (!result.counted) GTEST_SKIP() << "shared memory is counted on the simulator";
    EXPECT_EQ(result.counted->shared.bytes_per_block, 0) << variant;
    EXPECT_EQ(result.counted->barriers, 0) << variant;
  }
  const VariantResult block = run_variant_on("row_per_block", shape, Init::kNormal);
  EXPECT_GT(block.counted->shared.bytes_per_block, 0);
  EXPECT_GT(block.counted->barriers, 0);
}

}  // namespace
}  // namespace fa
