// Tests the claims of lesson 09.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "attention_checks.hpp"
#include "harness/program.hpp"
#include "harness/runner.hpp"
#include "hopper_counts.hpp"

namespace fa {
namespace {

using Shape = AttentionForward::Shape;

constexpr std::int64_t kMultiprocessors = 132;  // of the device that the simulator emulates

/// The tile sizes that follow from choices.cuh.
struct Tiles {
  std::string_view variant;
  std::int64_t head_dim, Br, Bc, stages, query_buffers, threads;  // the largest head_dim with these tiles

  bool has_wgmma() const { return variant != "tma"; }
  bool is_gapless() const { return query_buffers == 2; }
  std::int64_t cols() const { return (head_dim + 63) / 64 * 64; }  ///< of a tile: in panels of 64
  std::int64_t shared_bytes() const {
    const std::int64_t tiles = 2 * cols() * (query_buffers * Br + 2 * stages * Bc);
    return (tiles / 1024 + 1) * 1024;  // and the barriers
  }
};
constexpr Tiles kTiles[] = {
    {"tma", 64, 128, 64, 2, 1, 128},          {"tma", 128, 128, 64, 2, 1, 128},
    {"wgmma", 64, 64, 128, 2, 1, 128},        {"wgmma", 128, 64, 64, 2, 1, 128},
    {"specialised", 64, 192, 128, 2, 1, 512}, {"specialised", 128, 128, 128, 2, 1, 384},
    {"persistent", 64, 192, 128, 2, 1, 512},  {"persistent", 128, 128, 128, 2, 1, 384},
    {"overlapped", 64, 192, 128, 2, 1, 512},  {"overlapped", 128, 128, 128, 2, 1, 384},
    {"ping_pong", 64, 192, 128, 2, 1, 512},   {"ping_pong", 128, 128, 128, 2, 1, 384},
    {"final", 64, 192, 128, 3, 2, 512},       {"final", 128, 128, 128, 2, 2, 384},
    {"final", 96, 192, 96, 2, 2, 512},        {"final", 192, 128, 112, 2, 1, 384},
    {"final", 256, 128, 64, 2, 1, 384},       {"no_maximum", 64, 192, 128, 3, 2, 512},
    {"no_maximum", 96, 192, 96, 2, 2, 512},   {"no_maximum", 128, 128, 128, 2, 2, 384},
};

VariantResult run_on(std::string_view variant, const Shape& shape, const TensorMap& inputs) {
  return run<AttentionForward>(describe_chapter(), variant, shape, inputs);
}

VariantResult run_on(std::string_view variant, const Shape& shape, Init init = Init::kNormal) {
  return run_on(variant, shape, random_inputs<AttentionForward>(shape, init, 16));
}

/// Skips the test on a device without the instructions.
class Hopper : public testing::Test {
 protected:
  void SetUp() override {
    const auto& variant = chapter_of<AttentionForward>(describe_chapter()).variants.front();
    if (const auto lacks =
            what_device_lacks<AttentionForward>(variant, {.head_dim = 64, .dtype = DType::kBFloat16}))
      GTEST_SKIP() << lacks->reason;
  }
};

// ---- lengths ----------------------------------------------------------------------------------------------

// Lengths around the edges of the tiles, which are larger than the shapes that all variants are tested with.
// Warpgroups and whole query tiles are partly, and entirely, past the end.
TEST_F(Hopper, IsRightAroundTheEdgesOfItsTiles) {
  for (const auto& [queries, keys] : {std::pair{64, 128}, {63, 127}, {65, 129}, {193, 64}, {129, 257}}) {
    for (const bool causal : {false, true}) {
      const Shape shape{
          .seq_q = queries, .seq_k = keys, .head_dim = 64, .causal = causal, .dtype = DType::kBFloat16};
      for (const std::string& variant : variant_names(describe_chapter())) {
        EXPECT_EQ(run_on(variant, shape).complaint(), "")
            << variant << ' ' << queries << " x " << keys << ' ' << causal;
      }
    }
  }
}

// Each stage is used more than twice, so that parities come back. Under the mask the warpgroups of a block do
// not see equally many tiles.
TEST_F(Hopper, IsRightWhenTheRingsGoRoundSeveralTimes) {
  for (const auto& [queries, keys, causal] : {std::tuple{20, 900, false}, {200, 700, true}}) {
    const Shape shape{
        .seq_q = queries, .seq_k = keys, .head_dim = 64, .causal = causal, .dtype = DType::kBFloat16};
    for (const std::string& variant : variant_names(describe_chapter()))
      EXPECT_EQ(run_on(variant, shape).complaint(), "") << variant << causal;
  }
}

TEST_F(Hopper, IsRightForEveryHeadDimensionAndType) {
  for (const Tiles& tile : kTiles) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      if (dtype == DType::kFloat16 && tile.variant != "final") continue;
      for (const bool causal : {false, true}) {
        const Shape shape{.heads = 2,
                          .kv_heads = 1,
                          .seq_q = 70,
                          .seq_k = 5 * tile.Bc / 2,
                          .head_dim = tile.head_dim,
                          .causal = causal,
                          .dtype = dtype};
        EXPECT_EQ(run_on(tile.variant, shape).complaint(), "")
            << tile.variant << tile.head_dim << name_of(dtype) << causal;
      }
    }
  }
}

// The first queries see no key, in whole warpgroups and query tiles.
TEST_F(Hopper, GivesZeroToQueriesWithoutKeys) {
  for (const auto& [queries, keys] : {std::pair{260, 30}, {200, 1}}) {
    const Shape shape{
        .seq_q = queries, .seq_k = keys, .head_dim = 64, .causal = true, .dtype = DType::kBFloat16};
    for (const std::string& variant : variant_names(describe_chapter())) {
      const VariantResult result = run_on(variant, shape);
      ASSERT_EQ(result.complaint(), "") << variant << queries;
      EXPECT_EQ(result.outputs.at("o").data[0], 0.0f) << variant;
      EXPECT_EQ(result.outputs.at("lse").data[0], -std::numeric_limits<float>::infinity()) << variant;
    }
  }
}

// More query tiles than multiprocessors: some blocks compute two, and their rings go on where the first tile
// left them.
TEST_F(Hopper, SLOW_BlocksThatStayTakeSeveralQueryTiles) {
  for (const auto& [variant, keys] : {std::pair{"persistent", 140},
                                      {"overlapped", 1},
                                      {"ping_pong", 1},
                                      {"final", 140},
                                      {"no_maximum", 1}}) {
    const Shape shape{.heads = kMultiprocessors + 3,
                      .kv_heads = 1,
                      .seq_q = 1,
                      .seq_k = keys,
                      .head_dim = 64,
                      .dtype = DType::kBFloat16};
    EXPECT_EQ(run_on(variant, shape).complaint(), "") << variant;
  }
}

// Logits reach about +-80, and the bundled input is what a real model had.
TEST_F(Hopper, IsNotLessExactThanStandardAttentionByAFactorOfTwo) {
  for (const bool causal : {false, true}) {
    const Shape shape{.seq_q = 70, .seq_k = 400, .head_dim = 64, .causal = causal, .dtype = DType::kBFloat16};
    for (const Init init : {Init::kNormal, Init::kOutliers}) {
      const TensorMap inputs = random_inputs<AttentionForward>(shape, init, 17);
      const TensorCheck limit = standard(shape, inputs).tensors.at("o");
      for (const char* variant : {"final", "no_maximum"}) {
        const Check check = run_on(variant, shape, inputs).check.value();
        EXPECT_LE(check.tensors.at("o").rel_l2, 2 * limit.rel_l2) << variant << causal << int(init);
        EXPECT_LE(check.tensors.at("o").max_abs, 2 * limit.max_abs) << variant << causal << int(init);
      }
    }
  }
}

// Blocks take query tiles in any order, but no sum depends on it.
TEST_F(Hopper, RepeatsItsResultToTheBit) {
  const Shape shape{.heads = 3,
                    .kv_heads = 1,
                    .seq_q = 200,
                    .seq_k = 270,
                    .head_dim = 64,
                    .causal = true,
                    .dtype = DType::kBFloat16};
  for (const std::string& variant : variant_names(describe_chapter())) {
    const VariantResult first = run_on(variant, shape), second = run_on(variant, shape);
    EXPECT_EQ(first.outputs.at("o").data, second.outputs.at("o").data) << variant;
    EXPECT_EQ(first.outputs.at("lse").data, second.outputs.at("lse").data) << variant;
  }
}

// ---- counts -----------------------------------------------------------------------------------------------

/// The products of a warpgroup for a key tile, Q K^T and P V, in units of 16 x 8 x 16.
std::int64_t products_of_tile(const Tiles& tile) { return tile.Bc * tile.head_dim / 16; }

/// Where a head's first query tile begins: the warpgroups that have no queries are in this tile.
std::int64_t first_tile(const Shape& shape, const Tiles& tile) {
  const std::int64_t rows = tile.has_wgmma() ? 64 : tile.Br;
  return -((ceil_div(shape.seq_q, tile.Br) * tile.Br - shape.seq_q) / rows * rows);
}

/// The products of one query tile if each warpgroup skips the key tiles that it does not see.
std::int64_t products(const Shape& shape, const Tiles& tile, std::int64_t first) {
  std::int64_t sum = 0;
  for (std::int64_t own = first; own < first + tile.Br; own += 64) {
    const bool skips = tile.has_wgmma();
    const std::int64_t tiles =
        skips ? key_tiles(shape, tile.Bc, own, 64) : key_tiles(shape, tile.Bc, first, tile.Br);
    sum += tiles * products_of_tile(tile);
  }
  return sum;
}

/// What the kernels without gaps add: Q K^T of a hidden tile where a warpgroup has one, and one product of
/// each warpgroup that nobody uses at the end of its block.
std::int64_t unused_products(const Shape& shape, const Tiles& tile) {
  if (!tile.is_gapless()) return 0;
  const std::int64_t heads = shape.batch * shape.heads, tiles = ceil_div(shape.seq_q, tile.Br);
  std::int64_t count = std::min(kMultiprocessors, heads * tiles) * (tile.Br / 64);
  for (std::int64_t first = first_tile(shape, tile); first < shape.seq_q; first += tile.Br) {
    for (std::int64_t own = first; own < first + tile.Br; own += 64)
      count +=
          heads * (key_tiles(shape, tile.Bc, own, 64) < key_tiles(shape, tile.Bc, first, tile.Br) ? 1 : 0);
  }
  return count * products_of_tile(tile) / 2;
}

std::int64_t all_products(const Shape& shape, const Tiles& tile) {
  std::int64_t sum = unused_products(shape, tile);
  for (std::int64_t first = first_tile(shape, tile); first < shape.seq_q; first += tile.Br)
    sum += shape.batch * shape.heads * products(shape, tile, first);
  return sum;
}

/// The copy engine brings whole tiles: rows past the end are zeros.
std::int64_t landed_bytes(const Shape& shape, const Tiles& tile) {
  std::int64_t rows = 0;
  for (std::int64_t first = first_tile(shape, tile); first < shape.seq_q; first += tile.Br)
    rows += tile.Br + 2 * key_tiles(shape, tile.Bc, first, tile.Br) * tile.Bc;
  return shape.batch * shape.heads * rows * tile.cols() * 2;
}

TEST_F(Hopper, CountsTheProductsAndCopiesOfItsTiles) {
  for (const Tiles& tile : kTiles) {
    for (const auto& [queries, keys, causal] :
         {std::tuple{130, 200, false}, {70, 333, true}, {200, 200, true}}) {
      if (tile.head_dim > 64 && queries != 200) continue;
      const Shape shape{.heads = 2,
                        .kv_heads = 1,
                        .seq_q = queries,
                        .seq_k = keys,
                        .head_dim = tile.head_dim,
                        .causal = causal,
                        .dtype = DType::kBFloat16};
      const VariantResult result = run_on(tile.variant, shape);
      ASSERT_EQ(result.complaint(), "") << tile.variant << tile.head_dim;
      if (!result.counted) GTEST_SKIP() << "products and copies are counted on the simulator";
      EXPECT_EQ(result.counted->mma_units, all_products(shape, tile))
          << tile.variant << tile.head_dim << causal;
      EXPECT_EQ(result.counted->bulk_load_bytes, landed_bytes(shape, tile))
          << tile.variant << tile.head_dim << causal;
    }
  }
}

// The tiles of V and O are narrower than those of Q and K; the loop is the same.
TEST_F(Hopper, TakesValuesOfAnotherWidth) {
  for (const auto& [d, d_v, queries, keys, causal] : {std::tuple{192, 128, 150, 270, true},
                                                      {192, 128, 129, 127, false},
                                                      {184, 8, 70, 200, true},
                                                      {40, 120, 200, 70, true},
                                                      {8, 128, 1, 1, false}}) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      if (dtype == DType::kFloat16 && d_v == 128) continue;
      const Shape shape{.heads = 4,
                        .kv_heads = 2,
                        .seq_q = queries,
                        .seq_k = keys,
                        .head_dim = d,
                        .head_dim_v = d_v,
                        .causal = causal,
                        .dtype = dtype};
      const VariantResult result = run_on("final", shape);  // also compares the bytes with the formula
      ASSERT_EQ(result.complaint(), "") << d << " " << d_v << name_of(dtype);
      EXPECT_EQ(result.outputs.at("o").shape.back(), d_v);
      if (!result.counted) continue;
      const TensorTraffic& o = result.counted->traffic.tensors.at("o");
      EXPECT_EQ(o.write_bytes, 4 * queries * d_v * 2);
    }
  }
}

TEST_F(Hopper, RefusesOtherPairsOfWidths) {
  const auto& variants = chapter_of<AttentionForward>(describe_chapter()).variants;
  const auto refusal = [&](std::string_view name, std::int64_t d, std::int64_t d_v) -> std::string {
    const auto found = std::find_if(variants.begin(), variants.end(),
                                    [&](const auto& variant) { return variant.name == name; });
    const auto why = why_unsuitable<AttentionForward>(
        *found, {.seq_q = 70, .seq_k = 70, .head_dim = d, .head_dim_v = d_v, .dtype = DType::kBFloat16});
    return why ? why->text : "";
  };
  EXPECT_EQ(refusal("final", 192, 128), "");
  EXPECT_EQ(refusal("final", 192, 136),
            "--head-dim-v is 136: must be --head-dim, or a multiple of 8 up to 128");
  EXPECT_EQ(refusal("final", 192, 100),
            "--head-dim-v is 100: must be --head-dim, or a multiple of 8 up to 128");
  EXPECT_EQ(refusal("final", 200, 128), "--head-dim is 200: must be a multiple of 8 up to 192");
  EXPECT_NE(refusal("ping_pong", 128, 64), "");
}

// Columns that a tensor does not have are zeros on the chip: they land and are multiplied, but HBM has none
// of them.
TEST_F(Hopper, PadsHeadDimensionsOnTheChip) {
  for (const Tiles& tile : kTiles) {
    if (tile.variant != "final" && tile.variant != "no_maximum") continue;
    for (const std::int64_t head_dim : {tile.head_dim - 8, tile.head_dim - 24}) {
      const Shape shape{.heads = 2,
                        .kv_heads = 1,
                        .seq_q = 70,
                        .seq_k = 150,
                        .head_dim = head_dim,
                        .causal = true,
                        .dtype = DType::kBFloat16};
      const VariantResult result = run_on(tile.variant, shape);
      ASSERT_EQ(result.complaint(), "") << tile.variant << head_dim;
      if (!result.counted) GTEST_SKIP() << "products and copies are counted on the simulator";
      EXPECT_EQ(result.counted->mma_units, all_products(shape, tile)) << tile.variant << head_dim;
      EXPECT_EQ(result.counted->bulk_load_bytes, landed_bytes(shape, tile)) << tile.variant << head_dim;
      const TensorTraffic& q = result.counted->traffic.tensors.at("q");
      EXPECT_EQ(q.read_bytes, 2 * 70 * head_dim * 2) << tile.variant << head_dim;
    }
  }
}

// A warp votes once for each key tile, and once when it stores its rows: repair_rows(). From `overlapped` on,
// raise_maximum() does so beside P V, but for the first tile, and bound_sum() after P V. From `ping_pong` on,
// it takes a turn for each key tile and one more, and passes each one on; in each block, a consumer begins
// and another one ends.
TEST_F(Hopper, OverlapsItsSoftmaxWithProductsAndTakesTurns) {
  constexpr std::int64_t kWarps = 16, kKeyTiles = 4, kBlocks = 2, kWarpsOfConsumer = 4;
  for (const Tiles& tile : kTiles) {
    if (tile.head_dim != 128 || tile.Bc != 128) continue;
    const Shape shape{
        .seq_q = 16 * kWarps, .seq_k = 128 * kKeyTiles, .head_dim = 128, .dtype = DType::kBFloat16};
    const VariantResult result = run_on(tile.variant, shape);
    ASSERT_EQ(result.complaint(), "") << tile.variant;
    if (!result.counted) GTEST_SKIP() << "votes are counted on the simulator";
    const bool takes_turns =
        tile.variant == "ping_pong" || tile.variant == "final" || tile.variant == "no_maximum";
    const bool overlaps = tile.variant != "no_maximum" && (takes_turns || tile.variant == "overlapped");
    const std::int64_t turns = 2 * (kWarps * (kKeyTiles + 1) + kBlocks * kWarpsOfConsumer);
    EXPECT_EQ(result.counted->votes, kWarps * (kKeyTiles + 1)) << tile.variant;
    // In `final` and `no_maximum`, the next query tile's product is in flight when rows are stored.
    const std::int64_t beside =
        (overlaps ? kKeyTiles - 1 : 0) + (tile.variant == "final" || tile.variant == "no_maximum");
    EXPECT_EQ(result.counted->votes_beside_products, kWarps * beside) << tile.variant;
    EXPECT_EQ(result.counted->named_barriers, kWarps + (takes_turns ? turns : 0)) << tile.variant;
  }
}

// The only __syncthreads() is the one after the barriers have been initialised. Nothing else waits for the
// whole block.
TEST_F(Hopper, UsesSharedMemoryWithoutConflictsAndOneBarrier) {
  for (const Tiles& tile : kTiles) {
    const Shape shape{
        .seq_q = 100, .seq_k = 150, .head_dim = tile.head_dim, .causal = true, .dtype = DType::kBFloat16};
    const VariantResult result = run_on(tile.variant, shape);
    ASSERT_EQ(result.complaint(), "") << tile.variant << tile.head_dim;
    if (!result.counted) GTEST_SKIP() << "shared memory is counted on the simulator";
    EXPECT_EQ(result.counted->shared.conflicts(), 0) << tile.variant << tile.head_dim;
    EXPECT_EQ(result.counted->shared.bytes_per_block, tile.shared_bytes()) << tile.variant << tile.head_dim;
    EXPECT_EQ(result.counted->barriers, ceil_div(shape.seq_q, tile.Br) * tile.threads / 32)
        << tile.variant << tile.head_dim;
  }
}

// wgmma reads K and V where the copy engine has put them: only O is stored to shared memory, 4 bytes a lane.
TEST_F(Hopper, StoresOnlyOToSharedMemory) {
  for (const Tiles& tile : kTiles) {
    if (!tile.has_wgmma()) continue;
    const Shape shape{
        .seq_q = 64, .seq_k = 3 * tile.Bc, .head_dim = tile.head_dim, .dtype = DType::kBFloat16};
    const VariantResult result = run_on(tile.variant, shape);
    if (!result.counted) GTEST_SKIP() << "wavefronts are counted on the simulator";
    const std::int64_t of_o = shape.seq_q * tile.head_dim * 2 / 128;
    const std::int64_t others = result.counted->shared.store_wavefronts - of_o;
    EXPECT_GE(others, 0) << tile.variant << tile.head_dim;
    EXPECT_LE(others, 40) << "of which query tile is in shared memory: " << tile.variant << tile.head_dim;
  }
}

// ---- without a maximum ------------------------------------------------------------------------------------

constexpr Tiles kNoMaximum = kTiles[17];

/// Queries and keys whose only logits other than 0 are set by the test. V is random.
struct Logits {
  Shape shape;
  TensorMap inputs;

  explicit Logits(const Shape& of) : shape(of) {
    inputs = random_inputs<AttentionForward>(shape, Init::kNormal, 18);
    for (const char* name : {"q", "k"})
      std::fill_n(inputs.at(name).data.begin(), inputs.at(name).data.size(), 0.0f);
  }
  std::size_t at(std::int64_t row) const { return std::size_t(row * shape.head_dim); }
  /// Of a query, the logit of keys with height 1 in powers of 2. Both are rounded to bf16.
  void set_query(std::int64_t query, float height) {
    const double log2_e = 1.4426950408889634;
    inputs.at("q").data[at(query)] = float(height / log2_e / shape.logit_scale());
  }
  void set_key(std::int64_t key, float height) { inputs.at("k").data[at(key)] = height; }
};

const Shape kFiveTiles{
    .seq_q = 3 * 192 - 30, .seq_k = 5 * 128 - 9, .head_dim = 64, .dtype = DType::kBFloat16};

/// How many products the second launch has made; -1 if nothing is counted.
std::int64_t repaired(const Shape& shape, const TensorMap& inputs) {
  const VariantResult result = run_on("no_maximum", shape, inputs);
  EXPECT_EQ(result.complaint(), "");
  return result.counted ? result.counted->mma_units - all_products(shape, kNoMaximum) : -1;
}
std::int64_t repaired(const Logits& of) { return repaired(of.shape, of.inputs); }

TEST_F(Hopper, NoMaximumComputesNothingTwiceIfNoSumIsTooLarge) {
  Logits of(kFiveTiles);
  if (repaired(of) < 0) GTEST_SKIP() << "products are counted on the simulator";
  EXPECT_EQ(repaired(of), 0) << "all logits equal";
  EXPECT_EQ(repaired(kFiveTiles, random_inputs<AttentionForward>(kFiveTiles, Init::kNormal, 19)), 0);
  // Keys are taken from the last tile to the first: this maximum comes late, and is 2^30 times the first one.
  for (std::int64_t query = 0; query < of.shape.seq_q; ++query) of.set_query(query, 30.0f);
  of.set_key(5, 1.0f);
  EXPECT_EQ(repaired(of), 0) << "below 2^40, and nothing is done";
  for (std::int64_t query = 0; query < of.shape.seq_q; ++query) of.set_query(query, 80.0f);
  EXPECT_EQ(repaired(of), 0) << "beyond 2^40, and rows are divided by a power of 2";
}

// Each tile adds 2^70 to the sum, 2^280 in all: far beyond what fp32 holds, but one step at a time.
TEST_F(Hopper, NoMaximumFollowsSumsThatGrowTileByTile) {
  Logits of(kFiveTiles);
  for (std::int64_t query = 0; query < of.shape.seq_q; ++query) of.set_query(query, 70.0f);
  for (std::int64_t key = 0; key < of.shape.seq_k; ++key) of.set_key(key, float(4 - key / 128));
  const std::int64_t count = repaired(of);
  if (count < 0) GTEST_SKIP() << "products are counted on the simulator";
  EXPECT_EQ(count, 0);
}

// A jump of 2^150 in some queries: their query tiles are computed again, and no others.
TEST_F(Hopper, NoMaximumRepairsTheQueryTilesWhoseSumsJump) {
  for (const std::vector<std::int64_t>& tiles : {std::vector<std::int64_t>{0}, {1}, {2}, {0, 2}, {0, 1, 2}}) {
    Logits of(kFiveTiles);
    of.set_key(300, 1.0f);
    std::int64_t expected = 0;
    for (const std::int64_t tile : tiles) {
      of.set_query(192 * tile + 131, 150.0f);  // one row in one warpgroup
      expected += products(of.shape, kNoMaximum, 192 * tile);
    }
    const std::int64_t count = repaired(of);
    if (count < 0) GTEST_SKIP() << "products are counted on the simulator";
    EXPECT_EQ(count, expected) << tiles.size();
  }
}

// The first tile that is taken has logits of about -200, so that all later ones jump.
TEST_F(Hopper, SLOW_NoMaximumRepairsRowsWhoseFirstTileHasNoWeight) {
  for (const bool causal : {false, true}) {
    Shape shape = kFiveTiles;
    shape.causal = causal;
    Logits of(shape);
    for (std::int64_t query = 0; query < shape.seq_q; ++query) of.set_query(query, 200.0f);
    for (std::int64_t key = 256; key < shape.seq_k; ++key) of.set_key(key, -1.0f);
    const std::int64_t count = repaired(of);
    if (count < 0) GTEST_SKIP() << "products are counted on the simulator";
    EXPECT_GT(count, 0) << causal;
    if (!causal) {
      EXPECT_EQ(count, all_products(shape, kNoMaximum) - unused_products(shape, kNoMaximum)) << "all tiles";
    }
  }
}

// exp2(s - m) is infinite, or a logit is.
TEST_F(Hopper, NoMaximumRepairsOverflowsAndPassesNaNOn) {
  Logits of(kFiveTiles);
  of.set_query(200, 1000.0f);
  of.set_key(3, 1.0f);
  const std::int64_t count = repaired(of);
  if (count < 0) GTEST_SKIP() << "products are counted on the simulator";
  EXPECT_EQ(count, products(of.shape, kNoMaximum, 192));

  of.inputs.at("q").data[of.at(400)] = std::numeric_limits<float>::quiet_NaN();
  const VariantResult result = run_on("no_maximum", of.shape, of.inputs);
  EXPECT_TRUE(result.defects.empty());
  for (std::size_t query = 0; query < std::size_t(of.shape.seq_q); ++query)
    EXPECT_EQ(std::isnan(result.outputs.at("lse").data[query]), query == 400) << query;
}

// Blocks that take several query tiles, of which they must repair some.
TEST_F(Hopper, SLOW_NoMaximumRepairsTilesOfManyHeads) {
  Logits of({.heads = kMultiprocessors + 4,
             .kv_heads = 1,
             .seq_q = 1,
             .seq_k = 130,
             .head_dim = 64,
             .dtype = DType::kBFloat16});
  of.set_key(1, 1.0f);
  for (const std::int64_t head : {std::int64_t(3), kMultiprocessors, kMultiprocessors + 3})
    of.set_query(head, 150.0f);
  const std::int64_t count = repaired(of);
  if (count < 0) GTEST_SKIP() << "products are counted on the simulator";
  EXPECT_EQ(count, 3 * products(of.shape, kNoMaximum, first_tile(of.shape, kNoMaximum)));
}

// ---- what is refused --------------------------------------------------------------------------------------

void expect_refused(const std::vector<std::string>& options, const std::string& line) {
  std::vector<const char*> argv = {"ch09_hopper"};
  for (const std::string& option : options) argv.push_back(option.c_str());
  std::ostringstream out, err;
  EXPECT_EQ(run_program(describe_chapter(), int(argv.size()), argv.data(), out, err), 2) << line;
  EXPECT_EQ(err.str(), "error: --variant " + options[1] + " cannot run this: " + line + "\n");
  EXPECT_EQ(out.str(), "");
}

TEST_F(Hopper, RefusesWhatItHasNoKernelsFor) {
  for (const std::string& variant : variant_names(describe_chapter())) {
    const bool is_final = variant == "final", pads = is_final || variant == "no_maximum";
    const std::string multiple = std::string("a multiple of 8 up to ") + (is_final ? "256" : "128");
    for (const std::string head_dim : {"4", "68", "264"}) {
      expect_refused({"--variant", variant, "--dtype", "bf16", "--head-dim", head_dim},
                     "--head-dim is " + head_dim + ": must be " + (pads ? multiple : "one of 64, 128"));
    }
    expect_refused({"--variant", variant, "--dtype", "fp32", "--head-dim", "64"},
                   std::string("--dtype is fp32: this variant takes ") + (is_final ? "fp16, bf16" : "bf16"));
    if (!is_final) {
      expect_refused({"--variant", variant, "--dtype", "fp16", "--head-dim", "64"},
                     "--dtype is fp16: this variant takes bf16");
    }
  }
}

}  // namespace
}  // namespace fa
