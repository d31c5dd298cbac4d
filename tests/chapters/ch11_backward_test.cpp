// Tests the claims of lesson 11 on the backward pass, with numbers that follow from the sizes of its tiles.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "harness/runner.hpp"
#include "masked_shapes.hpp"

namespace fa {
namespace {

using Shape = MaskedAttention::Shape;

constexpr std::int64_t kBr = 64, kBc = 128, kWarps = 4;  // for head_dim 64
constexpr std::int64_t kRow = 2 * 64;                    // bytes of a query or a key
const std::vector<std::string> kForAnyMask = {"masked_everywhere", "skip_empty", "three_kinds",
                                              "compressed",        "dropout",    "scores"};

VariantResult run_with(const std::string& variant, Shape shape, const TensorMap& inputs) {
  shape.backward = true;
  return run<MaskedAttention>(describe_chapter(), variant, shape, inputs);
}

/// The gradients, and the counters of both passes.
VariantResult run_backward(const std::string& variant, Shape shape) {
  shape.backward = true;
  const VariantResult result =
      run_with(variant, shape, random_inputs<MaskedAttention>(shape, Init::kNormal, 17));
  EXPECT_EQ(result.complaint(), "") << variant << ' ' << text(shape);
  return result;
}

/// The counters of the forward pass alone.
VariantResult run_forward(const std::string& variant, Shape shape) {
  shape.backward = false;
  return run<MaskedAttention>(describe_chapter(), variant, shape,
                              random_inputs<MaskedAttention>(shape, Init::kNormal, 17));
}

std::int64_t bytes_read(const VariantResult& result, const std::string& tensor) {
  return result.counted->traffic.tensors.at(tensor).read_bytes;
}

/// mma of a warp's keys and of 32 queries: S, dP, dV and dK. And those of a tile for dQ.
constexpr std::int64_t kMmaOfShare = 4 * (32 / 16) * (32 / 8) * (64 / 16);
constexpr std::int64_t kMmaOfDq = kBr / 16 * (64 / 8) * (kBc / 16);

// 8 x 4 tiles of 64 queries and 128 keys. Under the causal mask key tile n is seen by 8 - 2 n of them; in a
// window of 128 before the query by 4, the last one by 2; in documents of 128 tokens by 2.
TEST(MasksBackward, SLOW_ReadsTheQueriesOfTheTilesThatSomethingSees) {
  const Shape all{{.seq_q = 512, .seq_k = 512, .head_dim = 64, .dtype = DType::kBFloat16}};
  Shape causal = all, window = all, documents = all, padded = all, blocks = all;
  causal.causal = true;
  window.causal = true;
  window.window = 128;
  documents.documents = documents_that_end_at(512, {128, 256, 384});
  padded.key_lengths = key_lengths({200});
  blocks.block_mask = blocks_where(blocks, 1, 128, [](auto, auto row, auto col) { return (row ^ col) == 1; });
  const std::pair<Shape, std::int64_t> tiles_of[] = {{all, 8 * 4},        {causal, 8 + 6 + 4 + 2},
                                                     {window, 3 * 4 + 2}, {documents, 4 * 2},
                                                     {padded, 2 * 8},     {blocks, 4 * 2}};
  for (const std::string& variant : kForAnyMask) {
    for (const auto& [shape, tiles] : tiles_of) {
      const VariantResult result = run_backward(variant, shape), forward = run_forward(variant, shape);
      if (!result.counted) GTEST_SKIP() << "bytes are counted on the simulator";
      const std::int64_t visited = variant == "masked_everywhere" ? 8 * 4 : tiles;
      EXPECT_EQ(bytes_read(result, "q") - bytes_read(forward, "q"), visited * kBr * kRow)
          << variant << ' ' << text(shape);
      EXPECT_EQ(bytes_read(result, "do"), (512 + visited * kBr) * kRow) << variant << ' ' << text(shape);
      EXPECT_EQ(bytes_read(result, "dq_sum"), (512 + visited * kBr) * 64 * 4);
      const std::int64_t keys = shape.key_lengths ? 200 : 512;
      for (const char* name : {"k", "v"})
        EXPECT_EQ(bytes_read(result, name) - bytes_read(forward, name), keys * kRow)
            << variant << ' ' << text(shape);
    }
  }
  for (const std::int64_t size : {64, 128}) {  // half of the blocks
    Shape half = all;
    half.block_mask =
        blocks_where(half, 1, size, [](auto, auto row, auto col) { return (row + col) % 2 == 0; });
    const VariantResult result = run_backward("block_sparse", half);
    EXPECT_EQ(bytes_read(result, "do"), (512 + 512 / size * 512 / 2) * kRow) << size;
  }
}

// For each of 4 key tiles what its list begins with, 16 bytes, and the number of each query tile. Every warp
// of a block reads its list for each of two heads, and goes through both twice: for the partial tiles, where
// the first list's first tile comes with the row, and for the full ones.
TEST(MasksBackward, CompressedReadsShortLists) {
  Shape shape{{.heads = 2, .kv_heads = 1, .seq_q = 512, .seq_k = 512, .head_dim = 64, .causal = true}};
  shape.dtype = DType::kBFloat16;
  const VariantResult result = run_backward("compressed", shape);
  if (!result.counted) GTEST_SKIP() << "bytes are counted on the simulator";
  const auto& tensors = result.counted->traffic.tensors;
  EXPECT_EQ(tensors.at("key_rows").write_bytes, 4 * 16);  // both heads share them
  EXPECT_EQ(tensors.at("query_tiles").write_bytes, 20 * 4);
  // To order the 4 rows: its own, the counts of each. Then, three times for each key tile, one count.
  EXPECT_EQ(tensors.at("key_rows").read_bytes, 4 * 16 + 4 * 8 + 3 * 4 * kWarps * 4);
  EXPECT_EQ(tensors.at("query_tiles").read_bytes, (2 * 20 - 4) * kWarps * 4);
  EXPECT_EQ(tensors.at("key_row_order").write_bytes, 4 * 16);
  EXPECT_EQ(tensors.at("key_row_order").read_bytes, 4 * kWarps * 16);
}

// Under a causal mask with as many queries as keys, the diagonal crosses two query tiles of each key tile. Of
// the 8 shares of the first, 32 queries and 32 keys each, it hides 5; of those of the second, 1.
TEST(MasksBackward, WarpsSkipTheSharesThatNobodySees) {
  Shape shape{{.seq_q = 512, .seq_k = 512, .head_dim = 64, .causal = true, .dtype = DType::kBFloat16}};
  for (const std::string& variant : kForAnyMask) {
    const VariantResult result = run_backward(variant, shape), forward = run_forward(variant, shape);
    if (!result.counted) GTEST_SKIP() << "instructions are counted on the simulator";
    const std::int64_t tiles = variant == "masked_everywhere" ? 8 * 4 : 8 + 6 + 4 + 2;
    const std::int64_t shares = tiles * kWarps * 2;
    const std::int64_t skipped = variant == "masked_everywhere" || variant == "skip_empty" ? 0 : 4 * (5 + 1);
    EXPECT_EQ(result.counted->mma - forward.counted->mma, (shares - skipped) * kMmaOfShare + tiles * kMmaOfDq)
        << variant;
  }
}

// Two for each tile that is visited, and one before dK and dV replace K and V. In deterministic, blocks with
// a key tile take one for each of 14 tiles, when it has landed. (Those for dQ have named barriers, which this
// counter leaves out.) list_and_order takes one in each of its 32 warps.
TEST(MasksBackward, TakesTwoBarriersForATile) {
  Shape shape{{.seq_q = 512, .seq_k = 512, .head_dim = 64, .dtype = DType::kBFloat16}};
  shape.block_mask =
      blocks_where(shape, 1, 128, [](auto, auto row, auto col) { return row == col || col == 0; });
  for (const std::string& variant : variant_names(describe_chapter())) {
    if (variant == "hopper") continue;  // its warps meet at barriers in shared memory
    const VariantResult result = run_backward(variant, shape), forward = run_forward(variant, shape);
    if (!result.counted) GTEST_SKIP() << "barriers are counted on the simulator";
    const std::int64_t tiles = variant == "masked_everywhere" ? 8 * 4 : 8 + 3 * 2;
    const bool is_deterministic = variant == "deterministic";
    const std::int64_t barriers = is_deterministic ? 14 + 4 : 4 + 2 * tiles;
    const std::int64_t orders = is_deterministic ? 2 : takes_longest_lists_first(variant) ? 1 : 0;
    EXPECT_EQ(result.counted->barriers - forward.counted->barriers, kWarps * barriers + 32 * orders)
        << variant;
    EXPECT_EQ(result.counted->shared.conflicts(), 0) << variant;
    EXPECT_EQ(result.counted->over_waited, 0) << variant;
  }
}

// 7 of 16 blocks of 128 exist. Each is a product of 128 x 128 x 64, seven times.
TEST(MasksBackward, DeterministicComputesSevenProductsAndAddsNothingInMemory) {
  Shape shape{{.heads = 2, .kv_heads = 1, .seq_q = 512, .seq_k = 512, .head_dim = 64}};
  shape.dtype = DType::kBFloat16;
  shape.block_mask =
      blocks_where(shape, 1, 128, [](auto, auto row, auto col) { return row == col || col == 0; });
  const VariantResult result = run_backward("deterministic", shape),
                      forward = run_forward("deterministic", shape);
  if (!result.counted) GTEST_SKIP() << "instructions are counted on the simulator";
  EXPECT_EQ(result.counted->mma - forward.counted->mma, 2 * 7 * 7 * (128 / 16) * (128 / 8) * (64 / 16));
  EXPECT_EQ(result.counted->atomic_sectors, 0);
  // Q and dO for dQ, and for each tile of dK and dV; K and V for each tile of dQ, and once for dK and dV.
  EXPECT_EQ(bytes_read(result, "do"), 2 * (512 + 7 * 128) * kRow);
  EXPECT_EQ(bytes_read(result, "q") - bytes_read(forward, "q"), 2 * (512 + 7 * 128) * kRow);
  for (const char* name : {"k", "v"})
    EXPECT_EQ(bytes_read(result, name) - bytes_read(forward, name), (2 * 7 * 128 + 512) * kRow);
  // O once, for dQ. Delta is marked as missing, then written; and read for each tile of dK and dV.
  EXPECT_EQ(bytes_read(result, "o"), 2 * 512 * kRow);
  EXPECT_EQ(bytes_read(result, "delta"), 2 * 7 * 128 * 4);
  EXPECT_EQ(result.counted->traffic.tensors.at("delta").write_bytes, 2 * 2 * 512 * 4);
  EXPECT_FALSE(result.counted->traffic.tensors.contains("dq_sum"));
}

TEST(MasksBackward, DeterministicRepeatsItsResultToTheBit) {
  Shape shape{{.heads = 4, .kv_heads = 2, .seq_q = 150, .seq_k = 278, .head_dim = 128, .causal = true}};
  shape.dtype = DType::kFloat16;
  shape.window = 66;
  shape.sinks = sinks({0, 1, 2, 3});
  const VariantResult first = run_backward("deterministic", shape),
                      second = run_backward("deterministic", shape);
  for (const char* name : {"dq", "dk", "dv", "dsinks"})
    EXPECT_EQ(first.outputs.at(name).data, second.outputs.at(name).data) << name;
}

// Their gradients are written, and are 0: dQ of queries that see no key, dK and dV of keys that no query
// sees.
TEST(MasksBackward, GivesZerosToThoseThatAreNotSeen) {
  Shape padded{{.batch = 2, .seq_q = 70, .seq_k = 300, .head_dim = 64}};
  padded.key_lengths = key_lengths({0, 130});
  Shape window{{.seq_q = 40, .seq_k = 400, .head_dim = 128}};
  window.window = 30;
  Shape causal{{.heads = 2, .kv_heads = 1, .seq_q = 300, .seq_k = 65, .head_dim = 64, .causal = true}};
  Shape blocks{{.seq_q = 256, .seq_k = 256, .head_dim = 64}};
  blocks.block_mask = blocks_where(blocks, 1, 128, [](auto, auto row, auto col) { return row + col == 0; });
  for (Shape shape : {padded, window, causal, blocks}) {
    shape.dtype = DType::kBFloat16;
    std::vector<std::string> variants = kForAnyMask;
    if (shape.block_mask) variants.push_back("block_sparse");
    for (const std::string& variant : variants) {
      const VariantResult result = run_backward(variant, shape);
      const auto d = std::size_t(shape.head_dim);
      std::int64_t unseen = 0;
      const auto expect_zeros = [&](const char* name, std::int64_t row) {
        ++unseen;
        const auto first = result.outputs.at(name).data.begin() + std::ptrdiff_t(std::size_t(row) * d);
        EXPECT_TRUE(std::all_of(first, first + std::ptrdiff_t(d), [](float x) { return x == 0.0f; }))
            << variant << ' ' << name << ' ' << row << ' ' << text(shape);
      };
      const std::int64_t group = shape.heads / shape.kv_heads;
      for (std::int64_t head = 0; head < shape.batch * shape.heads; ++head) {
        for (std::int64_t query = 0; query < shape.seq_q; ++query) {
          if (shape.seen_keys(head, query, {0, shape.seq_k}).empty())
            expect_zeros("dq", head * shape.seq_q + query);
        }
        if (head % group != 0) continue;  // the masks of these shapes are the same for all heads of a batch
        for (std::int64_t key = 0; key < shape.seq_k; ++key) {
          bool seen = false;
          for (std::int64_t query = 0; query < shape.seq_q && !seen; ++query)
            seen = shape.sees(head, query, key);
          if (!seen) {
            expect_zeros("dk", head / group * shape.seq_k + key);
            expect_zeros("dv", head / group * shape.seq_k + key);
          }
        }
      }
      EXPECT_GT(unseen, 30) << text(shape);
    }
  }
}

// What keys hold that do not exist reaches no gradient.
TEST(MasksBackward, DoesNotReadKeysThatDoNotExist) {
  Shape shape{{.batch = 2, .heads = 2, .kv_heads = 1, .seq_q = 40, .seq_k = 300, .head_dim = 64}};
  shape.dtype = DType::kBFloat16;
  shape.key_lengths = key_lengths({33, 200});
  shape.backward = true;
  TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 6);
  for (std::int64_t n = 0; n < shape.batch; ++n) {
    const std::int64_t first = (*shape.key_lengths)[std::size_t(n)];
    for (const char* name : {"k", "v"})
      std::fill_n(inputs.at(name).data.begin() + (n * 300 + first) * 64, (300 - first) * 64,
                  std::numeric_limits<float>::quiet_NaN());
  }
  for (const std::string& variant : kForAnyMask) {
    const VariantResult result = run_with(variant, shape, inputs);
    for (const char* name : {"dq", "dk", "dv"}) {
      for (const float x : result.outputs.at(name).data)
        ASSERT_FALSE(std::isnan(x)) << variant << ' ' << name;
    }
  }
}

// dK and dV do not depend on which of the variants computes them: they differ in what they leave out, not in
// what they add up.
TEST(MasksBackward, FullTilesOfAnyVariantGiveTheSameResult) {
  Shape shape{{.seq_q = 256, .seq_k = 128, .head_dim = 64, .dtype = DType::kBFloat16}};
  shape.block_mask = blocks_where(shape, 1, 128, [](auto, auto, auto) { return true; });
  const VariantResult expected = run_backward("masked_everywhere", shape);
  for (const char* variant : {"skip_empty", "three_kinds"}) {
    for (const char* name : {"dk", "dv"})
      EXPECT_EQ(run_backward(variant, shape).outputs.at(name).data, expected.outputs.at(name).data)
          << variant;
  }
  // Lists name the full tiles from the last to the first.
  const VariantResult listed = run_backward("compressed", shape);
  for (const char* variant : {"block_sparse", "dropout"}) {
    for (const char* name : {"dk", "dv"}) {
      // dropout computes P (dP - D) with another expression, which is rounded differently.
      if (variant == std::string("dropout") && name == std::string("dk")) continue;
      EXPECT_EQ(run_backward(variant, shape).outputs.at(name).data, listed.outputs.at(name).data) << variant;
    }
  }
}

// P is uniform, and dO of query n is 0 but in column n: column n of dV says which keys query n kept.
TEST(MasksBackward, DrawsTheSameElementsAgain) {
  for (const std::int64_t head_dim : {64, 128}) {
    Shape shape{{.batch = 2, .heads = 2, .kv_heads = 2, .seq_q = 64, .seq_k = 140, .head_dim = head_dim}};
    shape.dtype = DType::kFloat16;
    shape.dropout = 0.5;
    shape.dropout_seed = 11;
    shape.backward = true;
    TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 1);
    for (const char* name : {"q", "do"})
      std::fill(inputs.at(name).data.begin(), inputs.at(name).data.end(), 0.0f);
    for (std::size_t query = 0; query < 4 * 64; ++query)
      inputs.at("do").data[query * std::size_t(head_dim) + query % 64] = 16.0f;
    const VariantResult result = run_with("dropout", shape, inputs);
    EXPECT_EQ(result.complaint(), "");
    for (std::int64_t head = 0; head < 4; ++head) {
      for (std::int64_t key = 0; key < 140; ++key) {
        for (std::int64_t query = 0; query < 64; ++query) {
          const float dv = result.outputs.at("dv").data[std::size_t((head * 140 + key) * head_dim + query)];
          ASSERT_EQ(dv != 0.0f, shape.keeps(head, query, key)) << head << ' ' << query << ' ' << key;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fa
