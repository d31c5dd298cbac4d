// Tests the claims of lesson 11 on the forward pass, with numbers that follow from the sizes of its tiles.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/runner.hpp"
#include "masked_shapes.hpp"

namespace fa {
namespace {

using Shape = MaskedAttention::Shape;

constexpr std::int64_t kBr = 128, kBc = 128, kSlice = 32, kWarpRows = 32, kWarps = 4;  // for head_dim 64
constexpr std::int64_t kRow = 2 * 64;                                                  // bytes of K or V
const std::vector<std::string> kForAnyMask = {"masked_everywhere", "skip_empty", "three_kinds",
                                              "compressed",        "dropout",    "scores"};

VariantResult run_variant_on(const std::string& variant, const Shape& shape) {
  VariantResult result = run<MaskedAttention>(describe_chapter(), variant, shape,
                                              random_inputs<MaskedAttention>(shape, Init::kNormal, 16));
  EXPECT_EQ(result.complaint(), "") << variant << ' ' << text(shape);
  return result;
}

std::int64_t bytes_read(const VariantResult& result, const std::string& tensor) {
  const auto& tensors = result.counted->traffic.tensors;
  return tensors.contains(tensor) ? tensors.at(tensor).read_bytes : 0;
}

/// mma instructions of a warp's rows and a slice of keys: both products.
constexpr std::int64_t kMmaOfSlice = 2 * (kWarpRows / 16) * (kSlice / 8) * (64 / 16);

// 4 x 4 tiles. Under the causal mask 10 are visited, in a window of 128 behind the query 7, in documents of
// 128 tokens 4.
TEST(Masks, ReadsKAndVOfTheTilesThatSomethingSees) {
  const Shape all{{.seq_q = 512, .seq_k = 512, .head_dim = 64, .dtype = DType::kBFloat16}};
  Shape causal = all, window = all, documents = all, padded = all, blocks = all;
  causal.causal = true;
  window.causal = true;
  window.window = 128;
  documents.documents = documents_that_end_at(512, {128, 256, 384});
  padded.key_lengths = key_lengths({200});
  blocks.block_mask = blocks_where(blocks, 1, 128, [](auto, auto row, auto col) { return (row ^ col) == 1; });
  const std::pair<Shape, std::int64_t> rows_of_keys[] = {{all, 16 * 128},   {causal, 10 * 128},
                                                         {window, 7 * 128}, {documents, 4 * 128},
                                                         {padded, 4 * 200}, {blocks, 4 * 128}};
  for (const std::string& variant : kForAnyMask) {
    for (const auto& [shape, rows] : rows_of_keys) {
      const VariantResult result = run_variant_on(variant, shape);
      if (!result.counted) GTEST_SKIP() << "bytes are counted on the simulator";
      const std::int64_t visited =
          variant == "masked_everywhere" ? 4 * (shape.key_lengths ? 200 : 512) : rows;
      for (const char* name : {"k", "v"})
        EXPECT_EQ(bytes_read(result, name), visited * kRow) << variant << ' ' << text(shape);
    }
  }
  for (const std::int64_t size : {64, 128}) {  // half of the blocks
    Shape half = all;
    half.block_mask =
        blocks_where(half, 1, size, [](auto, auto row, auto col) { return (row + col) % 2 == 0; });
    const VariantResult result = run_variant_on("block_sparse", half);
    EXPECT_EQ(bytes_read(result, "k"), 512 / size * 512 / 2 * kRow) << size;
  }
}

// The lists: for each of 4 query tiles what its list begins with, 16 bytes, and the number of each visited
// tile; every warp of a block reads its list, but for the first tile, which comes with the row.
TEST(Masks, CompressedReadsShortLists) {
  Shape shape{{.heads = 2, .kv_heads = 2, .seq_q = 512, .seq_k = 512, .head_dim = 64, .causal = true}};
  shape.dtype = DType::kBFloat16;
  const VariantResult result = run_variant_on("compressed", shape);
  if (!result.counted) GTEST_SKIP() << "bytes are counted on the simulator";
  const auto& tensors = result.counted->traffic.tensors;
  EXPECT_EQ(tensors.at("query_rows").write_bytes, 4 * 16);  // both heads share them
  EXPECT_EQ(tensors.at("key_tiles").write_bytes, 10 * 4);
  EXPECT_EQ(tensors.at("query_rows").read_bytes,
            4 * 16 + 4 * 8);  // to order the 4 rows: its own, the counts of each
  EXPECT_EQ(tensors.at("key_tiles").read_bytes, 2 * (10 - 4) * kWarps * 4);
  EXPECT_EQ(tensors.at("query_row_order").write_bytes, 4 * 16);
  EXPECT_EQ(tensors.at("query_row_order").read_bytes, 2 * 4 * kWarps * 16);
}

// Heads share a list unless their blocks differ, and batches unless their lengths do.
TEST(Masks, SharesListsBetweenHeadsWithTheSameMasks) {
  Shape shape{{.batch = 2, .heads = 4, .kv_heads = 4, .seq_q = 256, .seq_k = 256, .head_dim = 64}};
  shape.dtype = DType::kBFloat16;
  const auto lists = [](const Shape& of) {
    for (const auto& variant : chapter_of<MaskedAttention>(describe_chapter()).variants) {
      if (variant.name == "compressed")
        return workspace_of(variant, of).at(0).shape.at(0) / 2;  // query tiles
    }
    return std::int64_t{0};
  };
  EXPECT_EQ(lists(shape), 1);
  Shape padded = shape;
  padded.key_lengths = key_lengths({100, 200});
  EXPECT_EQ(lists(padded), 2);
  Random random(50);
  for (Shape& with_blocks : {std::ref(shape), std::ref(padded)}) {
    const std::int64_t before = lists(with_blocks);
    with_blocks.block_mask = random_blocks(with_blocks, 1, 128, 0.5, random);
    EXPECT_EQ(lists(with_blocks), before);
    with_blocks.block_mask = random_blocks(with_blocks, 4, 128, 0.5, random);
    EXPECT_EQ(lists(with_blocks), 4 * before);
    run_variant_on("compressed", with_blocks);
  }
}

// Under a causal mask with as many queries as keys, warp w of a tile skips 3 - w slices of the diagonal tile,
// if it asks.
TEST(Masks, WarpsSkipTheSlicesThatTheyDoNotSee) {
  Shape shape{{.seq_q = 512, .seq_k = 512, .head_dim = 64, .causal = true, .dtype = DType::kBFloat16}};
  for (const std::string& variant : kForAnyMask) {
    const VariantResult result = run_variant_on(variant, shape);
    if (!result.counted) GTEST_SKIP() << "instructions are counted on the simulator";
    const std::int64_t all = (variant == "masked_everywhere" ? 16 : 10) * kWarps * (kBc / kSlice);
    const std::int64_t skipped =
        variant == "masked_everywhere" || variant == "skip_empty" ? 0 : 4 * (3 + 2 + 1);
    EXPECT_EQ(result.counted->mma, (all - skipped) * kMmaOfSlice) << variant;
  }
}

// One barrier for Q, one before O replaces it, and one for each tile that is visited.
TEST(Masks, TakesOneBarrierForATile) {
  Shape shape{{.seq_q = 512, .seq_k = 512, .head_dim = 64, .dtype = DType::kBFloat16}};
  shape.block_mask =
      blocks_where(shape, 1, 128, [](auto, auto row, auto col) { return row == col || col == 0; });
  for (const std::string& variant : variant_names(describe_chapter())) {
    if (variant == "hopper") continue;  // its warps meet at barriers in shared memory
    const VariantResult result = run_variant_on(variant, shape);
    if (!result.counted) GTEST_SKIP() << "barriers are counted on the simulator";
    const std::int64_t tiles = variant == "masked_everywhere" ? 16 : 7;
    const std::int64_t of_lists =
        takes_longest_lists_first(variant) ? 32 : 0;  // in list_and_order, with or without a row
    EXPECT_EQ(result.counted->barriers, kWarps * (4 * 2 + tiles) + of_lists) << variant;
    EXPECT_EQ(result.counted->shared.conflicts(), 0) << variant;
    EXPECT_EQ(result.counted->over_waited, 0) << variant;
  }
}

// A mask that hides nothing changes no byte of K and V, and no result.
TEST(Masks, ThatHideNothingChangeNothing) {
  const Shape plain{{.seq_q = 256, .seq_k = 256, .head_dim = 64, .dtype = DType::kBFloat16}};
  Shape masked = plain;
  masked.window = 256;
  masked.documents = documents_that_end_at(256, {});
  masked.key_lengths = key_lengths({256});
  masked.block_mask = blocks_where(masked, 1, 128, [](auto, auto, auto) { return true; });
  for (const std::string& variant : kForAnyMask) {
    const VariantResult expected = run_variant_on(variant, plain), result = run_variant_on(variant, masked);
    EXPECT_EQ(result.outputs.at("o").data, expected.outputs.at("o").data) << variant;
    if (!result.counted) continue;
    EXPECT_EQ(result.counted->mma, expected.counted->mma) << variant;
    for (const char* name : {"k", "v"})
      EXPECT_EQ(bytes_read(result, name), bytes_read(expected, name)) << variant;
  }
}

// Each warp reads its head's sink once. Nothing else that is counted changes.
TEST(Masks, SinksChangeNothingButTheEndOfARow) {
  const Shape without{{.heads = 2,
                       .kv_heads = 2,
                       .seq_q = 300,
                       .seq_k = 300,
                       .head_dim = 64,
                       .causal = true,
                       .dtype = DType::kBFloat16}};
  Shape with = without;
  with.sinks = sinks({1, 4});
  for (const char* variant : {"compressed", "dropout", "scores"}) {
    const VariantResult expected = run_variant_on(variant, without), result = run_variant_on(variant, with);
    EXPECT_NE(result.outputs.at("o").data, expected.outputs.at("o").data) << variant;
    if (!result.counted) GTEST_SKIP() << "bytes are counted on the simulator";
    EXPECT_EQ(result.counted->mma, expected.counted->mma) << variant;
    EXPECT_EQ(result.counted->barriers, expected.counted->barriers) << variant;
    EXPECT_EQ(result.counted->shuffles, expected.counted->shuffles) << variant;
    Traffic traffic = result.counted->traffic;
    EXPECT_EQ(traffic.tensors.at("sinks").read_bytes, 2 * 3 * kWarps * 4) << variant;
    for (const auto& [name, bytes] : expected.counted->traffic.tensors) {
      EXPECT_EQ(traffic.tensors.at(name).read_bytes, bytes.read_bytes) << variant << ' ' << name;
      EXPECT_EQ(traffic.tensors.at(name).write_bytes, bytes.write_bytes) << variant << ' ' << name;
    }
  }
}

// All variants that keep everything compute the same bits: they differ in what they leave out, not in what
// they add up.
TEST(Masks, FullTilesOfAnyVariantGiveTheSameResult) {
  Shape shape{{.seq_q = 256, .seq_k = 128, .head_dim = 64, .dtype = DType::kBFloat16}};
  shape.block_mask = blocks_where(shape, 1, 128, [](auto, auto, auto) { return true; });
  const VariantResult expected = run_variant_on("masked_everywhere", shape);
  for (const char* variant : {"skip_empty", "three_kinds", "compressed", "block_sparse", "dropout"}) {
    EXPECT_EQ(run_variant_on(variant, shape).outputs.at("o").data, expected.outputs.at("o").data) << variant;
    EXPECT_EQ(run_variant_on(variant, shape).outputs.at("lse").data, expected.outputs.at("lse").data)
        << variant;
  }
}

// Another tiling, that of head_dim 128, drops the same elements; another seed others. V holds the number of
// its key in one column, so that O of a uniform P says which keys were kept.
TEST(Masks, DropoutDependsOnNothingButItsSeed) {
  const auto kept_keys = [](std::int64_t head_dim, std::uint64_t seed) {
    Shape shape{{.heads = 2,
                 .kv_heads = 2,
                 .seq_q = 140,
                 .seq_k = 32,
                 .head_dim = head_dim,
                 .dtype = DType::kFloat16}};
    shape.dropout = 0.5;
    shape.dropout_seed = seed;
    TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 1);
    for (const char* name : {"q", "v"})
      std::fill(inputs.at(name).data.begin(), inputs.at(name).data.end(), 0.0f);
    for (std::size_t key = 0; key < 2 * 32; ++key)
      inputs.at("v").data[key * std::size_t(head_dim) + key % 32] = 16.0f;
    const VariantResult result = run<MaskedAttention>(describe_chapter(), "dropout", shape, inputs);
    EXPECT_EQ(result.complaint(), "");
    std::vector<bool> kept;  // of each query and key
    for (std::size_t row = 0; row < 2 * 140; ++row) {
      for (std::size_t key = 0; key < 32; ++key)
        kept.push_back(result.outputs.at("o").data[row * std::size_t(head_dim) + key] != 0.0f);
    }
    return kept;
  };
  const std::vector<bool> kept = kept_keys(64, 7);
  EXPECT_EQ(kept_keys(128, 7), kept);
  EXPECT_NE(kept_keys(64, 8), kept);
}

}  // namespace
}  // namespace fa
