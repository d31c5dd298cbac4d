// Tests what lesson 11 says of `hopper`, with numbers that follow from the sizes of its tiles.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "harness/runner.hpp"
#include "masked_shapes.hpp"

namespace fa {
namespace {

using Shape = MaskedAttention::Shape;

constexpr std::int64_t kBr = 128, kBc = 128, kConsumers = 2;  // for head_dim 64, in both passes
constexpr std::int64_t kRow = 2 * 64;                         // bytes of a query or a key

/// Skips the test on a device without the instructions.
class MasksOnHopper : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& variant : chapter_of<MaskedAttention>(describe_chapter()).variants) {
      if (variant.name != "hopper") continue;
      if (const auto lacks =
              what_device_lacks<MaskedAttention>(variant, {{.head_dim = 64, .dtype = DType::kBFloat16}}))
        GTEST_SKIP() << lacks->reason;
    }
  }
};

VariantResult run_hopper(Shape shape, const TensorMap& inputs) {
  shape.dtype = DType::kBFloat16;
  VariantResult result = run<MaskedAttention>(describe_chapter(), "hopper", shape, inputs);
  EXPECT_EQ(result.complaint(), "") << text(shape);
  return result;
}
VariantResult run_hopper(Shape shape) {
  shape.dtype = DType::kBFloat16;
  return run_hopper(shape, random_inputs<MaskedAttention>(shape, Init::kNormal, 18));
}

Shape backward(Shape shape) {
  shape.backward = true;
  return shape;
}

std::int64_t bytes_read(const VariantResult& result, const std::string& tensor) {
  return result.counted->traffic.tensors.at(tensor).read_bytes;
}

/// 4 x 4 tiles.
Shape four_by_four() { return {{.seq_q = 512, .seq_k = 512, .head_dim = 64}}; }

// Whole tiles: a sequence of 200 keys has two. Query tiles that see nothing are not read; the backward pass
// reads K and V once, except for key tiles that no query sees.
TEST_F(MasksOnHopper, ReadsTheTilesOfTheLists) {
  const Shape all = four_by_four();
  Shape causal = all, window = all, documents = all, padded = all, blocks = all;
  causal.causal = true;
  window.causal = true;
  window.window = 128;
  documents.documents = documents_that_end_at(512, {128, 256, 384});
  padded.key_lengths = key_lengths({200});
  blocks.block_mask = blocks_where(blocks, 1, 128, [](auto, auto row, auto col) { return row == col + 1; });
  struct Expected {
    Shape shape;
    std::int64_t tiles, key_tiles;  ///< that are visited; that are visited at all
  };
  for (const auto& [shape, tiles, key_tiles] : {Expected{all, 16, 4},
                                                {causal, 10, 4},
                                                {window, 7, 4},
                                                {documents, 4, 4},
                                                {padded, 8, 2},
                                                {blocks, 3, 3}}) {
    const VariantResult forward = run_hopper(shape), both = run_hopper(backward(shape));
    if (!forward.counted) GTEST_SKIP() << "bytes are counted on the simulator";
    for (const char* name : {"k", "v"}) {
      EXPECT_EQ(bytes_read(forward, name), tiles * kBc * kRow) << text(shape);
      EXPECT_EQ(bytes_read(both, name), (tiles + key_tiles) * kBc * kRow) << text(shape);
    }
    EXPECT_EQ(bytes_read(forward, "q"), (shape.block_mask ? 3 : 4) * kBr * kRow) << text(shape);
    EXPECT_EQ(bytes_read(both, "do"), (512 + tiles * kBr) * kRow) << text(shape);
  }
}

// Two warps read both counts of each query tile, and one thread the number of each key tile. A key tile adds
// its counts up first, and then goes through the partial tiles and the full ones.
TEST_F(MasksOnHopper, OneThreadReadsTheLists) {
  Shape shape = four_by_four();
  shape.causal = true;
  shape.heads = 2;
  const VariantResult forward = run_hopper(shape), both = run_hopper(backward(shape));
  if (!forward.counted) GTEST_SKIP() << "bytes are counted on the simulator";
  EXPECT_EQ(bytes_read(forward, "query_rows"), 2 * 4 * 2 * 8);
  EXPECT_EQ(bytes_read(forward, "key_tiles"), 2 * 10 * 4);
  EXPECT_EQ(bytes_read(both, "key_rows"), 2 * 4 * 3 * 8);
  EXPECT_EQ(bytes_read(both, "query_tiles"), 2 * 10 * 4);
}

// With documents that begin and end with tiles, only the kernels that make the lists read them: for each of
// 4 lists, those of 4 tiles.
TEST_F(MasksOnHopper, FullTilesNeedNoDocuments) {
  Shape full = four_by_four(), partial = full;
  full.documents = documents_that_end_at(512, {128, 256});
  partial.documents = documents_that_end_at(512, {128, 255});
  const VariantResult result = run_hopper(full);
  if (!result.counted) GTEST_SKIP() << "bytes are counted on the simulator";
  const std::int64_t of_lists = 4 * (2 + 2 * 4) * 4;
  EXPECT_EQ(bytes_read(result, "documents"), of_lists);
  EXPECT_EQ(bytes_read(run_hopper(backward(full)), "documents"), 2 * of_lists);
  EXPECT_GT(bytes_read(run_hopper(partial), "documents"), of_lists);
  EXPECT_GT(bytes_read(run_hopper(backward(partial)), "documents"), 2 * of_lists);
}

// The products of a tile are those of chapters 09 and 10, and little else is multiplied: at the end of a
// block Q K^T of no tile; in the backward pass dQ of no query tile at the beginning of a key tile, and S of
// none at its end. The first query tile and the last key tile see nothing, and are not multiplied.
TEST_F(MasksOnHopper, MultipliesTheTilesOfTheLists) {
  constexpr std::int64_t kSteps = 64 / 16,
                         kLongSteps = 128 / 16;  // along head_dim, and along keys or queries
  Shape shape = four_by_four();
  shape.block_mask = blocks_where(shape, 1, 128, [](auto, auto row, auto col) { return row == col + 1; });
  const VariantResult forward = run_hopper(shape), both = run_hopper(backward(shape));
  if (!forward.counted) GTEST_SKIP() << "instructions are counted on the simulator";
  EXPECT_EQ(forward.counted->wgmma, 3 * kConsumers * (kSteps + kLongSteps + kSteps));
  const std::int64_t of_tile = 2 * kSteps + 3 * kLongSteps, of_key_tile = kLongSteps + kSteps;
  EXPECT_EQ(both.counted->wgmma - forward.counted->wgmma, 3 * kConsumers * (of_tile + of_key_tile));
  EXPECT_EQ(both.counted->mma, 0);
}

// More query tiles than multiprocessors: a block goes from full lists to empty ones and to partial ones, and
// the rings go round.
TEST_F(MasksOnHopper, SLOW_IsRightWhenBlocksTakeSeveralQueryTiles) {
  Random random(51);
  Shape lengths{{.batch = 2, .heads = 24, .kv_heads = 4, .seq_q = 400, .seq_k = 290, .head_dim = 64}};
  Shape blocks = lengths, causal = lengths;
  lengths.key_lengths = key_lengths({0, 200});
  blocks.block_mask = random_blocks(blocks, 24, 128, 0.3, random);
  causal.seq_k = 210;
  causal.causal = true;
  causal.head_dim = 128;
  causal.block_mask = random_blocks(causal, 24, 64, 0.5, random);
  for (const Shape& shape : {lengths, blocks, causal}) run_hopper(shape);
}

// Keys after the length lie in a tile that is copied. Whatever they hold reaches no result.
TEST_F(MasksOnHopper, KeysThatDoNotExistAreCleared) {
  for (const std::int64_t head_dim : {40, 64, 128}) {
    Shape shape{{.batch = 3, .heads = 2, .kv_heads = 1, .seq_q = 150, .seq_k = 300, .head_dim = head_dim}};
    shape.key_lengths = key_lengths({33, 200, 256});
    for (const bool gradients : {false, true}) {
      shape.backward = gradients;
      shape.dtype = DType::kBFloat16;
      TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 6);
      for (std::int64_t n = 0; n < shape.batch; ++n) {
        const std::int64_t first = (*shape.key_lengths)[std::size_t(n)];
        for (const char* name : {"k", "v"})
          std::fill_n(inputs.at(name).data.begin() + (n * 300 + first) * head_dim, (300 - first) * head_dim,
                      std::numeric_limits<float>::quiet_NaN());
      }
      const VariantResult result = run<MaskedAttention>(describe_chapter(), "hopper", shape, inputs);
      for (const auto& [name, tensor] : result.outputs) {
        for (const float x : tensor.data) ASSERT_FALSE(std::isnan(x)) << name << ' ' << text(shape);
      }
    }
  }
}

// Gradients of queries that see no key and of keys that no query sees.
TEST_F(MasksOnHopper, GivesZerosToThoseThatAreNotSeen) {
  Shape shape{{.batch = 2, .heads = 2, .kv_heads = 1, .seq_q = 300, .seq_k = 280, .head_dim = 64}};
  shape.key_lengths = key_lengths({0, 130});
  shape.causal = true;
  const VariantResult result = run_hopper(backward(shape));
  std::int64_t unseen = 0;
  const auto expect_zeros = [&](const char* name, std::int64_t row) {
    ++unseen;
    const auto first = result.outputs.at(name).data.begin() + row * 64;
    EXPECT_TRUE(std::all_of(first, first + 64, [](float x) { return x == 0.0f; })) << name << ' ' << row;
  };
  for (std::int64_t n = 0; n < shape.batch; ++n) {
    for (std::int64_t query = 0; query < shape.seq_q; ++query) {
      if (shape.seen_keys(2 * n, query, {0, shape.seq_k}).empty())
        for (std::int64_t head = 2 * n; head < 2 * n + 2; ++head)
          expect_zeros("dq", head * shape.seq_q + query);
    }
    for (std::int64_t key = 0; key < shape.seq_k; ++key) {
      if (key < (*shape.key_lengths)[std::size_t(n)]) continue;
      for (const char* name : {"dk", "dv"}) expect_zeros(name, n * shape.seq_k + key);
    }
  }
  EXPECT_EQ(unseen, 2 * 300 + 2 * 280 + 2 * 20 + 2 * 150);
}

}  // namespace
}  // namespace fa
