// Tests the claims of lesson 06.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attention_checks.hpp"
#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

constexpr int kBr = 128, kBc = 64, kWarps = 8;

VariantResult run_variant_on(const char* variant, const Shape& shape, Init init = Init::kNormal) {
  return run<AttentionForward>(describe_chapter(), variant, shape,
                               random_inputs<AttentionForward>(shape, init, 16));
}

// Lengths around the edges of tiles, which are larger than the shapes that all variants are tested with.
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

// Heads of K are z, and the heads of Q that share one are y.
TEST(TensorCoreMma, RefusesMoreHeadsThanAGridHas) {
  for (const Variant<AttentionForward>& variant : chapter_of<AttentionForward>(describe_chapter()).variants) {
    const auto refusal = [&](std::int64_t batch, std::int64_t heads, std::int64_t kv_heads) {
      return variant.refuse({.batch = batch,
                             .heads = heads,
                             .kv_heads = kv_heads,
                             .seq_q = 1,
                             .seq_k = 1,
                             .head_dim = 64,
                             .dtype = DType::kBFloat16});
    };
    EXPECT_EQ(refusal(1, 65535, 1), std::nullopt);
    EXPECT_EQ(refusal(1, 65536, 1).value().message(),
              "--heads is 65536: this variant takes at most 65535 for each of --kv-heads");
    EXPECT_EQ(refusal(65535, 1, 1), std::nullopt);
    EXPECT_EQ(refusal(32768, 2, 2).value().message(),
              "--batch 32768 times --kv-heads 2: this variant takes at most 65535");
  }
}

/// The key tiles that all blocks of a head process together.
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
  // Rows of 128 bytes or more: every row of an 8 x 8 matrix begins at the same bank, so 8 wavefronts instead
  // of one. Rows of 64 bytes: every second row does.
  for (const auto& [d, times] : {std::pair{32, 4}, {64, 8}, {128, 8}}) {
    const Shape shape{.seq_q = 128, .seq_k = 128, .head_dim = d, .dtype = DType::kBFloat16};
    const VariantResult plain = run_variant_on("mma", shape);
    if (!plain.counted) GTEST_SKIP() << "bank conflicts are counted on the simulator";
    EXPECT_EQ(plain.counted->shared.load_wavefronts, times * plain.counted->shared.load_wavefronts_ideal);
    for (const char* variant : {"padded", "swizzled", "q_in_registers", "exp2"}) {
      const SharedCounters shared = run_variant_on(variant, shape).counted->shared;
      EXPECT_EQ(shared.load_wavefronts, shared.load_wavefronts_ideal) << variant << d;
      // A store takes whole rows: two of 64 bytes, with 16 between them, are more than the banks.
      if (std::string(variant) == "padded" && d == 32) continue;
      EXPECT_EQ(shared.conflicts(), 0) << variant << d;
    }
    EXPECT_EQ(run_variant_on("padded", shape).counted->shared.bytes_per_block,
              run_variant_on("swizzled", shape).counted->shared.bytes_per_block + 16 * (kBr + 2 * kBc));
  }
}

// The lesson's table: a head of 256 queries and keys, d = 64. 2 query tiles of 8 warps go through 4 key
// tiles.
TEST(TensorCoreMma, CountsWhatTheLessonSays) {
  const Shape shape{.seq_q = 256, .seq_k = 256, .head_dim = 64, .dtype = DType::kBFloat16};
  for (const char* variant : {"mma", "padded", "swizzled", "q_in_registers", "exp2"}) {
    const VariantResult result = run_variant_on(variant, shape);
    EXPECT_EQ(result.predicted.bytes(), (2 * 256 * 64 + 2 * 2 * 256 * 64) * 2 + 256 * 4) << variant;
    if (!result.counted) continue;
    EXPECT_EQ(result.counted->mma, 2 * 256 * 256 * 64 / (16 * 8 * 16)) << variant;
    // Two rows of a lane, two steps over four lanes: the maximum in each key tile, and the sum once.
    EXPECT_EQ(result.counted->shuffles, 2 * kWarps * 2 * 2 * (4 + 1)) << variant;
    const int before = std::string(variant) == "q_in_registers" || std::string(variant) == "exp2" ? 3 : 2;
    EXPECT_EQ(result.counted->barriers, 2 * kWarps * (before + 2 * 4)) << variant;
  }
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

void expect_as_exact_as_standard(const Shape& shape, const TensorMap& inputs, const std::string& what) {
  const Check expected = standard(shape, inputs);
  const bool only_exp2 = shape.dtype == DType::kFloat16;
  for (const std::string& variant : variant_names(describe_chapter())) {
    if (only_exp2 && variant != "exp2") continue;
    const Check check = run<AttentionForward>(describe_chapter(), variant, shape, inputs).check.value();
    const auto &o = check.tensors.at("o"), &limit = expected.tensors.at("o");
    EXPECT_LE(o.rel_l2, 2 * limit.rel_l2) << variant << ' ' << name_of(shape.dtype) << ' ' << what;
    EXPECT_LE(o.max_abs, 2 * limit.max_abs) << variant << ' ' << name_of(shape.dtype) << ' ' << what;
  }
}

TEST(TensorCoreMma, SLOW_IsNotLessExactThanStandardAttentionByAFactorOfTwo) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const bool causal : {false, true}) {
      Shape shape{.seq_q = 150, .seq_k = 200, .head_dim = 64, .causal = causal, .dtype = dtype};
      for (const auto& [init, name] :
           {std::pair{Init::kNormal, "normal"}, {Init::kUniform, "uniform"}, {Init::kOutliers, "outliers"}}) {
        expect_as_exact_as_standard(shape, random_inputs<AttentionForward>(shape, init, 17), name);
      }
      shape = {.heads = 2,
               .kv_heads = 2,
               .seq_q = 229,
               .seq_k = 229,
               .head_dim = 32,
               .causal = causal,
               .dtype = dtype};
      expect_as_exact_as_standard(shape, real_inputs(shape), "real");
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
