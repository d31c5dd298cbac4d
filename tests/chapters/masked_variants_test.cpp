// Tests every variant of chapter 11 with every kind of shape and mask: right outputs, no defects, and exactly
// the bytes of its formula. Each problem runs in both directions if the variant has both. Where several
// properties vary, they vary in the same loop: not each with each.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/runner.hpp"
#include "large_scores.hpp"
#include "masked_shapes.hpp"
#include "scales.hpp"

namespace fa {
namespace {

using Shape = MaskedAttention::Shape;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const AnyChapter& chapter() {
  static const AnyChapter instance = describe_chapter();
  return instance;
}

class MaskedVariant : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const auto& variant : chapter_of<MaskedAttention>(chapter()).variants) {
      if (variant.name != GetParam()) continue;
      const auto lacking =
          what_device_lacks<MaskedAttention>(variant, {{.head_dim = 64, .dtype = DType::kBFloat16}});
      if (lacking) GTEST_SKIP() << lacking->reason;
    }
  }
  void TearDown() override {
    if (!IsSkipped() && runs_ == 0) GTEST_SKIP() << "the variant takes none of these problems";
  }
  static bool takes(const Shape& shape) {
    for (const auto& variant : chapter_of<MaskedAttention>(chapter()).variants) {
      if (variant.name == GetParam()) return !why_refused<MaskedAttention>(variant, shape);
    }
    return false;
  }
  VariantResult run_on(const Shape& shape, const TensorMap& inputs) {
    ++runs_;
    return run<MaskedAttention>(chapter(), GetParam(), shape, inputs);
  }
  /// The variant refuses, or is right. In bf16 unless a test is about types.
  void expect_right(Shape shape, Init init = Init::kNormal, std::uint64_t seed = 1) {
    if (shape.dtype == DType::kFloat32) shape.dtype = DType::kBFloat16;
    for (const bool backward : {false, true}) {
      shape.backward = backward;
      if (!takes(shape)) continue;
      EXPECT_EQ(run_on(shape, random_inputs<MaskedAttention>(shape, init, seed)).complaint(), "")
          << text(shape);
    }
  }
  int runs_ = 0;
};

TEST_P(MaskedVariant, IsRightWithoutMasks) {
  for (const auto& [queries, keys] :
       {std::pair{1, 1}, {2, 3}, {1, 300}, {300, 1}, {128, 128}, {129, 127}, {127, 129}, {260, 390}}) {
    expect_right({{.seq_q = queries, .seq_k = keys, .head_dim = 64}});
  }
}

TEST_P(MaskedVariant, IsRightUnderACausalMask) {
  for (const auto& [queries, keys] :
       {std::pair{1, 1}, {33, 33}, {129, 129}, {260, 260}, {1, 70}, {65, 300}, {300, 65}, {130, 129}}) {
    expect_right({{.seq_q = queries, .seq_k = keys, .head_dim = 64, .causal = true}});
  }
}

// As in the chapters without masks. The gradients of rows with a large LSE are 0 and not NaN.
TEST_P(MaskedVariant, SLOW_TakesScoresOfAnySize) {
  for (const double magnitude : score_magnitudes()) {
    for (const double sign : {1.0, -1.0}) {
      Shape shape{{.seq_q = 19, .seq_k = 70, .head_dim = 64, .causal = sign > 0, .dtype = DType::kBFloat16}};
      for (const bool backward : {false, true}) {
        shape.backward = backward;
        if (!takes(shape)) continue;
        TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 17);
        shape.scale = large_scores(shape, inputs, magnitude, sign, true);
        const TensorMap outputs = run_on(shape, inputs).outputs;
        if (!backward) {
          ASSERT_EQ(complaint_on_large_scores(shape, inputs, outputs, magnitude, sign), "") << text(shape);
        }
        for (const auto& [name, tensor] : outputs) {
          for (const float x : tensor.data) ASSERT_TRUE(std::isfinite(x)) << name << sign * magnitude;
        }
      }
    }
  }
}

TEST_P(MaskedVariant, SLOW_IsRightUnderAWindow) {
  bool causal = true;
  constexpr std::int64_t kWidest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t window :
       {std::int64_t(1), std::int64_t(2), std::int64_t(31), std::int64_t(32), std::int64_t(33),
        std::int64_t(64), std::int64_t(127), std::int64_t(128), std::int64_t(129), std::int64_t(127),
        std::int64_t(128), kWidest, std::int64_t(64)}) {
    Shape shape{{.seq_q = 280, .seq_k = 280, .head_dim = 64, .causal = causal}};
    shape.window = window;
    expect_right(shape);
    causal = !causal;
  }
  for (const auto& [queries, keys, is_causal] :
       {std::tuple{40, 300, true}, {300, 40, true}, {130, 129, false}, {300, 40, false}}) {
    Shape shape{{.seq_q = queries, .seq_k = keys, .head_dim = 64, .causal = is_causal}};
    shape.window = 50;
    expect_right(shape);
  }
}

// Boundaries at the edges of tiles, slices and warps, and next to them.
TEST_P(MaskedVariant, IsRightOnPackedDocuments) {
  const std::vector<std::vector<std::int64_t>> ends = {
      {},       {1},      {270},          {128},          {127},     {129, 257},
      {32, 64}, {31, 65}, {1, 2, 3, 200}, {64, 128, 192}, {100, 101}};
  bool causal = false;
  for (const auto& of_documents : ends) {
    Shape shape{{.seq_q = 271, .seq_k = 271, .head_dim = 64, .causal = causal}};
    shape.documents = documents_that_end_at(271, of_documents);
    expect_right(shape);
    causal = !causal;
  }
}

TEST_P(MaskedVariant, IsRightOnPaddedBatches) {
  bool causal = false;
  for (const auto& lengths : {std::vector{0, 290}, {1, 289}, {127, 128}, {129, 32}, {31, 33}, {290, 0}}) {
    Shape shape{{.batch = 2, .heads = 2, .seq_q = 150, .seq_k = 290, .head_dim = 64, .causal = causal}};
    shape.key_lengths = key_lengths({lengths.begin(), lengths.end()});
    expect_right(shape);
    causal = !causal;
  }
}

TEST_P(MaskedVariant, SLOW_IsRightOnPatternsOfBlocks) {
  Random random(40);
  for (const std::int64_t size : {64, 128}) {
    std::int64_t heads = size / 64;
    for (const double fraction : {0.0, 0.1, 0.5, 1.0}) {
      Shape shape{{.heads = 2, .kv_heads = 1, .seq_q = 384, .seq_k = 256, .head_dim = 64}};
      shape.block_mask = random_blocks(shape, heads, size, fraction, random);
      expect_right(shape);
      heads = 3 - heads;
    }
    Shape ragged{{.heads = 2, .kv_heads = 2, .seq_q = 200, .seq_k = 333, .head_dim = 64, .causal = true}};
    ragged.block_mask = random_blocks(ragged, 2, size, 0.5, random);
    expect_right(ragged);
  }
}

TEST_P(MaskedVariant, SLOW_IsRightForEveryTypeAndWidth) {
  Random random(41);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t head_dim : {64, 128}) {
      for (const std::int64_t size : {64, 128}) {
        Shape shape{
            {.heads = 2, .kv_heads = 2, .seq_q = 256, .seq_k = 256, .head_dim = head_dim, .dtype = dtype}};
        if ((size == 64) == (dtype == DType::kFloat16)) {
          shape.causal = true;
          shape.seq_k = 252;
          shape.window = 200;
        }
        shape.block_mask = random_blocks(shape, 1, size, 0.5, random);
        expect_right(shape);
      }
    }
  }
}

// Columns past the last one must neither be read nor written, nor add anything. HBM bytes are those of the
// columns that exist.
TEST_P(MaskedVariant, SLOW_IsRightForEveryMultipleOfEightAndEveryLayout) {
  constexpr Layout kLayouts[] = {Layout::kBhsd, Layout::kBshd, Layout::kSliced};
  Random random(42);
  int runs = 0;
  for (std::int64_t head_dim = 8; head_dim <= 128; head_dim += 8) {
    Shape shape{{.batch = 2, .heads = 2, .kv_heads = 1, .seq_q = 64, .seq_k = 192, .head_dim = head_dim}};
    shape.block_mask = random_blocks(shape, 2, 64, 0.6, random);
    shape.set_layout(kLayouts[runs++ % 3]);
    shape.dtype = runs % 2 == 0 ? DType::kFloat16 : DType::kBFloat16;
    if (runs % 4 >= 2) {
      shape.key_lengths = random_key_lengths(shape, random);
      shape.causal = runs % 8 >= 4;
    }
    expect_right(shape, Init::kNormal, 8);
  }
}

TEST_P(MaskedVariant, SLOW_IsRightUnderRandomMasks) {
  Random random(43);
  for (int i = 0; i < 12; ++i) {
    const std::int64_t kv_heads = 1 + up_to(random, 1);
    Shape shape{{.batch = 1 + up_to(random, 1),
                 .heads = kv_heads * (1 + up_to(random, 1)),
                 .kv_heads = kv_heads,
                 .seq_q = 1 + up_to(random, 299),
                 .seq_k = 1 + up_to(random, 299),
                 .head_dim = i % 3 == 0   ? 128
                             : i % 3 == 1 ? 64
                                          : 40}};
    if (i % 2 == 0) shape.seq_k = shape.seq_q;
    add_random_masks(shape, random);
    expect_right(shape, i % 4 == 0 ? Init::kUniform : Init::kNormal, random());
  }
}

// Many lists of tiles: more key tiles than a warp has lanes.
TEST_P(MaskedVariant, SLOW_IsRightOnManyTiles) {
  Random random(44);
  Shape shape{{.seq_q = 128, .seq_k = 64 * 70, .head_dim = 128}};
  shape.block_mask = random_blocks(shape, 1, 64, 0.2, random);
  expect_right(shape);
  shape.causal = true;
  shape.window = 1500;
  shape.seq_k -= 33;
  expect_right(shape);
}

TEST_P(MaskedVariant, IsRightWithDropout) {
  Random random(45);
  for (const auto& [dropout, head_dim] :
       {std::pair{0.0, 64}, {0.1, 128}, {0.5, 64}, {0.95, 128}, {0.1, 64}}) {
    Shape shape{{.batch = 2, .heads = 2, .kv_heads = 1, .seq_q = 150, .seq_k = 150, .head_dim = head_dim}};
    shape.dtype = DType::kBFloat16;
    shape.dropout = dropout;
    shape.dropout_seed = random();
    if (!takes(shape)) continue;
    expect_right(shape);
    add_random_masks(shape, random);
    expect_right(shape);
  }
}

TEST_P(MaskedVariant, SLOW_IsRightWithFunctionsOfScores) {
  Random random(46);
  for (const bool alibi : {false, true}) {
    std::int64_t head_dim = alibi ? 64 : 128;
    for (const double softcap : {0.0, 0.5, 5.0, 50.0}) {
      head_dim = 192 - head_dim;
      Shape shape{{.batch = head_dim == 64 ? 2 : 1,
                   .heads = 2,
                   .kv_heads = 1,
                   .seq_q = 150,
                   .seq_k = 150,
                   .head_dim = head_dim}};
      shape.dtype = DType::kBFloat16;
      shape.alibi = alibi && softcap != 5.0;
      if (alibi && !shape.alibi)
        shape.alibi_slopes = std::make_shared<const std::vector<float>>(std::vector<float>{0.5f, 0.03f});
      if (softcap > 0) shape.softcap = softcap;
      if (!takes(shape)) continue;
      expect_right(shape);
      expect_right(shape, Init::kOutliers);
      add_random_masks(shape, random);
      shape.seq_q = 150 - (shape.documents ? 0 : 64);
      if (!shape.block_mask) expect_right(shape);
    }
  }
}

// In heads that share a head of K: ordinary sinks, none, and those beside which all keys, or the sink itself,
// count nothing.
TEST_P(MaskedVariant, IsRightWithSinks) {
  Random random(47);
  for (const auto& [queries, keys, head_dim, causal] :
       {std::tuple{1, 1, 64, false}, {130, 129, 128, true}, {150, 150, 64, true}, {260, 70, 40, true}}) {
    Shape shape{{.batch = 2,
                 .heads = 4,
                 .kv_heads = 2,
                 .seq_q = queries,
                 .seq_k = keys,
                 .head_dim = head_dim,
                 .causal = causal}};
    shape.sinks = sinks({3, -kInf, 5.5f, 0});
    if (GetParam() == "dropout") shape.dropout = 0.2;
    if (GetParam() == "scores") shape.softcap = 5, shape.alibi = true;
    expect_right(shape);
    shape.sinks = sinks({1e4f, 2, -1e4f, 4});
    add_random_masks(shape, random);
    expect_right(shape, Init::kUniform, random());
  }
}

// A key length of 0 and a causal mask: rows without a key, some of them in tiles that are visited.
TEST_P(MaskedVariant, GivesTheSinkWhereAQuerySeesNoKey) {
  Shape shape{
      {.batch = 2, .heads = 2, .kv_heads = 1, .seq_q = 200, .seq_k = 70, .head_dim = 64, .causal = true}};
  shape.key_lengths = key_lengths({0, 70});
  shape.sinks = sinks({-2.5f, 1e4f});
  expect_right(shape);
  shape.dtype = DType::kBFloat16;
  if (!takes(shape)) return;
  const VariantResult result = run_on(shape, random_inputs<MaskedAttention>(shape, Init::kNormal, 2));
  for (std::size_t row = 0; row < 800; ++row) {
    if (row >= 400 && row % 200 >= 130) continue;  // sees a key
    const float sink = (*shape.sinks)[row / 200 % 2];
    ASSERT_NEAR(result.outputs.at("lse").data[row], sink, 1e-6 * std::abs(sink)) << row;
    for (std::size_t col = 0; col < 64; ++col) ASSERT_EQ(result.outputs.at("o").data[row * 64 + col], 0.0f);
  }
}

TEST_P(MaskedVariant, ASinkOfMinusInfinityIsNone) {
  Shape shape{
      {.heads = 2, .seq_q = 150, .seq_k = 140, .head_dim = 64, .causal = true, .dtype = DType::kBFloat16}};
  shape.kv_heads = 2;
  for (const bool backward : {false, true}) {
    shape.backward = backward;
    shape.sinks = sinks({-kInf, -kInf});
    if (!takes(shape)) return;
    const TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 3);
    const TensorMap with = run_on(shape, inputs).outputs;
    shape.sinks = nullptr;
    TensorMap without_sinks = inputs;
    without_sinks.erase("sinks");
    for (const auto& [name, tensor] : run_on(shape, without_sinks).outputs) {
      const bool repeatable = !backward || GetParam() == "deterministic";  // not so the additions to dQ
      if (repeatable || name != "dq") {
        EXPECT_EQ(with.at(name).data, tensor.data) << name;
      }
    }
    if (backward) {
      EXPECT_EQ(with.at("dsinks").data, std::vector<float>(2, 0.0f));
    }
  }
}

// Rows that fp32 does not resolve are computed again, with their sink: a larger one hides all keys, a smaller
// one changes nothing.
TEST_P(MaskedVariant, SLOW_TakesSinksBesideScoresOfAnySize) {
  for (const double magnitude : score_magnitudes()) {
    if (magnitude > 1e29) continue;  // four times as much would not be a sink
    Shape shape{{.heads = 2,
                 .kv_heads = 2,
                 .seq_q = 19,
                 .seq_k = 70,
                 .head_dim = 64,
                 .causal = true,
                 .dtype = DType::kBFloat16}};
    const auto sink = float(4 * magnitude);
    shape.sinks = sinks({sink + 30, -sink - 30});
    if (!takes(shape)) return;
    TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 17);
    shape.scale = large_scores(shape, inputs, magnitude, 1, true);
    TensorMap outputs = run_on(shape, inputs).outputs;
    for (std::size_t row = 0; row < 19; ++row) {
      ASSERT_NEAR(outputs.at("lse").data[row] / (sink + 30), 1, 1e-6) << magnitude;
      for (std::size_t col = 0; col < 64; ++col)
        ASSERT_NEAR(outputs.at("o").data[row * 64 + col], 0, 1e-9) << magnitude;
    }
    Shape second = shape;  // its head without a sink
    second.heads = second.kv_heads = 1;
    for (TensorMap* tensors : {&inputs, &outputs}) {
      for (auto& [name, tensor] : *tensors) {
        tensor.data.erase(tensor.data.begin(), tensor.data.begin() + std::ptrdiff_t(tensor.data.size() / 2));
        if (tensor.shape.size() > 1) tensor.shape[1] = 1;
      }
    }
    ASSERT_EQ(complaint_on_large_scores(second, inputs, outputs, magnitude, 1), "") << text(shape);
  }
}

TEST_P(MaskedVariant, IsRightOnOutliers) {
  Shape window{{.seq_q = 150, .seq_k = 150, .head_dim = 64, .causal = true}};
  window.window = 40;
  expect_right(window, Init::kOutliers, 3);
  Shape shape{{.seq_q = 128, .seq_k = 256, .head_dim = 64}};
  shape.block_mask =
      blocks_where(shape, 1, 64, [](auto, auto row, auto col) { return (row + col) % 2 == 0; });
  expect_right(shape, Init::kOutliers, 4);
}

TEST_P(MaskedVariant, TakesAGivenScale) {
  Shape shape{{.seq_q = 128, .seq_k = 128, .head_dim = 64}};
  shape.block_mask = blocks_where(shape, 1, 64, [](auto, auto row, auto col) { return row == col; });
  for (const double scale : {0.7, 1e-3}) {
    shape.scale = scale;
    expect_right(shape);
  }
}

// By a key length of 0, by an empty row of blocks, and by a causal mask with more queries than keys.
TEST_P(MaskedVariant, GivesZeroAndMinusInfinityWhereAQuerySeesNoKey) {
  Shape padded{{.batch = 2, .seq_q = 130, .seq_k = 70, .head_dim = 64}};
  padded.key_lengths = key_lengths({0, 70});
  Shape blocks{{.seq_q = 256, .seq_k = 128, .head_dim = 64}};
  blocks.block_mask = blocks_where(blocks, 1, 128, [](auto, auto row, auto) { return row == 1; });
  const Shape causal{{.seq_q = 260, .seq_k = 132, .head_dim = 64, .causal = true}};
  Shape window{{.seq_q = 260, .seq_k = 132, .head_dim = 64}};
  window.window = 1;
  for (Shape shape : {padded, blocks, causal, window}) {
    shape.dtype = DType::kBFloat16;
    if (!takes(shape)) continue;
    const VariantResult result = run_on(shape, random_inputs<MaskedAttention>(shape, Init::kNormal, 2));
    ASSERT_EQ(result.complaint(), "") << text(shape);
    for (std::size_t query = 0; query < 128; ++query) {
      ASSERT_EQ(result.outputs.at("lse").data[query], -kInf) << text(shape) << ' ' << query;
      for (std::size_t col = 0; col < 64; ++col)
        ASSERT_EQ(result.outputs.at("o").data[query * 64 + col], 0.0f);
    }
  }
}

// Of the keys after a length, and of tiles that nobody sees, nothing is read.
TEST_P(MaskedVariant, DoesNotReadWhatIsHidden) {
  Shape padded{{.batch = 2, .seq_q = 40, .seq_k = 300, .head_dim = 64}};
  padded.key_lengths = key_lengths({33, 200});
  Shape blocks{{.seq_q = 128, .seq_k = 512, .head_dim = 64}};
  blocks.block_mask = blocks_where(blocks, 1, 128, [](auto, auto, auto col) { return col % 2 == 0; });
  for (Shape shape : {padded, blocks}) {
    shape.dtype = DType::kBFloat16;
    if (!takes(shape) || (shape.block_mask && GetParam() == "masked_everywhere")) continue;
    TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 6);
    for (std::int64_t n = 0; n < shape.batch; ++n) {
      for (std::int64_t key = 0; key < shape.seq_k; ++key) {
        bool seen = false;
        for (std::int64_t query = 0; query < shape.seq_q; ++query) seen = seen || shape.sees(n, query, key);
        if (seen) continue;
        for (const char* name : {"k", "v"})
          std::fill_n(inputs.at(name).data.begin() + (n * shape.seq_k + key) * 64, 64, kNaN);
      }
    }
    const VariantResult result = run_on(shape, inputs);
    for (const float o : result.outputs.at("o").data) ASSERT_FALSE(std::isnan(o)) << text(shape);
    for (const float lse : result.outputs.at("lse").data) ASSERT_FALSE(std::isnan(lse)) << text(shape);
  }
}

// A NaN at a key that most queries do not see. The other head of K and V, and the queries that read it, are
// not touched.
TEST_P(MaskedVariant, SLOW_LetsNaNOfAHiddenKeySpreadWithinItsHead) {
  Shape causal{{.heads = 4,
                .kv_heads = 2,
                .seq_q = 130,
                .seq_k = 130,
                .head_dim = 64,
                .causal = true,
                .dtype = DType::kBFloat16}};
  Shape window = causal;
  window.window = 40;
  Shape blocks{
      {.heads = 4, .kv_heads = 2, .seq_q = 128, .seq_k = 128, .head_dim = 64, .dtype = DType::kBFloat16}};
  blocks.block_mask = blocks_where(blocks, 1, 64, [](auto, auto row, auto col) { return row >= col; });
  for (Shape shape : {causal, window, blocks}) {
    for (const bool backward : {false, true}) {
      shape.backward = backward;
      if (!takes(shape)) continue;
      for (const char* name : {"k", "v"}) {
        TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 5);
        inputs.at(name).data[std::size_t(shape.seq_k - 1) * 64] = kNaN;
        EXPECT_EQ(run_on(shape, inputs).complaint(), "") << text(shape) << ' ' << name;
      }
    }
  }
}

TEST_P(MaskedVariant, PassesNaNOnToItsQueryAndNoOther) {
  Shape shape{{.seq_q = 64, .seq_k = 128, .head_dim = 64, .dtype = DType::kBFloat16}};
  shape.block_mask = blocks_where(shape, 1, 64, [](auto, auto, auto) { return true; });
  TensorMap inputs = random_inputs<MaskedAttention>(shape, Init::kNormal, 5);
  inputs.at("q").data[7 * 64 + 3] = kNaN;
  const VariantResult result = run_on(shape, inputs);
  for (std::size_t query = 0; query < 64; ++query) {
    EXPECT_EQ(std::isnan(result.outputs.at("lse").data[query]), query == 7) << query;
    for (std::size_t col = 0; col < 64; ++col)
      ASSERT_EQ(std::isnan(result.outputs.at("o").data[query * 64 + col]), query == 7) << query << ' ' << col;
  }
}

TEST_P(MaskedVariant, IsRightOrRefuses) {
  Shape shape{{.seq_q = 64, .seq_k = 64, .head_dim = 64, .dtype = DType::kBFloat16}};
  shape.block_mask = blocks_where(shape, 1, 64, [](auto, auto, auto) { return true; });
  const auto expect_refused = [&](const std::string& refusal, const Shape& refused) {
    try {
      run_on(refused, random_inputs<MaskedAttention>(refused, Init::kNormal, 5));
      ADD_FAILURE() << "not refused: " << text(refused);
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()).find(refusal), 0u) << error.what();
    }
  };
  for (const std::int64_t head_dim : {1, 20, 136, 256}) {
    Shape wide = shape;
    wide.head_dim = head_dim;
    expect_refused("--head-dim is " + std::to_string(head_dim) + ": must be ", wide);
  }
  Shape fp32 = shape;
  fp32.dtype = DType::kFloat32;
  expect_refused("--dtype is fp32: this variant takes ", fp32);
  Shape dropped = shape;
  dropped.dropout = 0.1;
  if (GetParam() != "dropout") expect_refused("--dropout is given", dropped);
  Shape capped = shape;
  capped.softcap = 5;
  if (GetParam() != "scores") expect_refused("--softcap is given", capped);
  Shape biased = shape;
  biased.alibi = true;
  if (GetParam() != "scores") expect_refused("--alibi is given", biased);
  Shape with_sinks = shape;
  with_sinks.sinks = sinks({0.0f});
  const std::string taking = " compressed deterministic hopper dropout scores ";
  if (taking.find(' ' + GetParam() + ' ') == std::string::npos)
    expect_refused("--sinks is given", with_sinks);
}

TEST(MaskedProgram, RefusesScalesThatFp32CannotHold) { expect_bad_scales_refused(chapter()); }

INSTANTIATE_TEST_SUITE_P(Every, MaskedVariant, testing::ValuesIn(variant_names(chapter())),
                         [](const auto& variant) { return variant.param; });

}  // namespace
}  // namespace fa
