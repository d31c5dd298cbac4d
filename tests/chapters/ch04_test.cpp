// Tests the claims of lesson 04.

#include <gtest/gtest.h>

#include "device/launch.cuh"
#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

VariantResult run_variant_on(const char* variant, const Shape& shape) {
  return run<AttentionForward>(describe_chapter(), variant, shape,
                               random_inputs<AttentionForward>(shape, Init::kNormal, 14));
}

// Every query tile is processed Tc times. Each time Q and O are read and O is written, except that the first
// time there is no O to read.
TEST(TiledV1, BytesOfQAndOFallAsTheKeyTileGrows) {
  if (shared_bytes_limit() < 227 * 1024) GTEST_SKIP() << "the numbers are those of an H100";
  const Shape shape{.heads = 2, .kv_heads = 2, .seq_q = 64, .seq_k = 256, .head_dim = 64};
  const std::int64_t once = 2 * 64 * 64 * 4;
  for (const auto& [variant, Bc] : {std::pair{"thread_per_row", 32},
                                    {"cooperative", 32},
                                    {"warp_per_rows", 32},
                                    {"bc_64", 64},
                                    {"bc_128", 128},
                                    {"bc_max", 256}}) {
    const auto tensors = run_variant_on(variant, shape).predicted.tensors;
    const std::int64_t passes = 256 / Bc;
    EXPECT_EQ(tensors.at("q").read_bytes, passes * once) << variant;
    EXPECT_EQ(tensors.at("o").read_bytes, (passes - 1) * once) << variant;
    EXPECT_EQ(tensors.at("o").write_bytes, passes * once) << variant;
    EXPECT_EQ(tensors.at("k").read_bytes, 2 * 256 * 64 * 4) << variant;
  }
}

// 8 x 8 tiles of 32 x 32: of the Tc * Tc pairs of tiles, Tc * (Tc + 1) / 2 are processed.
TEST(TiledV1, ACausalMaskSkipsTilesWithoutAVisiblePair) {
  Shape shape{.seq_q = 256, .seq_k = 256, .head_dim = 32};
  const std::int64_t all = run_variant_on("cooperative", shape).predicted.tensors.at("q").read_bytes;
  shape.causal = true;
  const VariantResult causal = run_variant_on("cooperative", shape);
  EXPECT_EQ(causal.complaint(), "");
  EXPECT_EQ(2 * 8 * causal.predicted.tensors.at("q").read_bytes, (8 + 1) * all);
}

TEST(TiledV1, LoadingTogetherSavesSectorsAndPaddingSavesConflicts) {
  const Shape shape{.seq_q = 64, .seq_k = 64, .head_dim = 64};
  const VariantResult alone = run_variant_on("thread_per_row", shape);
  const VariantResult together = run_variant_on("cooperative", shape);
  if (!alone.counted) GTEST_SKIP() << "sectors are counted on the simulator";
  EXPECT_EQ(alone.counted->traffic.bytes(), together.counted->traffic.bytes());
  // Everything except m, l and LSE, which a warp moves 32 at a time in both variants.
  const std::int64_t statistics = 4 * together.predicted.tensors.at("lse").write_bytes / 32;
  EXPECT_EQ(alone.counted->read_sectors - statistics, 8 * (together.counted->read_sectors - statistics));
  EXPECT_EQ(together.counted->shared.conflicts(), 0);
  EXPECT_GT(alone.counted->shared.conflicts(), 10 * alone.counted->shared.load_wavefronts_ideal);
}

TEST(TiledV1, WarpsWithTheirOwnRowsMeetOnlyAtKeyTiles) {
  if (shared_bytes_limit() < 99 * 1024) GTEST_SKIP() << "this device runs fewer warps";
  const Shape shape{.seq_q = 256, .seq_k = 128, .head_dim = 64};
  const VariantResult threads = run_variant_on("cooperative", shape);
  const VariantResult warps = run_variant_on("warp_per_rows", shape);
  if (!warps.counted) GTEST_SKIP() << "barriers are counted on the simulator";
  const std::int64_t query_tiles = 256 / 32, key_tiles = 128 / 32;
  EXPECT_EQ(threads.counted->barriers, 2 * query_tiles * key_tiles);  // of one warp
  EXPECT_EQ(warps.counted->barriers, 2 * key_tiles * 16);             // of 16
  EXPECT_EQ(warps.counted->shared.conflicts(), 0);
  EXPECT_LT(3 * warps.counted->shared.load_wavefronts, threads.counted->shared.load_wavefronts);
}

TEST(TiledV1, NeedsTwoNumbersForEachRow) {
  const Shape shape{.batch = 2, .heads = 3, .kv_heads = 1, .seq_q = 30, .seq_k = 40, .head_dim = 32};
  EXPECT_EQ(run_variant_on("bc_max", shape).workspace_bytes, 2u * 2 * 3 * 30 * 4);
}

// A GPU of this kind has a limit of its own; the simulator has that of an H100.
TEST(TiledV1, TheLargestKeyTileFillsSharedMemory) {
  if (shared_bytes_limit() < 227 * 1024) GTEST_SKIP() << "the numbers are those of an H100";
  const VariantResult result = run_variant_on("bc_max", {.seq_q = 8, .seq_k = 40, .head_dim = 64});
  if (!result.counted) GTEST_SKIP() << "shared memory is counted on the simulator";
  EXPECT_GT(result.counted->shared.bytes_per_block, 200 * 1024);
  EXPECT_LE(result.counted->shared.bytes_per_block, 227 * 1024);
}

}  // namespace
}  // namespace fa
