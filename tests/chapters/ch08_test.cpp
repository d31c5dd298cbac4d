// Tests the claims of lesson 08.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "device/launch.cuh"
#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionBackward::Shape;

VariantResult run_variant_on(const std::string& variant, const Shape& shape, Init init = Init::kNormal) {
  return run<AttentionBackward>(describe_chapter(), variant, shape,
                                random_inputs<AttentionBackward>(shape, init, 18));
}

bool same(const VariantResult& a, const VariantResult& b) {
  return std::all_of(a.outputs.begin(), a.outputs.end(), [&](const auto& output) {
    return output.second.data == b.outputs.at(output.first).data;
  });
}

TEST(Backward, SLOW_VariantsWithoutAtomicAdditionsRepeatTheirResultToTheBit) {
  if (compute_capability() < 80) GTEST_SKIP() << "this device does not run the tensor-core variants";
  for (const auto& [variant, dtype] :
       {std::pair{"fp32_two_kernels", DType::kFloat32}, {"mma_deterministic", DType::kFloat16}}) {
    const Shape shape{.heads = 4,
                      .kv_heads = 2,
                      .seq_q = 150,
                      .seq_k = 200,
                      .head_dim = 64,
                      .causal = true,
                      .dtype = dtype};
    const VariantResult first = run_variant_on(variant, shape), second = run_variant_on(variant, shape);
    ASSERT_EQ(first.complaint(), "");
    EXPECT_TRUE(same(first, second)) << variant;
    if (first.counted) {
      EXPECT_EQ(first.counted->atomic_sectors, 0) << variant;
    }
  }
}

TEST(Backward, FusedVariantsAddToDqOnceForEachKeyTile) {
  if (compute_capability() < 80) GTEST_SKIP() << "this device does not run the tensor-core variants";
  const Shape shape{.heads = 2, .kv_heads = 1, .seq_q = 64, .seq_k = 256, .head_dim = 64};
  const std::int64_t dq = 2 * 64 * 64 * 4;  // bytes of fp32
  const VariantResult fp32 = run_variant_on("fp32_fused", shape);
  EXPECT_EQ(fp32.complaint(), "");
  EXPECT_EQ(fp32.predicted.tensors.at("dq").read_bytes, 256 / 64 * dq);
  EXPECT_EQ(fp32.predicted.tensors.at("dq").write_bytes, (1 + 256 / 64) * dq);  // 1: zeros

  Shape half = shape;
  half.dtype = DType::kBFloat16;
  for (const char* variant : {"mma_fused", "mma_pipelined"}) {
    const VariantResult mma = run_variant_on(variant, half);
    EXPECT_EQ(mma.complaint(), "");
    EXPECT_EQ(mma.predicted.tensors.at("dq_sum").read_bytes, (256 / 128 + 1) * dq);  // 1: the conversion
    EXPECT_EQ(mma.predicted.tensors.at("dq_sum").write_bytes, (1 + 256 / 128) * dq);
    EXPECT_EQ(mma.predicted.tensors.at("dq").write_bytes, dq / 2);
    if (!mma.counted) continue;
    // In the order of the fragments, an addition of a warp goes to 4 whole sectors.
    EXPECT_EQ(mma.counted->atomic_sectors * 32, 256 / 128 * dq) << variant;
  }
}

// No matrix of seq_q x seq_k in HBM: the workspace grows with the lengths, not with their product.
TEST(Backward, OnlyStandardBackwardKeepsMatricesOfScores) {
  const AnyChapter chapter = describe_chapter();
  for (const auto& variant : chapter_of<AttentionBackward>(chapter).variants) {
    const bool fp32 = variant.name.starts_with("fp32");
    const auto bytes = [&](std::int64_t seq) {
      const Shape shape{
          .seq_q = seq, .seq_k = seq, .head_dim = 64, .dtype = fp32 ? DType::kFloat32 : DType::kBFloat16};
      return double(total_bytes(workspace_of(variant, shape)));
    };
    if (variant.name == "standard") {
      EXPECT_GT(bytes(2048), 3.9 * bytes(1024));
    } else {
      EXPECT_EQ(bytes(2048), 2 * bytes(1024)) << variant.name;
    }
  }
}

/// mma of Br x Bc x d for one product.
std::int64_t mma_of(std::int64_t Br, std::int64_t Bc, std::int64_t d) {
  return Br / 16 * (Bc / 8) * (d / 16);
}

TEST(Backward, FiveProductsOrSeven) {
  if (compute_capability() < 80) GTEST_SKIP() << "this device does not run the tensor-core variants";
  const Shape shape{.seq_q = 256, .seq_k = 256, .head_dim = 64, .dtype = DType::kBFloat16};
  const std::int64_t product = mma_of(256, 256, 64);
  for (const auto& [variant, products] :
       {std::pair{"mma_fused", 5}, {"mma_pipelined", 5}, {"mma_deterministic", 7}}) {
    const VariantResult result = run_variant_on(variant, shape);
    ASSERT_EQ(result.complaint(), "");
    if (!result.counted) GTEST_SKIP() << "tensor instructions are counted on the simulator";
    EXPECT_EQ(result.counted->mma, (2 + products) * product) << variant;  // 2 of the forward pass
  }
}

TEST(Backward, ACausalMaskSkipsTilesThatItHides) {
  if (compute_capability() < 80) GTEST_SKIP() << "this device does not run the tensor-core variants";
  Shape shape{.seq_q = 512, .seq_k = 512, .head_dim = 32, .dtype = DType::kBFloat16};
  const VariantResult all = run_variant_on("mma_fused", shape);
  shape.causal = true;
  const VariantResult causal = run_variant_on("mma_fused", shape);
  ASSERT_EQ(causal.complaint(), "");
  // Key tile n of 4 is seen from query 128 * n on. The conversion reads and the zeros write each row once.
  const auto& of_all = all.predicted.tensors.at("dq_sum");
  const auto& of_causal = causal.predicted.tensors.at("dq_sum");
  EXPECT_EQ(of_all.read_bytes, (4 + 1) * 512 * 32 * 4);
  EXPECT_EQ(of_causal.read_bytes, (1 + 2 + 3 + 4 + 4) * 128 * 32 * 4);
}

TEST(Backward, WaitsForNothingTooEarly) {
  if (compute_capability() < 80) GTEST_SKIP() << "this device does not run the tensor-core variants";
  for (const char* variant : {"mma_fused", "mma_pipelined", "mma_deterministic"}) {
    const VariantResult result = run_variant_on(
        variant, {.seq_q = 300, .seq_k = 290, .head_dim = 64, .causal = true, .dtype = DType::kBFloat16});
    if (!result.counted) GTEST_SKIP() << "groups of copies are counted on the simulator";
    EXPECT_EQ(result.counted->over_waited, 0) << variant;
  }
}

// The two fused variants are compiled for two sizes of tiles; which one a device takes follows from its
// shared memory.
TEST(Backward, TilesOf256ColumnsHaveHalfAsManyKeys) {
  Shape shape{.seq_q = 128, .seq_k = 256, .head_dim = 256, .dtype = DType::kBFloat16};
  for (const char* variant : {"mma_fused", "mma_pipelined"}) {
    if (shared_bytes_limit() < 163 << 10) GTEST_SKIP() << "this device is too small";
    const std::int64_t dq = shape.heads * 128 * 256 * 4;  // bytes of fp32
    const VariantResult result = run_variant_on(variant, shape);
    EXPECT_EQ(result.complaint(), "");
    EXPECT_EQ(result.predicted.tensors.at("dq_sum").read_bytes, (256 / 64 + 1) * dq) << variant;
  }
}

TEST(Backward, NoTileMeetsABankConflict) {
  if (compute_capability() < 80) GTEST_SKIP() << "this device does not run the tensor-core variants";
  for (const std::int64_t head_dim : {32, 64, 128, 256}) {
    for (const auto& [variant, dtype] : {std::pair{"mma_fused", DType::kBFloat16},
                                         {"mma_pipelined", DType::kBFloat16},
                                         {"mma_deterministic", DType::kBFloat16}}) {
      const VariantResult result =
          run_variant_on(variant, {.seq_q = 128, .seq_k = 128, .head_dim = head_dim, .dtype = dtype});
      if (!result.counted) GTEST_SKIP() << "bank conflicts are counted on the simulator";
      EXPECT_EQ(result.counted->shared.conflicts(), 0) << variant << ' ' << head_dim;
    }
    // With 128 columns the forward pass of chapter 05 has some, with 256 there is none.
    if (head_dim >= 128) continue;
    for (const char* variant : {"fp32_two_kernels", "fp32_fused"}) {
      const VariantResult result =
          run_variant_on(variant, {.seq_q = 128, .seq_k = 128, .head_dim = head_dim});
      EXPECT_EQ(result.counted->shared.conflicts(), 0) << variant << ' ' << head_dim;
    }
  }
}

TEST(Backward, IsNotLessExactThanStandardBackwardByAFactorOfTwo) {
  if (compute_capability() < 80) GTEST_SKIP() << "this device does not run the tensor-core variants";
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const Init init : {Init::kNormal, Init::kUniform, Init::kOutliers}) {
      const Shape shape{.seq_q = 100, .seq_k = 150, .head_dim = 64, .causal = true, .dtype = dtype};
      const Check expected = run_variant_on("standard", shape, init).check.value();
      for (const char* variant : {"mma_pipelined", "mma_deterministic"}) {
        const Check check = run_variant_on(variant, shape, init).check.value();
        for (const auto& [name, tensor] : check.tensors) {
          EXPECT_LE(tensor.rel_l2, 2 * expected.tensors.at(name).rel_l2)
              << variant << ' ' << name << ' ' << name_of(dtype) << ' ' << int(init);
        }
      }
    }
  }
}

// Only if logits are large may the standard backward pass have the error that it declares.
TEST(Backward, StandardBackwardDeclaresItsRoundingOnlyOfLargeLogits) {
  Shape shape{.seq_q = 100, .seq_k = 150, .head_dim = 128, .dtype = DType::kBFloat16};
  const VariantResult normal = run_variant_on("standard", shape);
  EXPECT_FALSE(normal.known_failure);
  EXPECT_EQ(normal.complaint(), "");
  EXPECT_TRUE(run_variant_on("standard", shape, Init::kOutliers).known_failure);
  shape.dtype = DType::kFloat32;
  EXPECT_FALSE(run_variant_on("standard", shape, Init::kOutliers).known_failure);
}

}  // namespace
}  // namespace fa
