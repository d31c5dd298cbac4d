// What the lesson of chapter 06 claims.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>

#include "attention/standard_attention.hpp"
#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

constexpr int kBr = 128, kBc = 64, kWarps = 8;

VariantResult run_variant_on(const char* variant, const Shape& shape, Init init = Init::kNormal) {
  return run<AttentionForward>(describe_chapter(), variant, shape,
                               random_inputs<AttentionForward>(shape, init, 16));
}

// Around the edges of tiles, which are larger than the shapes that every variant of all chapters is tested on.
TEST(TensorCoreMma, IsRightAroundTheEdgesOfItsTiles) {
  for (const auto& [queries, keys] :
       {std::pair{128, 64}, {127, 65}, {129, 128}, {257, 63}, {16, 192}, {17, 191}, {300, 129}}) {
    for (const bool causal : {false, true}) {
      const Shape shape{
          .seq_q = queries, .seq_k = keys, .head_dim = 32, .causal = causal, .dtype = DType::kBFloat16};
      EXPECT_EQ(run_variant_on("exp2", shape).complaint(), "") << queries << " x " << keys << causal;
    }
  }
}

/// Key tiles that a block works on, over all blocks of a head.
std::int64_t key_tiles(const Shape& shape) {
  std::int64_t tiles = 0;
  for (std::int64_t first = 0; first < shape.seq_q; first += kBr) {
    tiles += (shape.visible_keys(std::min(first + kBr, shape.seq_q) - 1) + kBc - 1) / kBc;
  }
  return tiles;
}

TEST(TensorCoreMma, CountsTheTensorInstructionsOfItsTiles) {
  for (const char* variant : {"wmma", "mma", "padded", "swizzled", "q_in_registers", "exp2"}) {
    for (const auto& [queries, keys, causal] :
         {std::tuple{128, 64, false}, {200, 150, true}, {130, 10, true}}) {
      const Shape shape{.heads = 2,
                        .kv_heads = 1,
                        .seq_q = queries,
                        .seq_k = keys,
                        .head_dim = 64,
                        .causal = causal,
                        .dtype = DType::kBFloat16};
      const VariantResult result = run_variant_on(variant, shape);
      ASSERT_EQ(result.complaint(), "");
      if (!result.counted) GTEST_SKIP() << "tensor instructions are counted on the simulator";
      // A warp multiplies 16 x 64 by 64 x 64, twice, in pieces of 16 x 16 x 8.
      const std::int64_t per_tile = kWarps * 2 * (64 / 16) * (64 / 8);
      EXPECT_EQ(result.counted->mma, 2 * key_tiles(shape) * per_tile) << variant;
    }
  }
}

TEST(TensorCoreMma, LayoutsOfSharedMemoryDecideOverBankConflicts) {
  const Shape shape{.seq_q = 128, .seq_k = 128, .head_dim = 128, .dtype = DType::kBFloat16};
  const VariantResult plain = run_variant_on("mma", shape);
  if (!plain.counted) GTEST_SKIP() << "bank conflicts are counted on the simulator";
  // Every row of an 8 x 8 matrix begins at the same bank: 8 wavefronts, where one would do.
  EXPECT_EQ(plain.counted->shared.load_wavefronts, 8 * plain.counted->shared.load_wavefronts_ideal);
  for (const char* variant : {"padded", "swizzled", "q_in_registers", "exp2"}) {
    EXPECT_EQ(run_variant_on(variant, shape).counted->shared.conflicts(), 0) << variant;
  }
  EXPECT_GT(run_variant_on("padded", shape).counted->shared.bytes_per_block,
            run_variant_on("swizzled", shape).counted->shared.bytes_per_block);
}

// Of the loads of a warp and key tile, 16 x 64 by 64 x 128 and back: Q 8, K 32, V 32.
TEST(TensorCoreMma, QInRegistersIsLoadedOnce) {
  const Shape shape{.seq_q = 128, .seq_k = 256, .head_dim = 128, .dtype = DType::kBFloat16};
  const VariantResult reread = run_variant_on("swizzled", shape),
                      kept = run_variant_on("q_in_registers", shape);
  if (!kept.counted) GTEST_SKIP() << "wavefronts are counted on the simulator";
  const std::int64_t tiles = 256 / kBc, wavefronts = 4 * kWarps;  // of an ldmatrix.x4 in every warp
  EXPECT_EQ(reread.counted->shared.load_wavefronts, wavefronts * tiles * (8 + 32 + 32));
  EXPECT_EQ(kept.counted->shared.load_wavefronts, wavefronts * (8 + tiles * (32 + 32)));
}

/// What rounding to 16 bits costs standard attention, which has S and P in HBM.
Check standard(const Shape& shape, const TensorMap& inputs) {
  const Variant<AttentionForward> variant{.name = "standard",
                                          .summary = "",
                                          .launch = standard_attention::launch,
                                          .traffic = standard_attention::traffic,
                                          .workspace = standard_attention::workspace};
  const Reference reference = AttentionForward::reference(shape, inputs);
  return run_variant<AttentionForward>(variant, shape, inputs, &reference).check.value();
}

TEST(TensorCoreMma, IsNotLessExactThanStandardAttentionByAFactorOfTwo) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const Init init : {Init::kNormal, Init::kUniform, Init::kOutliers}) {
      for (const bool causal : {false, true}) {
        const Shape shape{.seq_q = 150, .seq_k = 200, .head_dim = 64, .causal = causal, .dtype = dtype};
        const TensorMap inputs = random_inputs<AttentionForward>(shape, init, 17);
        const Check expected = standard(shape, inputs);
        const Check check = run<AttentionForward>(describe_chapter(), "exp2", shape, inputs).check.value();
        const auto& o = check.tensors.at("o");
        EXPECT_LE(o.rel_l2, 2 * expected.tensors.at("o").rel_l2) << name_of(dtype) << int(init);
        EXPECT_LE(o.max_abs, 2 * expected.tensors.at("o").max_abs) << name_of(dtype) << int(init);
      }
    }
  }
}

TEST(TensorCoreMma, RepeatsItsResultToTheBit) {
  const Shape shape{
      .heads = 2, .kv_heads = 2, .seq_q = 150, .seq_k = 200, .head_dim = 64, .dtype = DType::kFloat16};
  const VariantResult first = run_variant_on("exp2", shape), second = run_variant_on("exp2", shape);
  EXPECT_EQ(first.outputs.at("o").data, second.outputs.at("o").data);
  EXPECT_EQ(first.outputs.at("lse").data, second.outputs.at("lse").data);
}

}  // namespace
}  // namespace fa
