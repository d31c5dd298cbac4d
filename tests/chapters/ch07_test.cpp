// Tests the claims of lesson 07.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attention_checks.hpp"
#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

/// The tile sizes that follow from the policies of choices.cuh, for head_dim 64.
struct Tiles {
  const char* variant;
  int warps, warp_rows, Bc, slice, stages, barriers_per_tile;
  bool skips;  ///< slices that no row of a warp sees
};
constexpr Tiles kTiles[] = {
    {"stages_1", 8, 16, 64, 64, 1, 2, false},    {"stages_2", 8, 16, 64, 64, 2, 1, false},
    {"stages_3", 8, 16, 64, 64, 3, 1, false},    {"split_kv", 8, 16, 64, 64, 1, 2, false},
    {"masked_first", 8, 16, 64, 64, 2, 1, true}, {"two_rows_of_mma", 4, 32, 64, 64, 2, 1, true},
    {"final", 4, 32, 128, 32, 2, 1, true},
};
constexpr int kBr = 128;  // of all of them

VariantResult run_variant_on(const char* variant, const Shape& shape, Init init = Init::kNormal) {
  return run<AttentionForward>(describe_chapter(), variant, shape,
                               random_inputs<AttentionForward>(shape, init, 16));
}

std::int64_t ceil_div(std::int64_t n, std::int64_t d) { return (n + d - 1) / d; }

// Lengths around the edges of tiles, which are larger than the shapes that all variants are tested with.
TEST(MultiStage, IsRightAroundTheEdgesOfItsTiles) {
  for (const auto& [queries, keys] :
       {std::pair{128, 64}, {127, 65}, {129, 128}, {257, 63}, {33, 384}, {17, 191}, {260, 129}}) {
    for (const bool causal : {false, true}) {
      const Shape shape{
          .seq_q = queries, .seq_k = keys, .head_dim = 32, .causal = causal, .dtype = DType::kBFloat16};
      for (const std::string& variant : variant_names(describe_chapter())) {
        EXPECT_EQ(run_variant_on(variant.c_str(), shape).complaint(), "")
            << variant << ' ' << queries << " x " << keys << ' ' << causal;
      }
    }
  }
}

// Five and more key tiles, for every head dimension and type: each stage in shared memory is reused.
TEST(MultiStage, FinalIsRightForEveryHeadDimensionAndType) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const auto& [d, keys] : {std::pair{32, 650}, {64, 650}, {128, 330}, {256, 170}}) {
      for (const bool causal : {false, true}) {
        const Shape shape{.seq_q = 20, .seq_k = keys, .head_dim = d, .causal = causal, .dtype = dtype};
        EXPECT_EQ(run_variant_on("final", shape).complaint(), "") << name_of(dtype) << d << causal;
      }
    }
  }
}

// A warp with rows processes slices of keys up to the last one that its last row sees, or all tiles of its
// block.
TEST(MultiStage, CountsTheTensorInstructionsOfItsTiles) {
  for (const Tiles& tile : kTiles) {
    for (const auto& [queries, keys, causal] :
         {std::tuple{128, 320, false}, {200, 333, true}, {130, 10, true}}) {
      const Shape shape{.heads = 2,
                        .kv_heads = 1,
                        .seq_q = queries,
                        .seq_k = keys,
                        .head_dim = 64,
                        .causal = causal,
                        .dtype = DType::kBFloat16};
      const VariantResult result = run_variant_on(tile.variant, shape);
      ASSERT_EQ(result.complaint(), "");
      if (!result.counted) GTEST_SKIP() << "tensor instructions are counted on the simulator";
      std::int64_t slices = 0;
      for (std::int64_t first = 0; first < queries; first += kBr) {
        for (int warp = 0; warp < tile.warps; ++warp) {
          const std::int64_t end = first + (tile.skips ? (warp + 1) * tile.warp_rows : kBr);
          const std::int64_t seen = shape.visible_keys(std::min<std::int64_t>(end, queries) - 1);
          const int step = tile.skips ? tile.slice : tile.Bc;
          slices += ceil_div(seen, step) * step / tile.slice;
        }
      }
      const std::int64_t per_slice = 2 * (tile.warp_rows / 16) * (tile.slice / 8) * (64 / 16);
      EXPECT_EQ(result.counted->mma, shape.heads * slices * per_slice) << tile.variant << causal;
    }
  }
}

// One for Q, one before O replaces it, and those of each key tile.
TEST(MultiStage, TakesOneBarrierForATileIfAnotherIsOnItsWay) {
  const Shape shape{.seq_q = 256, .seq_k = 384, .head_dim = 64, .dtype = DType::kBFloat16};
  for (const Tiles& tile : kTiles) {
    const VariantResult result = run_variant_on(tile.variant, shape);
    if (!result.counted) GTEST_SKIP() << "barriers are counted on the simulator";
    const std::int64_t key_tiles = 384 / tile.Bc, blocks = 256 / kBr;
    EXPECT_EQ(result.counted->barriers, blocks * tile.warps * (2 + key_tiles * tile.barriers_per_tile))
        << tile.variant;
    EXPECT_EQ(result.counted->shared.bytes_per_block, 2 * 64 * (kBr + 2 * tile.stages * tile.Bc))
        << tile.variant;
    EXPECT_EQ(result.counted->shared.conflicts(), 0) << tile.variant;
  }
}

// Every wait is the last one before the first use of what it waits for; also that of Q, whether it stays in
// registers or not, and those of a block without any key.
TEST(MultiStage, WaitsForNothingTooEarly) {
  for (const std::int64_t d : {32, 64, 128, 256}) {
    for (const bool causal : {false, true}) {
      const Shape shape{
          .seq_q = 330, .seq_k = 200, .head_dim = d, .causal = causal, .dtype = DType::kBFloat16};
      for (const Tiles& tile : kTiles) {
        if (d == 256 && tile.variant != std::string("final")) continue;
        const VariantResult result = run_variant_on(tile.variant, shape);
        if (!result.counted) GTEST_SKIP() << "groups of copies are counted on the simulator";
        EXPECT_EQ(result.counted->over_waited, 0) << tile.variant << ' ' << d << causal;
      }
    }
  }
}

// An ldmatrix of K or V takes 4 wavefronts, and there are two for 16 keys and 16 columns. With 32 rows a
// warp, there are half as many warps for as many rows. What else is loaded: Q once, O once.
TEST(MultiStage, ARowOfMmaMoreForEachFragmentHalvesTheLoads) {
  const Shape shape{.seq_q = 128, .seq_k = 384, .head_dim = 64, .dtype = DType::kBFloat16};
  const std::int64_t fragments = 2 * (384 / 16) * (64 / 16), q_and_o = 2 * 128 * 64 / 8 / 32;
  for (const auto& [variant, warps] : {std::pair{"masked_first", 8}, {"two_rows_of_mma", 4}}) {
    const VariantResult result = run_variant_on(variant, shape);
    if (!result.counted) GTEST_SKIP() << "wavefronts are counted on the simulator";
    EXPECT_EQ(result.counted->shared.load_wavefronts, 4 * (warps * fragments + q_and_o)) << variant;
  }
}

TEST(MultiStage, StoresOInWholeSectors) {
  const Shape shape{
      .heads = 2, .kv_heads = 2, .seq_q = 200, .seq_k = 64, .head_dim = 64, .dtype = DType::kFloat16};
  const VariantResult result = run_variant_on("final", shape);
  if (!result.counted) GTEST_SKIP() << "sectors are counted on the simulator";
  // 16 bytes for each lane; of LSE, 8 neighbouring rows of a warp at a time.
  EXPECT_EQ(result.counted->write_requests, 2 * (200 * 64 * 2 / 512 + 200 / 8));
  EXPECT_EQ(result.counted->write_sectors, 2 * (200 * 64 * 2 / 32 + 200 / 8));
}

/// Keys whose scores grow by `growth` from one to the next, in powers of 2, equally for all queries.
TensorMap growing(const Shape& shape, double growth) {
  TensorMap inputs = random_inputs<AttentionForward>(shape, Init::kNormal, 18);
  const std::size_t d = std::size_t(shape.head_dim);
  for (std::size_t row = 0; row < std::size_t(shape.seq_q); ++row) inputs.at("q").data[row * d] = 8.0f;
  for (std::size_t key = 0; key < std::size_t(shape.seq_k); ++key) {
    for (std::size_t col = 0; col < d; ++col) inputs.at("k").data[key * d + col] = 0.0f;
    inputs.at("k").data[key * d] = float(growth * double(key) * std::log(2.0) * std::sqrt(double(d)) / 8.0);
  }
  return inputs;
}

// Keys are processed backwards: with a negative growth, the maximum grows from slice to slice.
TEST(MultiStage, LeavesTheMaximumAsItIsWhileItGrowsLittle) {
  const Shape shape{.seq_q = 32, .seq_k = 256, .head_dim = 64, .dtype = DType::kFloat16};
  const auto reductions = [&](double growth) {
    const VariantResult result =
        run<AttentionForward>(describe_chapter(), "final", shape, growing(shape, growth));
    EXPECT_EQ(result.complaint(), "") << growth;
    // 2 shuffles for each of 4 rows of a lane. Four warps sum l up, but only one has rows that are not zeros.
    return result.counted ? (result.counted->shuffles - 4 * 8) / 8 : 0;
  };
  const std::int64_t slices = 256 / 32;
  const std::int64_t other =
      3 * 1;  // the warps without rows: all scores are 0, and the first of them is a maximum
  if (reductions(0.0) == 0) GTEST_SKIP() << "shuffles are counted on the simulator";
  EXPECT_EQ(reductions(0.0), 1 + other);
  EXPECT_EQ(reductions(0.01), 1 + other);
  EXPECT_EQ(reductions(-7.0 / 256), 1 + other);          // at most 2^7 in P
  EXPECT_EQ(reductions(-5.0 / 32), slices / 2 + other);  // after 5 nothing, after 10 it is time
  EXPECT_EQ(reductions(-9.0 / 32), slices + other);
}

void expect_as_exact_as_standard(const char* variant, const Shape& shape, const TensorMap& inputs,
                                 const std::string& what) {
  const Check expected = standard(shape, inputs);
  const Check check = run<AttentionForward>(describe_chapter(), variant, shape, inputs).check.value();
  const auto &o = check.tensors.at("o"), &limit = expected.tensors.at("o");
  EXPECT_LE(o.rel_l2, 2 * limit.rel_l2) << variant << ' ' << name_of(shape.dtype) << ' ' << what;
  EXPECT_LE(o.max_abs, 2 * limit.max_abs) << variant << ' ' << name_of(shape.dtype) << ' ' << what;
}

TEST(MultiStage, IsNotLessExactThanStandardAttentionByAFactorOfTwo) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const bool causal : {false, true}) {
      Shape shape{.seq_q = 150, .seq_k = 330, .head_dim = 64, .causal = causal, .dtype = dtype};
      for (const auto& [init, name] :
           {std::pair{Init::kNormal, "normal"}, {Init::kUniform, "uniform"}, {Init::kOutliers, "outliers"}}) {
        expect_as_exact_as_standard("final", shape, random_inputs<AttentionForward>(shape, init, 17), name);
      }
      shape = {.heads = 2,
               .kv_heads = 2,
               .seq_q = 229,
               .seq_k = 229,
               .head_dim = 32,
               .causal = causal,
               .dtype = dtype};
      expect_as_exact_as_standard("final", shape, real_inputs(shape), "real");
    }
  }
}

TEST(MultiStage, RepeatsItsResultToTheBit) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Shape shape{.heads = 3,
                      .kv_heads = 1,
                      .seq_q = 150,
                      .seq_k = 270,
                      .head_dim = 64,
                      .causal = true,
                      .dtype = dtype};
    const VariantResult first = run_variant_on("final", shape), second = run_variant_on("final", shape);
    EXPECT_EQ(first.outputs.at("o").data, second.outputs.at("o").data);
    EXPECT_EQ(first.outputs.at("lse").data, second.outputs.at("lse").data);
  }
}

}  // namespace
}  // namespace fa
