// Tests the claims of lesson 05.

#include <gtest/gtest.h>

#include "device/launch.cuh"
#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

VariantResult run_variant_on(const char* variant, const Shape& shape) {
  return run<AttentionForward>(describe_chapter(), variant, shape,
                               random_inputs<AttentionForward>(shape, Init::kNormal, 15));
}

TEST(LoopSwappedV2, ReadsKAndVOnceForEachQueryTileAndEverythingElseOnce) {
  if (shared_bytes_limit() < 99 * 1024) GTEST_SKIP() << "this device is too small for large_tiles";
  const Shape shape{.heads = 2, .kv_heads = 1, .seq_q = 256, .seq_k = 100, .head_dim = 64};
  const std::int64_t queries = 2 * 256 * 64 * 4, keys = 2 * 100 * 64 * 4;
  for (const auto& [variant, Br] : {std::pair{"sliced_k", 32},
                                    {"sliced_q", 32},
                                    {"outer_products", 32},
                                    {"large_tiles", 128},
                                    {"register_tiled", 128}}) {
    const VariantResult result = run_variant_on(variant, shape);
    const auto& tensors = result.predicted.tensors;
    EXPECT_EQ(tensors.at("k").read_bytes, 256 / Br * keys) << variant;
    EXPECT_EQ(tensors.at("v").read_bytes, 256 / Br * keys) << variant;
    EXPECT_EQ(tensors.at("q").read_bytes, queries) << variant;
    EXPECT_EQ(tensors.at("o").write_bytes, queries) << variant;
    EXPECT_EQ(tensors.at("o").read_bytes, 0) << variant;
    EXPECT_EQ(result.workspace_bytes, 0u) << variant;
  }
}

// Tile i of Tr sees i + 1 of Tr parts of the keys.
TEST(LoopSwappedV2, ACausalMaskSkipsKeysThatNoRowOfATileSees) {
  if (shared_bytes_limit() < 99 * 1024) GTEST_SKIP() << "this device is too small for large_tiles";
  Shape shape{.seq_q = 512, .seq_k = 512, .head_dim = 32};
  const std::int64_t all = run_variant_on("register_tiled", shape).predicted.tensors.at("k").read_bytes;
  shape.causal = true;
  const VariantResult causal = run_variant_on("register_tiled", shape);
  EXPECT_EQ(causal.complaint(), "");
  const std::int64_t tiles = 512 / 128;
  EXPECT_EQ(2 * tiles * causal.predicted.tensors.at("k").read_bytes, (tiles + 1) * all);
}

TEST(LoopSwappedV2, WarpsThatShareRowsNeedMoreBarriersAndShuffles) {
  const Shape shape{.seq_q = 256, .seq_k = 256, .head_dim = 64};
  const VariantResult keys = run_variant_on("sliced_k", shape);
  const VariantResult queries = run_variant_on("sliced_q", shape);
  if (!keys.counted) GTEST_SKIP() << "barriers are counted on the simulator";
  const std::int64_t Br = 32, Tr = 256 / Br, Tc = 256 / 64, warps = 2;
  EXPECT_EQ(queries.counted->barriers, Tr * warps * 2 * Tc);
  EXPECT_EQ(keys.counted->barriers, Tr * warps * (3 * Tc + 1));
  // Five for the maximum of a row in each key tile, and five for its sum at the end.
  EXPECT_EQ(queries.counted->shuffles, Tr * Br * 5 * (Tc + 1));
  EXPECT_EQ(keys.counted->shuffles, Tr * warps * Br * 5 * (Tc + 1));
}

// The wavefronts of shared memory per multiply-add of a warp; more than 1/4 leave the arithmetic units idle.
TEST(LoopSwappedV2, OuterProductsNeedFewerWavefronts) {
  if (shared_bytes_limit() < 99 * 1024) GTEST_SKIP() << "this device is too small for large_tiles";
  const Shape shape{.seq_q = 256, .seq_k = 256, .head_dim = 64};
  const std::int64_t multiply_adds = 2 * 256 * 256 * 64 / 32;
  for (const auto& [variant, sixteenths] :
       {std::pair{"sliced_q", 7}, {"outer_products", 3}, {"large_tiles", 2}}) {
    const VariantResult result = run_variant_on(variant, shape);
    if (!result.counted) GTEST_SKIP() << "wavefronts are counted on the simulator";
    EXPECT_EQ(16 * result.counted->shared.load_wavefronts, sixteenths * multiply_adds) << variant;
    EXPECT_EQ(result.counted->shared.conflicts(), 0) << variant;
  }
  // One more line for each slice of 32: the one that is prefetched at its end and not used.
  const VariantResult prefetched = run_variant_on("register_tiled", shape);
  EXPECT_EQ(16 * 32 * prefetched.counted->shared.load_wavefronts, 2 * 33 * multiply_adds);
}

// Each slice is a step: 4 for each of 4 key tiles. One more barrier before the first.
TEST(LoopSwappedV2, PrefetchingTakesOneBarrierForASliceInsteadOfTwo) {
  if (shared_bytes_limit() < 99 * 1024) GTEST_SKIP() << "this device is too small for large_tiles";
  const Shape shape{.seq_q = 256, .seq_k = 256, .head_dim = 64};
  const VariantResult in_turn = run_variant_on("large_tiles", shape);
  const VariantResult prefetched = run_variant_on("register_tiled", shape);
  if (!prefetched.counted) GTEST_SKIP() << "barriers are counted on the simulator";
  const std::int64_t warps = 4 * 256 / 128, slices = 4 * 4;
  EXPECT_EQ(in_turn.counted->barriers, warps * (1 + 2 * slices));
  EXPECT_EQ(prefetched.counted->barriers, warps * (1 + slices));
}

TEST(LoopSwappedV2, TheMaximumOfEveryKeyTileCounts) {
  const Shape shape{.seq_q = 3, .seq_k = 5000, .head_dim = 32};
  for (const char* variant : {"sliced_k", "register_tiled"}) {
    EXPECT_EQ(run<AttentionForward>(describe_chapter(), variant, shape,
                                    random_inputs<AttentionForward>(shape, Init::kOutliers, 16))
                  .complaint(),
              "")
        << variant;
  }
}

}  // namespace
}  // namespace fa
