#include "attention/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "attention/inputs.hpp"

namespace fa {
namespace {

Tensor random(const char* name, std::vector<std::int64_t> shape) {
  return random_tensor({.name = name, .shape = std::move(shape)}, Init::kNormal, 7);
}

/// The logits computed from the definition, one element at a time.
void expect_logits(const AttentionShape& shape) {
  const Tensor q = random("q", {shape.batch, shape.heads, shape.seq_q, shape.head_dim});
  const Tensor k = random("k", {shape.batch, shape.kv_heads, shape.seq_k, shape.head_dim});
  const Tensor x = logits(shape, q, k);
  ASSERT_EQ(x.shape, (std::vector<std::int64_t>{shape.batch * shape.heads * shape.seq_q, shape.seq_k}));
  std::size_t element = 0;
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
      for (std::int64_t query = 0; query < shape.seq_q; ++query) {
        for (std::int64_t key = 0; key < shape.seq_k; ++key, ++element) {
          double dot = 0;
          for (std::int64_t d = 0; d < shape.head_dim; ++d) {
            dot += double(q.data[std::size_t(
                       ((batch * shape.heads + head) * shape.seq_q + query) * shape.head_dim + d)]) *
                   k.data[std::size_t(
                       ((batch * shape.kv_heads + kv_head) * shape.seq_k + key) * shape.head_dim + d)];
          }
          const bool hidden = shape.causal && key > query + shape.seq_k - shape.seq_q;
          const double expected =
              hidden ? -std::numeric_limits<double>::infinity() : shape.logit_scale() * dot;
          if (hidden) {
            ASSERT_EQ(x.data[element], expected);
          } else {
            ASSERT_NEAR(x.data[element], expected, 1e-6)
                << batch << ' ' << head << ' ' << query << ' ' << key;
          }
        }
      }
    }
  }
}

TEST(Logits, FollowTheDefinition) {
  expect_logits({.seq_q = 1, .seq_k = 1, .head_dim = 1});
  expect_logits({.batch = 2, .heads = 3, .kv_heads = 3, .seq_q = 65, .seq_k = 33, .head_dim = 32});
  expect_logits({.seq_q = 130, .seq_k = 7, .head_dim = 5, .scale = 0.25});
}

TEST(Logits, GroupedQueriesShareKeys) {
  expect_logits({.batch = 2, .heads = 6, .kv_heads = 2, .seq_q = 5, .seq_k = 9, .head_dim = 8});
  expect_logits({.batch = 2, .heads = 4, .kv_heads = 1, .seq_q = 70, .seq_k = 3, .head_dim = 4});
}

TEST(Logits, CausalMaskIsAlignedAtTheBottomRight) {
  expect_logits({.seq_q = 70, .seq_k = 70, .head_dim = 4, .causal = true});
  expect_logits({.seq_q = 3, .seq_k = 80, .head_dim = 4, .causal = true});
  expect_logits({.seq_q = 80, .seq_k = 3, .head_dim = 4, .causal = true});  // rows that see no key
}

TEST(Logits, RefuseTensorsOfAnotherShape) {
  const AttentionShape shape{.heads = 2, .kv_heads = 2, .seq_q = 3, .seq_k = 4, .head_dim = 5};
  const Tensor q = random("q", {1, 2, 3, 5}), k = random("k", {1, 2, 4, 5});
  EXPECT_NO_THROW(logits(shape, q, k));
  EXPECT_THROW(logits(shape, k, k), std::invalid_argument);
  EXPECT_THROW(logits(shape, q, q), std::invalid_argument);
}

TEST(AttentionShape, ScaleDefaultsToTheRootOfTheHeadDimension) {
  EXPECT_DOUBLE_EQ(AttentionShape{.head_dim = 64}.logit_scale(), 0.125);
  EXPECT_DOUBLE_EQ((AttentionShape{.head_dim = 64, .scale = 3}.logit_scale()), 3);
}

TEST(AttentionShape, RefusesWhatCannotBeComputed) {
  EXPECT_EQ(refuse(AttentionShape{}), std::nullopt);
  EXPECT_EQ(refuse({.heads = 6, .kv_heads = 2}), std::nullopt);
  EXPECT_EQ(refuse({.heads = 6, .kv_heads = 4}).value().message(),
            "--heads is 6: must be a multiple of --kv-heads, which is 4");
  EXPECT_EQ(refuse({.batch = 0}).value().message(), "--batch is 0: must be from 1 to 2147483647");
  EXPECT_EQ(refuse({.kv_heads = 0}).value().message(), "--kv-heads is 0: must be from 1 to 2147483647");
  EXPECT_EQ(refuse({.head_dim = -1}).value().message(), "--head-dim is -1: must be from 1 to 2147483647");
  EXPECT_EQ(refuse({.scale = 0.0}).value().message(), "--scale is 0: must be from 1.2e-38 to 2.3e+38");
  EXPECT_NE(refuse({.scale = std::nan("")}), std::nullopt);
  EXPECT_NE(refuse({.scale = HUGE_VAL}), std::nullopt);
}

TEST(AttentionShape, RefusesScalesThatFp32CannotHold) {
  for (const double scale : {1.2e-38, 2.3e38}) EXPECT_EQ(refuse({.scale = scale}), std::nullopt) << scale;
  EXPECT_EQ(refuse({.scale = 1e-46}).value().message(), "--scale is 1e-46: must be from 1.2e-38 to 2.3e+38");
  EXPECT_EQ(refuse({.scale = 2.4e38}).value().message(),  // times log2 e, it is infinite
            "--scale is 2.4e+38: must be from 1.2e-38 to 2.3e+38");
}

/// Which query tiles and key tiles meet, by the definition of the mask.
void expect_tiles(const AttentionShape& shape, std::int64_t Br, std::int64_t Bc) {
  const auto sees = [&](std::int64_t query, std::int64_t key) {
    return !shape.causal || key <= query + shape.seq_k - shape.seq_q;
  };
  std::int64_t keys = 0;
  for (std::int64_t first = 0; first < shape.seq_q; first += Br) {
    const std::int64_t last = std::min(first + Br, shape.seq_q) - 1;
    for (std::int64_t key = 0; key < shape.seq_k; ++key) keys += sees(last, key);
  }
  EXPECT_EQ(shape.keys_of_query_tiles(Br), keys);

  std::int64_t queries = 0;
  for (std::int64_t first_key = 0; first_key < shape.seq_k; first_key += Bc) {
    std::int64_t of_tile = 0;
    for (std::int64_t first = 0; first < shape.seq_q; first += Br) {
      const std::int64_t end = std::min(first + Br, shape.seq_q);
      if (sees(end - 1, first_key)) of_tile += end - first;
    }
    EXPECT_EQ(shape.queries_of_key_tile(first_key, Br), of_tile) << "first key " << first_key;
    queries += of_tile;
  }
  EXPECT_EQ(shape.queries_of_key_tiles(Br, Bc), queries);
}

TEST(Tiles, ReadWhatTheirQueriesSee) {
  for (const auto& [seq_q, seq_k] : {std::pair{1, 1}, {64, 64}, {65, 63}, {200, 7}, {7, 200}, {130, 130}}) {
    for (const bool causal : {false, true}) {
      for (const auto& [Br, Bc] : {std::pair{1, 1}, {16, 64}, {64, 32}, {64, 64}}) {
        SCOPED_TRACE(testing::Message()
                     << seq_q << " x " << seq_k << " causal " << causal << " Br " << Br << " Bc " << Bc);
        expect_tiles({.seq_q = seq_q, .seq_k = seq_k, .causal = causal}, Br, Bc);
      }
    }
  }
}

TEST(Tiles, AttentionTrafficReadsKeysOncePerQueryTile) {
  const AttentionShape shape{
      .batch = 2, .heads = 4, .kv_heads = 2, .seq_q = 100, .seq_k = 100, .head_dim = 8, .causal = true};
  AttentionShape half = shape;
  half.dtype = DType::kFloat16;
  const std::int64_t rows = 2 * 4 * 100;
  const std::int64_t keys = 2 * 4 * (64 + 100);  // of the blocks of queries 0 .. 63 and 64 .. 99
  const auto bytes = [&](std::int64_t element) {
    return std::map<std::string, TensorTraffic>{{"q", {.read_bytes = rows * 8 * element}},
                                                {"k", {.read_bytes = keys * 8 * element}},
                                                {"v", {.read_bytes = keys * 8 * element}},
                                                {"o", {.write_bytes = rows * 8 * element}},
                                                {"lse", {.write_bytes = rows * 4}}};
  };
  EXPECT_EQ(attention_traffic(shape, 64).tensors, bytes(4));
  EXPECT_EQ(attention_traffic(half, 64).tensors, bytes(2));
}

}  // namespace
}  // namespace fa
