#include "attention/decoding_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attention/half.hpp"

namespace fa {
namespace {

using Numbers = std::vector<std::int32_t>;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::shared_ptr<const Numbers> numbers(Numbers values) {
  return std::make_shared<const Numbers>(std::move(values));
}

std::shared_ptr<const BlockTable> table_of(const DecodingShape& shape, std::int64_t page_size, bool shared,
                                           std::uint64_t seed) {
  return std::make_shared<const BlockTable>(random_block_table(shape, page_size, shared, seed));
}

enum Features { kLengths = 1, kPages = 2, kShared = 4, kFloat8 = 8, kHalf = 16, kAll = 31 };

/// A problem with these features, whose sizes are random as well.
DecodingShape random_problem(unsigned features, unsigned seed) {
  std::mt19937 random(seed * 100 + features);
  const auto from_to = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  DecodingShape shape;
  shape.batch = from_to(1, 4);
  shape.kv_heads = from_to(1, 2);
  shape.heads = shape.kv_heads * from_to(1, 3);
  shape.seq_q = from_to(0, 1) ? 1 : from_to(1, kMostDecodingQueries);
  shape.seq_k = shape.seq_q + from_to(0, 90);
  shape.head_dim = from_to(1, 3);
  shape.dtype = features & kHalf ? DType::kBFloat16 : DType::kFloat32;
  shape.fp8 = (features & kFloat8) != 0;
  if (features & kLengths) {
    Numbers lengths;
    for (std::int64_t number = 0; number < shape.batch; ++number)
      lengths.push_back(from_to(0, 3) == 0 ? 0 : std::int32_t(from_to(shape.seq_q, shape.seq_k)));
    shape.key_lengths = numbers(lengths);
  }
  if (features & kPages) {
    const std::int64_t sizes[] = {16, 64, 256};
    shape.block_table = table_of(shape, sizes[from_to(0, 2)], (features & kShared) != 0, seed);
  }
  return shape;
}

/// O and LSE from the tensors that kernels get, one score after the other.
Reference by_definition(const DecodingShape& s, const TensorMap& inputs) {
  const std::vector<float> q = rounded_to(s.dtype, inputs.at("q").data);
  Reference outputs;
  for (std::int64_t row = 0; row < s.batch * s.heads * s.seq_q; ++row) {
    const std::int64_t batch = row / s.seq_q / s.heads, head = row / s.seq_q % s.heads, query = row % s.seq_q;
    const std::int64_t kv_head = head / (s.heads / s.kv_heads);
    const std::int64_t length = s.key_lengths ? s.key_lengths->at(std::size_t(batch)) : s.seq_k;
    const auto element = [&](const std::string& name, std::int64_t key, std::int64_t col) -> double {
      const Tensor& cache = inputs.at(name);
      std::int64_t at = batch, token = key;
      if (s.block_table) {
        const std::int64_t size = s.block_table->page_size;
        at = std::int64_t(
            inputs.at("block_table").data.at(std::size_t(batch * s.block_table->columns + key / size)));
        token = key % size;
      }
      const float x = cache.data.at(
          std::size_t(((at * s.kv_heads + kv_head) * cache.shape[2] + token) * s.head_dim + col));
      if (s.fp8) return double(x) * double(inputs.at(name + "_scale").data.at(std::size_t(kv_head)));
      return rounded_to(s.dtype, {x})[0];
    };
    std::vector<double> o(std::size_t(s.head_dim));
    double sum = 0;
    for (std::int64_t key = 0; length > 0 && key <= length - s.seq_q + query; ++key) {
      double score = 0;
      for (std::int64_t col = 0; col < s.head_dim; ++col)
        score += double(q[std::size_t(row * s.head_dim + col)]) * element("k", key, col);
      const double p = std::exp(score / std::sqrt(double(s.head_dim)));
      sum += p;
      for (std::int64_t col = 0; col < s.head_dim; ++col) o[std::size_t(col)] += p * element("v", key, col);
    }
    for (const double x : o) outputs["o"].push_back(sum > 0 ? x / sum : 0);
    outputs["lse"].push_back(sum > 0 ? std::log(sum) : -kInf);
  }
  return outputs;
}

TEST(DecodingReference, FollowsTheDefinitionForEveryKindOfCache) {
  for (unsigned features = 0; features <= kAll; ++features) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
      const DecodingShape shape = random_problem(features, seed);
      ASSERT_EQ(DecodingAttention::refuse(shape), std::nullopt) << features;
      const TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, seed);
      const Reference got = DecodingAttention::reference(shape, inputs);
      const Reference expected = by_definition(shape, inputs);
      ASSERT_EQ(got.size(), 2u);
      for (const auto& [name, values] : expected) {
        ASSERT_EQ(got.at(name).size(), values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (std::isinf(values[i])) {
            ASSERT_EQ(got.at(name)[i], values[i]) << name << ' ' << features << ' ' << seed;
          } else {
            // The reference rounds a key of an fp8 cache, times its scale, to fp32.
            ASSERT_NEAR(got.at(name)[i], values[i], shape.fp8 ? 1e-6 : 1e-11)
                << name << ' ' << features << ' ' << seed;
          }
        }
      }
    }
  }
}

TEST(DecodingReference, OfEqualLengthsIsAttentionWithACausalMask) {
  DecodingShape shape;
  shape.batch = 3, shape.heads = 4, shape.kv_heads = 2, shape.seq_q = 5, shape.seq_k = 40, shape.head_dim = 8;
  AttentionShape dense = shape;
  dense.causal = true;
  EXPECT_EQ(DecodingAttention::reference(shape, DecodingAttention::random_inputs(shape, Init::kNormal, 4)),
            AttentionForward::reference(dense, AttentionForward::random_inputs(dense, Init::kNormal, 4)));
  EXPECT_EQ(DecodingAttention::flops(shape), AttentionForward::flops(dense));
}

TEST(DecodingReference, IsTheSameWhereverPagesLie) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    DecodingShape shape = random_problem(seed % 2 == 0 ? kLengths : kLengths | kFloat8, seed);
    const auto reference = [&] {
      return DecodingAttention::reference(shape, DecodingAttention::random_inputs(shape, Init::kNormal, 4));
    };
    const Reference contiguous = reference();
    for (const std::int64_t page_size : {16, 64, 256}) {
      shape.block_table = table_of(shape, page_size, false, seed);
      EXPECT_EQ(reference(), contiguous) << page_size << ' ' << seed;
    }
  }
}

TEST(DecodingCache, HoldsNaNWhereNoSequenceHasAKey) {
  for (unsigned features = 0; features <= kAll; ++features) {
    const DecodingShape shape = random_problem(features, 7);
    const TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, 1);
    const AttentionShape cache = shape.cache();
    std::set<std::pair<std::int64_t, std::int64_t>> used;
    for (std::int64_t number = 0; number < shape.batch; ++number) {
      for (std::int64_t key = 0; key < shape.keys_of(number); ++key) used.insert(shape.place_of(number, key));
    }
    if (!(features & kShared && features & kPages)) {
      EXPECT_EQ(std::int64_t(used.size()), shape.all_keys());
    }
    for (const char* name : {"k", "v"}) {
      const Tensor& tensor = inputs.at(name);
      ASSERT_EQ(tensor.shape, cache.tensor(name).shape);
      for (std::int64_t i = 0; i < std::int64_t(tensor.data.size()); ++i) {
        const std::int64_t row = i / cache.head_dim, batch = row / cache.seq_k / cache.kv_heads;
        ASSERT_EQ(std::isnan(tensor.data[std::size_t(i)]), !used.contains({batch, row % cache.seq_k}))
            << name << ' ' << i << ' ' << features;
      }
    }
  }
}

TEST(DecodingCache, OfFloat8UsesAllOfItsRange) {
  const DecodingShape shape = [] {
    DecodingShape of = random_problem(kFloat8, 3);
    of.kv_heads = of.heads = 3;
    return of;
  }();
  const TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, 1);
  for (const char* name : {"k", "v"}) {
    const std::vector<float>& data = inputs.at(name).data;
    EXPECT_EQ(rounded_to(DType::kFloat8, data), data);
    const std::vector<float> given = AttentionForward::random_inputs(shape, Init::kNormal, 1).at(name).data;
    for (std::int64_t head = 0; head < 3; ++head) {
      float largest = 0, largest_given = 0;
      for (std::int64_t i = 0; i < std::int64_t(data.size()); ++i) {
        if (i / (shape.seq_k * shape.head_dim) % 3 != head) continue;
        largest = std::max(largest, std::abs(data[std::size_t(i)]));
        largest_given = std::max(largest_given, std::abs(given[std::size_t(i)]));
      }
      EXPECT_EQ(largest, 448.0f);
      EXPECT_FLOAT_EQ(inputs.at(std::string(name) + "_scale").data[std::size_t(head)], largest_given / 448);
    }
  }
}

TEST(DecodingCache, TablesAreInputs) {
  DecodingShape shape;
  shape.batch = 2, shape.heads = shape.kv_heads = 2, shape.seq_k = 40, shape.head_dim = 8;
  const auto names = [&] {
    std::string all;
    for (const TensorSpec& spec : DecodingAttention::inputs(shape)) {
      all += spec.name + " " + std::string(name_of(spec.dtype)) + " ";
      for (const std::int64_t length : spec.shape) all += std::to_string(length) + " ";
    }
    return all;
  };
  EXPECT_EQ(names(), "q fp32 2 2 1 8 k fp32 2 2 40 8 v fp32 2 2 40 8 ");
  shape.fp8 = true;
  shape.key_lengths = numbers({40, 17});
  shape.block_table = std::make_shared<const BlockTable>(
      BlockTable{.page_size = 16, .pages = 9, .columns = 3, .numbers = {8, 0, 3, 2, 1, -1}});
  EXPECT_EQ(names(),
            "q fp32 2 2 1 8 k fp8 9 2 16 8 v fp8 9 2 16 8 key_lengths int32 2 block_table int32 2 3 "
            "k_scale fp32 2 v_scale fp32 2 ");
  const TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, 1);
  EXPECT_EQ(inputs.at("key_lengths").data, (std::vector<float>{40, 17}));
  EXPECT_EQ(inputs.at("block_table").data, (std::vector<float>{8, 0, 3, 2, 1, -1}));
}

TEST(DecodingCache, RandomTablesHaveEachPageOnceUnlessTheyShare) {
  int shared_pages = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    DecodingShape shape = random_problem(kLengths, seed);
    for (const bool shared : {false, true}) {
      const BlockTable table = random_block_table(shape, 16, shared, seed);
      ASSERT_EQ(table.columns, tiles(shape.seq_k, 16));
      std::multiset<std::int32_t> pages;
      for (std::int64_t number = 0; number < shape.batch; ++number) {
        for (std::int64_t column = 0; column < table.columns; ++column) {
          const std::int32_t page = table.numbers[std::size_t(number * table.columns + column)];
          if (column >= tiles(shape.keys_of(number), 16)) {
            ASSERT_EQ(page, -1);
          } else {
            ASSERT_GE(page, 0);
            ASSERT_LT(page, table.pages);
            pages.insert(page);
          }
        }
      }
      const std::set<std::int32_t> different(pages.begin(), pages.end());
      ASSERT_LT(std::int64_t(different.size()), table.pages);  // some belong to no sequence
      if (shared) {
        shared_pages += int(pages.size() - different.size());
      } else {
        ASSERT_EQ(pages.size(), different.size());
      }
    }
  }
  EXPECT_GT(shared_pages, 5);
}

TEST(DecodingEnds, AreAProblemOfTheirOwn) {
  for (unsigned features = 0; features <= kAll; ++features) {
    for (unsigned seed = 1; seed <= 3; ++seed) {
      const DecodingShape shape = random_problem(features, seed);
      const Excerpt<DecodingShape> ends = DecodingAttention::ends(shape);
      EXPECT_EQ(ends.shape.batch, std::min<std::int64_t>(2, shape.batch));
      const TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, 3);
      TensorMap whole;
      const Reference reference = DecodingAttention::reference(shape, inputs);
      for (const TensorSpec& spec : DecodingAttention::outputs(shape)) {
        const std::vector<double>& values = reference.at(spec.name);
        whole[spec.name] = {.shape = spec.shape, .data = {values.begin(), values.end()}};
      }
      const TensorMap cut = ends.cut(whole), cut_inputs = ends.cut(inputs);
      EXPECT_EQ(cut.size(), 2u);
      EXPECT_EQ(cut_inputs.size(), DecodingAttention::inputs(ends.shape).size());
      for (const TensorSpec& spec : DecodingAttention::inputs(ends.shape))
        ASSERT_EQ(cut_inputs.at(spec.name).shape, spec.shape) << spec.name;
      const Reference alone = DecodingAttention::reference(ends.shape, cut_inputs);
      for (const TensorSpec& spec : DecodingAttention::outputs(ends.shape)) {
        const std::vector<double>& values = alone.at(spec.name);
        ASSERT_EQ(cut.at(spec.name).shape, spec.shape) << spec.name;
        ASSERT_EQ(cut.at(spec.name).data, std::vector<float>(values.begin(), values.end()))
            << spec.name << ' ' << features << ' ' << seed;
      }
    }
  }
}

TEST(DecodingTolerances, AcceptNaNOfAKeyThatOnlySomeQueriesSee) {
  DecodingShape shape;
  shape.batch = 3, shape.heads = shape.kv_heads = 2, shape.seq_q = 2, shape.seq_k = 6, shape.head_dim = 4;
  shape.key_lengths = numbers({6, 0, 5});
  TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, 1);
  const auto limits = [&] {
    return DecodingAttention::tolerances(shape, inputs, DecodingAttention::reference(shape, inputs));
  };
  EXPECT_EQ(limits().at("o").nan_in_part, std::vector<bool>(6));
  EXPECT_EQ(limits().at("o").limit, DecodingAttention::tolerances(shape).at("o").limit);
  // The last key of sequence 2, in its second head.
  inputs.at("v").data[((2 * 2 + 1) * 6 + 4) * 4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(limits().at("o").nan_in_part, (std::vector<bool>{false, false, false, false, false, true}));
  EXPECT_EQ(limits().at("lse").nan_in_part, std::vector<bool>(6));
}

TEST(DecodingTolerances, AreWiderWhereLogitsAreLarge) {
  DecodingShape shape;
  shape.batch = 2, shape.heads = shape.kv_heads = 1, shape.seq_k = 50, shape.head_dim = 64, shape.scale = 50;
  shape.key_lengths = numbers({0, 50});
  const TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, 1);
  const Tolerances limits =
      DecodingAttention::tolerances(shape, inputs, DecodingAttention::reference(shape, inputs));
  EXPECT_GT(limits.at("lse").limit, 2 * DecodingAttention::tolerances(shape).at("lse").limit);
}

TEST(DecodingAttention, SaysWhichKeysAQuerySees) {
  DecodingShape shape;
  shape.batch = 3, shape.heads = shape.kv_heads = 1, shape.seq_q = 2, shape.seq_k = 70, shape.head_dim = 1;
  shape.key_lengths = numbers({70, 0, 3});
  TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, 1);
  const auto words = [&](std::int64_t batch, std::int64_t query) {
    return DecodingAttention::describe_inputs(shape, inputs, "o", {batch, 0, query, 0});
  };
  EXPECT_EQ(words(0, 0), "in sequence 0, query 0 sees 69 of 70 keys");
  EXPECT_EQ(words(0, 1), "");
  EXPECT_EQ(words(1, 0), "sequence 1 has no keys");
  EXPECT_EQ(words(2, 0).substr(0, 64), "in sequence 2, query 0 sees 2 of 3 keys; their scaled logits are");
}

TEST(DecodingAttention, ArgumentsHoldWhatTheShapeHas) {
  DecodingShape shape;
  shape.batch = 2, shape.heads = 4, shape.kv_heads = 2, shape.seq_q = 3, shape.seq_k = 40, shape.head_dim = 8;
  std::map<std::string, void*> buffers = {{"q", nullptr}, {"k", nullptr}, {"v", nullptr}, {"o", nullptr}};
  DecodingAttention::Args args = DecodingAttention::bind(shape, buffers);
  EXPECT_TRUE(args.causal);
  EXPECT_EQ(args.key_lengths, nullptr);
  EXPECT_EQ(args.block_table, nullptr);
  EXPECT_EQ(args.page_size, 0);
  EXPECT_EQ(args.splits, 0);
  EXPECT_EQ(args.strides.at("k").batch, 2 * 40 * 8);
  shape.splits = 7;
  shape.block_table = table_of(shape, 16, false, 1);
  int any = 0;
  buffers["block_table"] = &any;
  args = DecodingAttention::bind(shape, buffers);
  EXPECT_EQ(args.block_table, &any);
  EXPECT_EQ(args.page_size, 16);
  EXPECT_EQ(args.pages, shape.block_table->pages);
  EXPECT_EQ(args.table_columns, 3);
  EXPECT_EQ(args.splits, 7);
  EXPECT_EQ(args.strides.at("k").batch, 2 * 16 * 8);
  EXPECT_EQ(args.strides.at("q").batch, 4 * 3 * 8);
}

}  // namespace
}  // namespace fa
