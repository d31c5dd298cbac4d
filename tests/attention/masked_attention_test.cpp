#include "attention/masked_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/dropout.cuh"
#include "device/philox.cuh"
#include "masked_definition.hpp"

namespace fa {
namespace {

/// Whether a query sees a key, from the words of the options.
bool sees_by_definition(const MaskedShape& shape, std::int64_t batch, std::int64_t head, std::int64_t query,
                        std::int64_t key) {
  const std::int64_t distance =
      query + shape.seq_k - shape.seq_q - key;  // from the key to where the query stands
  bool sees = true;
  if (shape.causal) sees = sees && distance >= 0;
  if (shape.window) sees = sees && -*shape.window < distance && distance < *shape.window;
  if (shape.documents) {
    const Numbers& of_keys = shape.key_documents ? *shape.key_documents : *shape.documents;
    sees = sees && shape.documents->at(std::size_t(query)) == of_keys.at(std::size_t(key));
  }
  if (shape.key_lengths) sees = sees && key < shape.key_lengths->at(std::size_t(batch));
  if (shape.block_mask) {
    const BlockPattern& mask = *shape.block_mask;
    const std::int64_t of_head = mask.heads > 1 ? head : 0;
    const std::int64_t block = (of_head * mask.rows + query / mask.size) * mask.cols + key / mask.size;
    sees = sees && mask.blocks.at(std::size_t(block)) == 1;
  }
  return sees;
}

Reference by_definition(const MaskedShape& shape, const TensorMap& inputs) {
  return by_definition(shape, inputs, [&](auto batch, auto head, auto query, auto key) {
    return sees_by_definition(shape, batch, head, query, key);
  });
}

/// Which masks a problem has, as bits.
enum Features {
  kCausal = 1,
  kWindow = 2,
  kDocuments = 4,
  kKeyLengths = 8,
  kBlocks = 16,
  kDropout = 32,
  kSoftcap = 64,
  kAlibi = 128,
  kSinks = 256,
  kAll = 511,
};

/// A problem with these masks, whose sizes are random as well.
MaskedShape random_problem(unsigned features, unsigned seed) {
  std::mt19937 random(seed * 1000 + features);
  const auto from_to = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  const std::int64_t kv_heads = from_to(1, 2), longest = features & kBlocks ? 140 : 70;
  const std::int64_t seq_q = from_to(1, longest);
  MaskedShape shape = shape_of({.batch = from_to(1, 2),
                                .heads = kv_heads * from_to(1, 2),
                                .kv_heads = kv_heads,
                                .seq_q = seq_q,
                                .seq_k = from_to(0, 1) ? seq_q : from_to(1, longest),
                                .head_dim = from_to(1, 2),
                                .causal = (features & kCausal) != 0});
  if (features & kWindow) shape.window = from_to(1, 70);
  if (features & kDocuments) {
    const auto documents = [&](std::int64_t tokens) {
      Numbers of_tokens = {0};
      while (std::int64_t(of_tokens.size()) < tokens)
        of_tokens.push_back(of_tokens.back() + (from_to(0, 20) == 0 ? 1 : 0));
      return numbers(of_tokens);
    };
    shape.documents = documents(seq_q);
    if (shape.seq_k != seq_q) shape.key_documents = documents(shape.seq_k);
  }
  if (features & kKeyLengths) {
    Numbers lengths;
    for (std::int64_t batch = 0; batch < shape.batch; ++batch)
      lengths.push_back(std::int32_t(from_to(0, shape.seq_k)));
    shape.key_lengths = numbers(lengths);
  }
  if (features & kBlocks) {
    BlockPattern mask{
        .heads = from_to(0, 1) ? shape.heads : 1, .size = from_to(0, 1) ? 64 : 128, .blocks = {}};
    mask.rows = (shape.seq_q + mask.size - 1) / mask.size;
    mask.cols = (shape.seq_k + mask.size - 1) / mask.size;
    for (std::int64_t block = 0; block < mask.heads * mask.rows * mask.cols; ++block)
      mask.blocks.push_back(std::uint8_t(from_to(0, 1)));
    shape.block_mask = std::make_shared<const BlockPattern>(mask);
  }
  if (features & kDropout) {
    shape.dropout = double(from_to(1, 90)) / 100;
    shape.dropout_seed = std::uint64_t(from_to(0, std::numeric_limits<std::int64_t>::max()));
  }
  if (features & kSoftcap) shape.softcap = 0.5 + double(from_to(0, 3));
  if ((features & kAlibi) != 0 && from_to(0, 1)) {
    std::vector<float> slopes;
    for (std::int64_t head = 0; head < shape.heads; ++head) slopes.push_back(float(from_to(-5, 20)) / 16);
    shape.alibi_slopes = std::make_shared<const std::vector<float>>(slopes);
  } else {
    shape.alibi = (features & kAlibi) != 0;
  }
  if (features & kSinks) {
    std::vector<float> of_heads;
    for (std::int64_t head = 0; head < shape.heads; ++head)
      of_heads.push_back(from_to(0, 3) == 0 ? -std::numeric_limits<float>::infinity()
                                            : float(from_to(-40, 60)) / 10);
    shape.sinks = sinks(of_heads);
  }
  return shape;
}

TEST(MaskedReference, FollowsTheDefinitionForEveryCombinationOfMasks) {
  for (unsigned features = 0; features <= kAll; ++features) {
    MaskedShape shape = random_problem(features, 1);
    ASSERT_EQ(MaskedAttention::refuse(shape), std::nullopt) << features;
    shape.backward = true;
    const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, features);
    const Reference expected = by_definition(shape, inputs);
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(features);
      shape.backward = backward;
      const Reference got = MaskedAttention::reference(shape, inputs);
      EXPECT_EQ(got.size(), !backward ? 2u : shape.sinks ? 4u : 3u);
      for (const auto& [name, values] : got) expect_near(values, expected.at(name), name);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(MaskedReference, WithoutMasksIsAttention) {
  MaskedShape shape = shape_of({.batch = 2,
                                .heads = 4,
                                .kv_heads = 2,
                                .seq_q = 70,
                                .seq_k = 130,
                                .head_dim = 8,
                                .causal = true,
                                .dtype = DType::kBFloat16});
  const TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 1);
  const Reference forward = MaskedAttention::reference(shape, inputs);
  for (const auto& [name, values] : AttentionForward::reference(shape, inputs))
    expect_near(forward.at(name), values, name);
  shape.backward = true;
  const Reference backward = MaskedAttention::reference(shape, inputs);
  for (const auto& [name, values] : AttentionBackward::reference(shape, inputs))
    expect_near(backward.at(name), values, name);
}

TEST(MaskedShape, SeenKeysAreThoseThatEachQuerySees) {
  for (unsigned features = 0; features < kDropout; ++features) {
    const MaskedShape shape = random_problem(features, 2);
    std::int64_t pairs = 0;
    for (std::int64_t head = 0; head < shape.batch * shape.heads; ++head) {
      for (std::int64_t query = 0; query < shape.seq_q; ++query) {
        std::vector<bool> seen(std::size_t(shape.seq_k));
        const KeyRange part = {query % 50, shape.seq_k - query % 7};
        for (const KeyRange& keys : shape.seen_keys(head, query, part)) {
          ASSERT_LT(keys.first, keys.end);
          ASSERT_TRUE(keys.first == 0 || !seen[std::size_t(keys.first - 1)]) << "two ranges without a gap";
          for (std::int64_t key = keys.first; key < keys.end; ++key) seen.at(std::size_t(key)) = true;
        }
        for (std::int64_t key = 0; key < shape.seq_k; ++key) {
          const bool expected = sees_by_definition(shape, head / shape.heads, head % shape.heads, query, key);
          pairs += expected;
          ASSERT_EQ(shape.sees(head, query, key), expected) << features << " " << query << " " << key;
          ASSERT_EQ(seen[std::size_t(key)], expected && key >= part.first && key < part.end)
              << features << " " << query << " " << key;
        }
      }
    }
    EXPECT_EQ(shape.seen_pairs(), pairs) << features;
    EXPECT_EQ(MaskedAttention::flops(shape), 4.0 * double(pairs * shape.head_dim));
  }
}

/// sum(dO * O): the loss whose gradient with respect to O is dO.
double loss(MaskedShape shape, const TensorMap& inputs) {
  shape.backward = false;
  const Reference forward = MaskedAttention::reference(shape, inputs);
  double sum = 0;
  for (std::size_t i = 0; i < forward.at("o").size(); ++i)
    sum += forward.at("o")[i] * double(inputs.at("do").data[i]);
  return sum;
}

/// The central difference of a function of a number of steps, of fourth order. @param width  of a step
template <class F>
double central_difference(F loss_at, double width) {
  return (8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * width);
}

/// Compares every gradient with central differences of the float64 forward pass.
void expect_differences(MaskedShape shape) {
  shape.backward = true;
  TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 5);
  for (const char* name : {"q", "k", "v", "do"}) {  // so that a step of 1/128 up or down is exact in fp32
    for (float& x : inputs.at(name).data) x = std::round(x * 1024.0f) / 1024.0f;
  }
  const Reference gradients = MaskedAttention::reference(shape, inputs);
  constexpr float kStep = 0x1p-7f;
  for (const std::string name : {"q", "k", "v"}) {
    const std::vector<double>& gradient = gradients.at("d" + name);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto loss_at = [&](int steps) {
        TensorMap moved = inputs;
        moved.at(name).data[i] += float(steps) * kStep;
        return loss(shape, moved);
      };
      ASSERT_NEAR(gradient[i], central_difference(loss_at, kStep), 4e-7) << "d" << name << " " << i;
    }
  }
  if (!shape.sinks) return;
  for (std::size_t head = 0; head < shape.sinks->size(); ++head) {
    const auto loss_at = [&](int steps) {
      std::vector<float> moved = *shape.sinks;
      moved[head] += float(steps) * kStep;
      MaskedShape other = shape;
      other.sinks = sinks(moved);
      return loss(other, inputs);
    };
    ASSERT_NEAR(gradients.at("dsinks")[head], central_difference(loss_at, kStep), 4e-7) << head;
  }
}

TEST(MaskedShape, TakesAnyWindow) {
  const MaskedShape all = shape_of({.seq_q = 5, .seq_k = 7, .head_dim = 2});
  const TensorMap inputs = MaskedAttention::random_inputs(all, Init::kNormal, 1);
  for (const std::int64_t window :
       {std::int64_t(12), std::int64_t(1) << 32, std::numeric_limits<std::int64_t>::max()}) {
    MaskedShape shape = all;
    shape.window = window;
    EXPECT_EQ(shape.seen_pairs(), 5 * 7) << window;
    EXPECT_TRUE(shape.sees(0, 0, 6));
    EXPECT_EQ(MaskedAttention::reference(shape, inputs), MaskedAttention::reference(all, inputs));
  }
}

TEST(MaskedReference, GradientsAreTheDerivativesOfTheForwardPass) {
  const AttentionShape small = {.batch = 2, .heads = 2, .kv_heads = 1, .seq_q = 5, .seq_k = 5, .head_dim = 2};
  const auto expect = [&](auto change) {
    MaskedShape shape = shape_of(small);
    change(shape);
    expect_differences(shape);
  };
  expect([](MaskedShape& shape) { shape.window = 2; });
  expect([](MaskedShape& shape) { shape.documents = numbers({0, 0, 1, 1, 1}); });
  expect([](MaskedShape& shape) { shape.key_lengths = numbers({0, 3}); });
  expect([](MaskedShape& shape) { shape.dropout = 0.4; });
  expect([](MaskedShape& shape) { shape.softcap = 0.8; });
  expect([](MaskedShape& shape) { shape.alibi = true; });
  expect([](MaskedShape& shape) { shape.sinks = sinks({0.5f, -1}); });
  expect([](MaskedShape& shape) {
    shape.alibi_slopes = std::make_shared<const std::vector<float>>(std::vector<float>{0.5f, -0.25f});
    shape.documents = numbers({0, 0, 1, 1, 1});
    shape.key_documents = numbers({0, 1, 1, 1, 3});
  });
  expect([](MaskedShape& shape) {
    shape.causal = true;
    shape.window = 3;
    shape.key_lengths = numbers({5, 4});
    shape.dropout = 0.25;
    shape.dropout_seed = 3;
    shape.softcap = 1.5;
    shape.alibi = true;
    shape.sinks = sinks({-0.25f, 2});
  });
}

TEST(MaskedReference, QueriesThatSeeNothingAreZero) {
  MaskedShape shape =
      shape_of({.batch = 2, .heads = 1, .kv_heads = 1, .seq_q = 3, .seq_k = 4, .head_dim = 2});
  shape.key_lengths = numbers({0, 4});
  TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
  const Reference forward = MaskedAttention::reference(shape, inputs);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(forward.at("o")[i], 0);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(forward.at("lse")[i], -kInf);
  for (std::size_t i = 3; i < 6; ++i) EXPECT_TRUE(std::isfinite(forward.at("lse")[i]));
  shape.backward = true;
  inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
  const Reference backward = MaskedAttention::reference(shape, inputs);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(backward.at("dq")[i], 0);
  for (const char* name : {"dk", "dv"}) {
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(backward.at(name)[i], 0) << name;
    for (std::size_t i = 8; i < 16; ++i) EXPECT_NE(backward.at(name)[i], 0) << name;
  }
}

TEST(MaskedReference, SinksTakePartInTheSumAlone) {
  MaskedShape shape =
      shape_of({.batch = 2, .heads = 3, .kv_heads = 1, .seq_q = 2, .seq_k = 3, .head_dim = 2});
  shape.key_lengths = numbers({0, 3});
  const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
  const Reference without = MaskedAttention::reference(shape, inputs);
  shape.sinks = sinks({1.5f, -std::numeric_limits<float>::infinity(), 1e4f});
  const Reference with = MaskedAttention::reference(shape, inputs);
  for (std::size_t row = 0; row < 12; ++row) {
    const double sink = shape.sinks->at(row / 2 % 3);
    const double lse = without.at("lse")[row],
                 expected = sink == 1e4 ? sink : std::log(std::exp(lse) + std::exp(sink));
    if (std::isinf(expected)) {
      EXPECT_EQ(with.at("lse")[row], expected);
    } else {
      EXPECT_NEAR(with.at("lse")[row], expected, 1e-12);
    }
    for (const std::size_t i : {2 * row, 2 * row + 1}) {
      const double share = row < 6 ? 0 : std::exp(lse - expected);
      EXPECT_NEAR(with.at("o")[i], share * without.at("o")[i], 1e-12) << row;
    }
  }
}

TEST(MaskedReference, WhatKeysHoldThatDoNotExistCountsNothing) {
  MaskedShape shape = shape_of({.seq_q = 3, .seq_k = 5, .head_dim = 2});
  shape.key_lengths = numbers({3});
  for (const bool backward : {false, true}) {
    shape.backward = backward;
    TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
    const Reference before = MaskedAttention::reference(shape, inputs);
    for (const char* name : {"k", "v"}) {
      for (std::size_t i = 6; i < 10; ++i) inputs.at(name).data[i] = std::numeric_limits<float>::quiet_NaN();
    }
    EXPECT_EQ(MaskedAttention::reference(shape, inputs), before);
  }
}

TEST(MaskedReference, DropoutChangesNeitherLseNorARowThatKeepsAllItsElements) {
  MaskedShape shape = shape_of({.heads = 2, .kv_heads = 2, .seq_q = 40, .seq_k = 6, .head_dim = 4});
  const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
  const Reference without = MaskedAttention::reference(shape, inputs);
  shape.dropout = 0.25;
  const Reference with = MaskedAttention::reference(shape, inputs);
  EXPECT_EQ(with.at("lse"), without.at("lse"));
  int whole = 0;
  for (std::int64_t row = 0; row < 80; ++row) {
    int kept = 0;
    for (std::int64_t key = 0; key < 6; ++key) kept += shape.keeps(row / 40, row % 40, key);
    for (std::int64_t col = 0; col < 4; ++col) {
      const auto i = std::size_t(row * 4 + col);
      if (kept == 6) {
        EXPECT_NEAR(with.at("o")[i], without.at("o")[i] / 0.75, 1e-13);
      }
    }
    whole += kept == 6;
  }
  EXPECT_GT(whole, 0);
}

// ---- ends, tensors

TEST(MaskedEnds, AreAProblemOfTheirOwn) {
  unsigned seed = 0;
  for (const unsigned features :
       {kAll + 0u, kBlocks + 0u, kDropout + 0u, kAlibi + 0u, kKeyLengths + 0u, kSinks + 0u}) {
    for (int repeat = 0; repeat < 8; ++repeat) {
      MaskedShape shape = random_problem(features, ++seed);
      shape.batch = 1 + seed % 3;
      shape.kv_heads = 1 + seed / 3 % 3;
      shape.heads = shape.kv_heads * (1 + seed % 2);
      if (features & kKeyLengths) {
        Numbers lengths;
        for (std::int64_t batch = 0; batch < shape.batch; ++batch)
          lengths.push_back(std::int32_t(shape.seq_k - batch % shape.seq_k));
        shape.key_lengths = numbers(lengths);
      }
      if (features & kBlocks) {
        BlockPattern mask = *shape.block_mask;
        mask.heads = shape.heads;
        mask.blocks.clear();
        for (std::int64_t block = 0; block < mask.heads * mask.rows * mask.cols; ++block)
          mask.blocks.push_back(std::uint8_t((block * 7 + seed) % 3 > 0));
        shape.block_mask = std::make_shared<const BlockPattern>(mask);
      }
      if (features & kSinks) {
        std::vector<float> of_heads;
        for (std::int64_t head = 0; head < shape.heads; ++head) of_heads.push_back(float(head) - 1);
        shape.sinks = sinks(of_heads);
      }
      if (shape.alibi_slopes) {
        std::vector<float> slopes;
        for (std::int64_t head = 0; head < shape.heads; ++head) slopes.push_back(float(head + 1) / 8);
        shape.alibi_slopes = std::make_shared<const std::vector<float>>(slopes);
      }
      shape.backward = repeat % 2 == 1;
      const Excerpt<MaskedShape> ends = MaskedAttention::ends(shape);
      EXPECT_EQ(ends.shape.kv_heads, 1);
      const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 3);
      TensorMap whole;
      const Reference reference = MaskedAttention::reference(shape, inputs);
      for (const TensorSpec& spec : MaskedAttention::outputs(shape)) {
        const std::vector<double>& values = reference.at(spec.name);
        whole[spec.name] = {.shape = spec.shape, .data = {values.begin(), values.end()}};
      }
      const TensorMap cut = ends.cut(whole), cut_inputs = ends.cut(inputs);
      for (const TensorSpec& spec : MaskedAttention::inputs(ends.shape)) {
        if (spec.name == "block_mask") continue;  // of all heads: heads of different batches may be left
        EXPECT_EQ(cut_inputs.at(spec.name).shape, spec.shape) << spec.name;
      }
      const Reference alone = MaskedAttention::reference(ends.shape, cut_inputs);
      for (const TensorSpec& spec : MaskedAttention::outputs(ends.shape)) {
        const std::vector<double>& values = alone.at(spec.name);
        EXPECT_EQ(cut.at(spec.name).shape, spec.shape) << spec.name;
        EXPECT_EQ(cut.at(spec.name).data, std::vector<float>(values.begin(), values.end()))
            << spec.name << " " << features << " " << repeat;
      }
    }
  }
}

TEST(MaskedAttention, MasksAreInputs) {
  MaskedShape shape =
      shape_of({.batch = 2, .heads = 3, .kv_heads = 3, .seq_q = 100, .seq_k = 100, .head_dim = 8});
  shape.backward = true;
  shape.documents = numbers(Numbers(100, 0));
  shape.key_lengths = numbers({0, 100});
  shape.block_mask = std::make_shared<const BlockPattern>(BlockPattern{
      .heads = 3, .rows = 2, .cols = 2, .size = 64, .blocks = {1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}});
  shape.sinks = sinks({1, -2, 0.5f});
  std::string names;
  for (const TensorSpec& spec : MaskedAttention::inputs(shape))
    names += spec.name + " " + std::string(name_of(spec.dtype)) + " ";
  EXPECT_EQ(names,
            "q fp32 k fp32 v fp32 do fp32 documents int32 key_lengths int32 block_mask uint8 sinks fp32 ");
  EXPECT_EQ(MaskedAttention::outputs(shape).back().name, "dsinks");
  const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
  EXPECT_EQ(inputs.at("key_lengths").data, (std::vector<float>{0, 100}));
  EXPECT_EQ(inputs.at("block_mask").shape, (std::vector<std::int64_t>{3, 2, 2}));
  EXPECT_EQ(inputs.at("documents").data, std::vector<float>(100, 0));
  EXPECT_EQ(inputs.at("sinks").data, *shape.sinks);
}

// ---- tolerances

TEST(MaskedAttention, ZerosOfDqAndDkAreNotMeasuredRelatively) {
  MaskedShape shape = shape_of({.seq_q = 6, .seq_k = 6, .head_dim = 4, .dtype = DType::kBFloat16});
  shape.backward = true;
  const auto measure = [&] { return MaskedAttention::tolerances(shape).at("dq").measure; };
  EXPECT_EQ(measure(), Measure::kRelL2);
  shape.window = 1;
  EXPECT_EQ(measure(), Measure::kMaxAbs);
  const double without = MaskedAttention::tolerances(shape).at("dk").limit;
  shape.dropout = 0.75;
  EXPECT_EQ(MaskedAttention::tolerances(shape).at("dk").limit, 4 * without);
  shape.window = 2;
  EXPECT_EQ(measure(), Measure::kRelL2);
  shape.window.reset();
  shape.documents = numbers({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(measure(), Measure::kMaxAbs);
  MaskedShape with_sinks = shape;  // a key and a sink: P is not always 1
  with_sinks.sinks = sinks({0.0f, 1.0f});
  for (const char* name : {"dq", "dsinks"})
    EXPECT_EQ(MaskedAttention::tolerances(with_sinks).at(name).measure, Measure::kRelL2) << name;
  shape.documents = numbers({0, 1, 2, 3, 4, 4});
  EXPECT_EQ(measure(), Measure::kRelL2);
  EXPECT_EQ(MaskedAttention::tolerances(shape).at("dv").measure, Measure::kRelL2);
}

TEST(MaskedAttention, ZerosOfDqMayBeLargerIfKeysAre) {
  MaskedShape shape = shape_of({.seq_q = 6, .seq_k = 6, .head_dim = 4, .dtype = DType::kBFloat16});
  shape.backward = true;
  shape.window = 1;
  TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
  const auto limit = [&] {
    const Reference expected = MaskedAttention::reference(shape, inputs);
    return MaskedAttention::tolerances(shape, inputs, expected).at("dq").limit;
  };
  const double for_all = MaskedAttention::tolerances(shape).at("dq").limit;
  EXPECT_EQ(limit(), for_all);
  for (float& x : inputs.at("k").data) x *= 1000;
  EXPECT_GT(limit(), 5 * for_all);
}

// The only row of a head has a D that is near 0: what rounding O costs is more than any fraction of it.
TEST(MaskedAttention, GradientsOfSinksMayBeOffByWhatRoundingOCosts) {
  MaskedShape shape =
      shape_of({.heads = 1, .kv_heads = 1, .seq_q = 1, .seq_k = 2, .head_dim = 2, .dtype = DType::kBFloat16});
  shape.backward = true;
  shape.sinks = sinks({1.0f});
  TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
  inputs.at("v").data = {1, 1, 1, 1};
  const auto limit = [&](float right) {
    inputs.at("do").data = {1, right};
    const Reference expected = MaskedAttention::reference(shape, inputs);
    return MaskedAttention::tolerances(shape, inputs, expected).at("dsinks").limit *
           std::abs(expected.at("dsinks")[0]);
  };
  EXPECT_NEAR(limit(-0.99609375f) / limit(-0.98046875f), 1, 0.2);  // D is five times as large
}

// ---- words on wrong elements

TEST(MaskedAttention, SaysWhichKeysAQuerySees) {
  MaskedShape shape = shape_of({.heads = 2, .kv_heads = 1, .seq_q = 300, .seq_k = 300, .head_dim = 4});
  const TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 1);
  const auto words = [&](const char* output, std::int64_t row) {
    return MaskedAttention::describe_inputs(shape, inputs, output, {0, 0, row, 0});
  };
  EXPECT_EQ(words("o", 5), "");
  EXPECT_EQ(words("dk", 5), "");
  shape.window = 10;
  EXPECT_EQ(words("o", 5), "query 5 sees 15 of 300 keys: 0 to 14");
  EXPECT_EQ(words("dv", 5), "30 of 600 queries see key 5");
  shape.block_mask = std::make_shared<const BlockPattern>(
      BlockPattern{.rows = 3, .cols = 3, .size = 128, .blocks = {1, 0, 1, 1, 1, 1, 0, 0, 0}});
  EXPECT_EQ(words("dq", 290), "query 290 sees no key");
  shape.sinks = sinks({1, -2.5f});
  EXPECT_EQ(MaskedAttention::describe_inputs(shape, inputs, "dsinks", {1}), "the sink is -2.5");
  shape.sinks = nullptr;
  EXPECT_EQ(words("dk", 299), "no query sees key 299");
  shape.window.reset();
  EXPECT_EQ(words("o", 0), "query 0 sees 172 of 300 keys: 0 to 127 and 256 to 299");
  shape.block_mask = nullptr;
  shape.window = 2;
  const std::string three = words("lse", 7);
  EXPECT_EQ(three.substr(0, 53), "query 7 sees 3 of 300 keys: 6 to 8; their scores are ") << three;
}

// ---- Philox and dropout

template <int kRounds>
void expect_words(uint4 counter, uint2 key, uint4 expected) {
  const uint4 got = philox(counter, PhiloxKeys<kRounds>(key));
  EXPECT_EQ(got.x, expected.x);
  EXPECT_EQ(got.y, expected.y);
  EXPECT_EQ(got.z, expected.z);
  EXPECT_EQ(got.w, expected.w);
}

// kat_vectors of Random123, philox4x32 with 7 and with 10 rounds: zeros, ones, digits of pi.
TEST(Philox, KnownAnswers) {
  constexpr std::uint32_t kOnes = 0xffffffff;
  constexpr uint4 kOfOnes = {kOnes, kOnes, kOnes, kOnes};
  constexpr uint4 kOfPi = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  constexpr uint2 kKeyOfPi = {0xa4093822, 0x299f31d0};
  expect_words<7>({0, 0, 0, 0}, {0, 0}, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
  expect_words<7>(kOfOnes, {kOnes, kOnes}, {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662});
  expect_words<7>(kOfPi, kKeyOfPi, {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a});
  expect_words<10>({0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect_words<10>(kOfOnes, {kOnes, kOnes}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_words<10>(kOfPi, kKeyOfPi, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Dropout, OneCallDecidesSixteenElements) {
  const Dropout dropout = Dropout::of(0.3, 7);
  for (int lane = 0; lane < 32; ++lane) {
    const int row = 96 + lane / 4, col = 32 + lane % 4 * 2;
    const uint4 answer = philox(Dropout::counter(3, row, col), dropout.keys);
    const std::uint32_t words[] = {answer.x, answer.y, answer.z, answer.w};
    std::uint32_t bits[Dropout::kBits];
    for (int bit = 0; bit < Dropout::kBits; ++bit) bits[bit] = words[bit / 2] >> bit % 2 * 16;
    for (int below = 0; below < 4; ++below) {
      for (int right = 0; right < 4; ++right) {
        EXPECT_EQ(dropout.keeps(3, row + 8 * below, col + 8 * right),
                  (dropout.keeps(bits) >> Dropout::place(8 * below, 8 * right) & 1) != 0);
      }
    }
  }
}

TEST(Dropout, Compares32NumbersAtOnce) {
  for (int kept = 1; kept <= 256; ++kept) {
    const Dropout dropout = Dropout::of(1 - kept / 256.0, 1);
    ASSERT_EQ(dropout.kept, std::uint32_t(kept));
    for (std::uint32_t first = 0; first < 256; first += 32) {
      std::uint32_t bits[Dropout::kBits] = {};
      for (std::uint32_t place = 0; place < 32; ++place) {
        for (int bit = 0; bit < Dropout::kBits; ++bit) bits[bit] |= ((first + place) >> bit & 1) << place;
      }
      for (std::uint32_t place = 0; place < 32; ++place)
        ASSERT_EQ((dropout.keeps(bits) >> place & 1) != 0, first + place < dropout.kept)
            << kept << " " << first + place;
    }
  }
}

TEST(Dropout, NoTwoElementsShareTheirBits) {
  const Dropout dropout = Dropout::of(0.5, 7);
  std::set<std::pair<std::uint64_t, int>> places;  // an answer, and a place in it
  for (int head = 0; head < 2; ++head) {
    for (int row = 0; row < 64; ++row) {
      for (int col = 0; col < 64; ++col) {
        const uint4 answer = philox(Dropout::counter(head, row, col), dropout.keys);
        places.emplace(std::uint64_t(answer.x) << 32 | answer.y, Dropout::place(row, col));
      }
    }
  }
  EXPECT_EQ(places.size(), 2 * 64 * 64);
}

TEST(Dropout, EndsOfTheRange) {
  EXPECT_EQ(Dropout::of(0, 1).kept, 256u);
  EXPECT_EQ(Dropout::of(0, 1).scale, 1);
  EXPECT_EQ(Dropout::of(0.002, 1).kept, 255u);
  EXPECT_EQ(Dropout::of(0.998, 1).kept, 1u);
  EXPECT_EQ(Dropout::of(0.1, 1).kept, 230u);
  EXPECT_EQ(Dropout::of(0.75, 1).scale, 4);
}

/// What is kept of some rows and columns of some heads: 1, otherwise 0.
class Kept {
 public:
  static constexpr int kHeads = 4, kRows = 256, kCols = 256;

  Kept(double probability, std::uint64_t seed) : kept_(std::size_t(kHeads * kRows * kCols)) {
    const Dropout dropout = Dropout::of(probability, seed);
    for (int head = 0; head < kHeads; ++head) {
      for (int row = 0; row < kRows; ++row) {
        for (int col = 0; col < kCols; ++col) kept_[index(head, row, col)] = dropout.keeps(head, row, col);
      }
    }
  }

  int at(int head, int row, int col) const { return kept_[index(head, row, col)]; }

  /// Calls f(head, row, col) for all elements.
  template <class F>
  static void for_each(F f) {
    for (int head = 0; head < kHeads; ++head) {
      for (int row = 0; row < kRows; ++row) {
        for (int col = 0; col < kCols; ++col) f(head, row, col);
      }
    }
  }

 private:
  static std::size_t index(int head, int row, int col) {
    return std::size_t((head * kRows + row) * kCols + col);
  }
  std::vector<std::uint8_t> kept_;
};

constexpr double kSigmas = 4;

TEST(Dropout, KeepsTheFractionThatIsAskedFor) {
  for (const double probability : {0.05, 0.1, 0.5, 0.9}) {
    for (std::uint64_t seed : {0ull, 1ull, 0xffffffffffffffffull}) {
      const Kept kept(probability, seed);
      constexpr double kElements = Kept::kHeads * Kept::kRows * Kept::kCols;
      const double keeps = double(Dropout::of(probability, seed).kept) / Dropout::kOf;  // as rounded
      EXPECT_NEAR(keeps, 1 - probability, 0.5 / Dropout::kOf);
      const double sigma = std::sqrt(keeps * (1 - keeps));
      double sum = 0;
      std::vector<double> of_rows(Kept::kRows), of_cols(Kept::kCols),
          of_places(1024);  // in a tile of 32 x 32
      Kept::for_each([&](int head, int row, int col) {
        const int one = kept.at(head, row, col);
        sum += one;
        of_rows[std::size_t(row)] += one;
        of_cols[std::size_t(col)] += one;
        of_places[std::size_t(row % 32 * 32 + col % 32)] += one;
      });
      EXPECT_NEAR(sum, kElements * keeps, kSigmas * sigma * std::sqrt(kElements));
      for (const std::vector<double>& sums : {of_rows, of_cols, of_places}) {
        const double each = kElements / double(sums.size());
        double squares = 0;  // of standard normal numbers, about
        for (const double value : sums) squares += std::pow((value - each * keeps) / sigma, 2) / each;
        EXPECT_NEAR(squares, double(sums.size()), kSigmas * std::sqrt(2.0 * double(sums.size())));
      }
    }
  }
}

TEST(Dropout, RowsColumnsHeadsAndSeedsAreUncorrelated) {
  constexpr double kProbability = 77 / 256.0;
  const Kept kept(kProbability, 5), other_seed(kProbability, 6), other_half(kProbability, 5ull << 32);
  struct Step {
    int heads, rows, cols;
    const Kept& kept;
  };
  std::vector<Step> steps = {{0, 0, 0, other_seed}, {0, 0, 0, other_half}};
  for (int head = 1; head < Kept::kHeads; ++head) steps.push_back({head, 0, 0, kept});
  for (const int step : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 32, 64, 128}) {
    steps.push_back({0, step, 0, kept});
    steps.push_back({0, 0, step, kept});
    steps.push_back({0, step, step, kept});
    steps.push_back({1, step, 0, kept});
  }
  for (const Step& step : steps) {
    double sum = 0, count = 0;
    Kept::for_each([&](int head, int row, int col) {
      const int head2 = head + step.heads, row2 = row + step.rows, col2 = col + step.cols;
      if (head2 >= Kept::kHeads || row2 >= Kept::kRows || col2 >= Kept::kCols) return;
      sum += (kept.at(head, row, col) - (1 - kProbability)) *
             (step.kept.at(head2, row2, col2) - (1 - kProbability));
      ++count;
    });
    EXPECT_NEAR(sum / (kProbability * (1 - kProbability)), 0, kSigmas * std::sqrt(count))
        << step.heads << " " << step.rows << " " << step.cols;
  }
  // Transposed: an element and its mirror image.
  double sum = 0, count = 0;
  Kept::for_each([&](int head, int row, int col) {
    if (row <= col) return;
    sum += (kept.at(head, row, col) - (1 - kProbability)) * (kept.at(head, col, row) - (1 - kProbability));
    ++count;
  });
  EXPECT_NEAR(sum / (kProbability * (1 - kProbability)), 0, kSigmas * std::sqrt(count));
}

TEST(Dropout, TheExpectationOfOIsThatWithoutDropout) {
  MaskedShape shape = shape_of({.heads = 2, .kv_heads = 1, .seq_q = 5, .seq_k = 20, .head_dim = 4});
  const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
  const std::vector<double> expected = MaskedAttention::reference(shape, inputs).at("o");
  constexpr int kSeeds = 1000;
  shape.dropout = 0.3;
  std::vector<double> sum(expected.size()), squares(expected.size());
  for (int seed = 0; seed < kSeeds; ++seed) {
    shape.dropout_seed = std::uint64_t(seed);
    const Reference outputs = MaskedAttention::reference(shape, inputs);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += outputs.at("o")[i];
      squares[i] += outputs.at("o")[i] * outputs.at("o")[i];
    }
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double mean = sum[i] / kSeeds, variance = squares[i] / kSeeds - mean * mean;
    EXPECT_NEAR(mean, expected[i], kSigmas * std::sqrt(variance / kSeeds)) << i;
    EXPECT_GT(variance, 0);
  }
}

}  // namespace
}  // namespace fa
