#include "diagnosis/diagnosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "../attention/masked_definition.hpp"

namespace fa {
namespace {

/// All masks, with and without a mask of its own for each head, on queries and keys that differ in number or
/// not.
std::vector<MaskedShape> problems_with_everything() {
  std::vector<MaskedShape> problems;
  for (const bool same_length : {false, true}) {
    for (const bool backward : {false, true}) {
      MaskedShape shape = shape_of({.batch = 2,
                                    .heads = 2,
                                    .kv_heads = 1,
                                    .seq_q = same_length ? 130 : 70,
                                    .seq_k = same_length ? 130 : 150,
                                    .head_dim = 4,
                                    .causal = !same_length});
      shape.backward = backward;
      if (same_length) {
        Numbers documents(130, 0);
        std::fill(documents.begin() + 37, documents.end(), 1);
        std::fill(documents.begin() + 90, documents.end(), 2);
        shape.documents = numbers(documents);
      }
      shape.window = 45;
      shape.key_lengths = numbers({std::int32_t(shape.seq_k), 101});
      BlockPattern mask{.heads = 2, .rows = same_length ? 3 : 2, .cols = 3, .size = 64, .blocks = {}};
      for (std::int64_t block = 0; block < mask.heads * mask.rows * mask.cols; ++block)
        mask.blocks.push_back(std::uint8_t((block * 5 + 1) % 7 != 0));
      shape.block_mask = std::make_shared<const BlockPattern>(mask);
      shape.dropout = 0.3;
      shape.dropout_seed = 0x123456789;
      shape.softcap = 1.5;
      shape.alibi = true;
      shape.sinks = sinks({2.5f, 1});
      problems.push_back(shape);
    }
  }
  return problems;
}

/// The Euclidean norm of a difference relative to that of the first tensor; infinite if they differ in what
/// is infinite.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    difference += std::pow(a[i] - b[i], 2);
    norm += std::isfinite(a[i]) ? a[i] * a[i] : 0;
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

TEST(MaskedOthers, EachIsAnotherProblem) {
  for (const MaskedShape& shape : problems_with_everything()) {
    const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 8);
    const Reference right = MaskedAttention::reference(shape, inputs);
    const std::vector<OtherProblem> others = other_problems<MaskedAttention>(shape, inputs);
    EXPECT_GT(others.size(), 60u);
    std::vector<std::string> changes;
    for (const OtherProblem& other : others) {
      const Reference wrong = other.reference();
      double most = 0;
      for (const auto& [name, values] : right) {
        ASSERT_EQ(wrong.at(name).size(), values.size()) << other.change;
        for (const double value : wrong.at(name)) ASSERT_FALSE(std::isnan(value)) << other.change;
        most = std::max(most, relative_difference(values, wrong.at(name)));
      }
      EXPECT_GT(most, 1e-4) << other.change;
      changes.push_back(other.change);
    }
    std::sort(changes.begin(), changes.end());
    EXPECT_EQ(std::unique(changes.begin(), changes.end()), changes.end());
  }
}

TEST(MaskedOthers, AreNotMadeForLargeProblems) {
  MaskedShape shape = shape_of({.seq_q = 1000, .seq_k = 1000, .head_dim = 8});
  shape.window = 3;
  EXPECT_TRUE(other_problems<MaskedAttention>(shape, {}).empty());
}

TEST(MaskedOthers, AWindowThatHidesNothingHasOneMistake) {
  for (const std::int64_t window :
       {std::int64_t(12), std::int64_t(1) << 32, std::numeric_limits<std::int64_t>::max()}) {
    MaskedShape shape = shape_of({.seq_q = 5, .seq_k = 7, .head_dim = 2});
    shape.window = window;
    const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 1);
    for (const OtherProblem& other : other_problems<MaskedAttention>(shape, inputs)) {
      if (other.change.find("window") == std::string::npos) continue;
      EXPECT_EQ(other.change, "if the window of query i stood at key i");
    }
  }
}

/// The outputs of another problem, by its words.
Reference other_problem(const MaskedShape& shape, const TensorMap& inputs, const std::string& change) {
  for (const OtherProblem& other : other_problems<MaskedAttention>(shape, inputs)) {
    if (other.change == change) return other.reference();
  }
  ADD_FAILURE() << change;
  return {};
}

/// What changes if a query sees other keys.
class MaskedOthersTest : public ::testing::Test {
 protected:
  /// @param sees  of batch, head, query and key
  template <class Sees>
  void expect(const std::string& change, Sees sees) {
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(change);
      MaskedShape shape = shape_;
      shape.backward = backward;
      const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 3);
      const Reference expected = by_definition(shape, inputs, sees);
      for (const auto& [name, values] : other_problem(shape, inputs, change))
        expect_near(values, expected.at(name), name);
    }
  }

  /// The same for a change that does not depend on the head.
  template <class Sees>
  void expect_in_all_heads(const std::string& change, Sees sees) {
    expect(change, [=](auto, auto, std::int64_t query, std::int64_t key) { return sees(query, key); });
  }

  MaskedShape shape_ = shape_of({.heads = 2, .kv_heads = 1, .seq_q = 100, .seq_k = 128, .head_dim = 2});
};

TEST_F(MaskedOthersTest, Windows) {
  shape_.window = 20;  // query i stands at key i + 28
  const auto between = [](std::int64_t least, std::int64_t most) {
    return [=](std::int64_t query, std::int64_t key) { return key >= query + least && key <= query + most; };
  };
  expect_in_all_heads("without the window", [](auto, auto) { return true; });
  expect_in_all_heads("if the window began one key earlier", between(28 - 20, 28 + 19));
  expect_in_all_heads("if the window began one key later", between(28 - 18, 28 + 19));
  expect_in_all_heads("if the window ended one key later", between(28 - 19, 28 + 20));
  expect_in_all_heads("if the window ended one key earlier", between(28 - 19, 28 + 18));
  expect_in_all_heads("if the window of query i stood at key i", between(-19, 19));
  expect_in_all_heads("if tiles of 64 queries and 64 keys that are partial were taken as full",
                      [](std::int64_t query, std::int64_t key) { return query < 64 || key >= 64; });
  expect_in_all_heads("if tiles of 16 queries and 32 keys that are partial were taken as full",
                      [](std::int64_t query, std::int64_t key) {
                        const std::int64_t first = query / 16 * 16,
                                           last = std::min<std::int64_t>(first + 15, 99);
                        return key / 32 * 32 <= last + 28 + 19 && key / 32 * 32 + 31 >= first + 28 - 19;
                      });
}

TEST_F(MaskedOthersTest, Diagonals) {
  shape_.causal = true;
  expect_in_all_heads("without the causal mask", [](auto, auto) { return true; });
  expect_in_all_heads("if every query saw one key more under the causal mask",
                      [](auto query, auto key) { return key <= query + 29; });
  expect_in_all_heads("if every query saw one key fewer under the causal mask",
                      [](auto query, auto key) { return key <= query + 27; });
  expect_in_all_heads("if query i saw keys 0 to i under the causal mask",
                      [](auto query, auto key) { return key <= query; });
  expect_in_all_heads(
      "if tiles of 64 queries and 64 keys that are full were left out",
      [](auto query, auto key) { return key <= query + 28 && (query >= 64 ? key >= 64 : true); });
}

TEST_F(MaskedOthersTest, Documents) {
  shape_.seq_q = shape_.seq_k;
  Numbers of(128, 0);
  std::fill(of.begin() + 30, of.end(), 1);
  std::fill(of.begin() + 101, of.end(), 2);
  shape_.documents = numbers(of);
  const auto document = [of](std::int64_t token) {
    return of[std::size_t(std::clamp<std::int64_t>(token, 0, 127))];
  };
  expect_in_all_heads("without the documents", [](auto, auto) { return true; });
  expect_in_all_heads("if documents began one key later, but not one query later",
                      [=](auto query, auto key) { return document(query) == document(key - 1); });
  expect_in_all_heads("if documents began one query earlier, but not one key earlier",
                      [=](auto query, auto key) { return document(query + 1) == document(key); });
  expect_in_all_heads("if documents began one token later",
                      [=](auto query, auto key) { return document(query - 1) == document(key - 1); });
  expect_in_all_heads("if a query also saw the documents before its own",
                      [=](auto query, auto key) { return document(key) <= document(query); });
}

TEST_F(MaskedOthersTest, KeyLengths) {
  shape_.batch = 2;
  shape_.causal = true;
  shape_.key_lengths = numbers({128, 90});
  const auto causal = [](auto query, auto key) { return key <= query + 28; };
  expect("without the key lengths", [=](auto, auto, auto query, auto key) { return causal(query, key); });
  expect("if one key fewer existed than the key lengths say", [=](auto batch, auto, auto query, auto key) {
    return causal(query, key) && key < (batch == 0 ? 127 : 89);
  });
  expect("if one key more existed than the key lengths say", [=](auto batch, auto, auto query, auto key) {
    return causal(query, key) && key < (batch == 0 ? 128 : 91);
  });
  expect("if the causal diagonal ended at the last key that exists",
         [=](auto batch, auto, auto query, auto key) {
           return key < (batch == 0 ? 128 : 90) && key <= query + (batch == 0 ? 128 : 90) - 100;
         });
}

TEST_F(MaskedOthersTest, Blocks) {
  shape_.block_mask = std::make_shared<const BlockPattern>(
      BlockPattern{.heads = 2, .rows = 2, .cols = 2, .size = 64, .blocks = {1, 1, 0, 1, 0, 1, 1, 1}});
  const auto has = [mask = *shape_.block_mask](std::int64_t head, std::int64_t row, std::int64_t col) {
    return mask.blocks[std::size_t(head * 4 + row * 2 + col)] != 0;
  };
  expect("with rows and columns of the block mask exchanged",
         [=](auto, auto head, auto query, auto key) { return has(head, key / 64, query / 64); });
  expect("with the hidden blocks in place of the others",
         [=](auto, auto head, auto query, auto key) { return !has(head, query / 64, key / 64); });
  expect("with the blocks of the first head for all",
         [=](auto, auto, auto query, auto key) { return has(0, query / 64, key / 64); });
  expect("if blocks had 128 queries and keys", [=](auto, auto head, auto, auto) { return has(head, 0, 0); });
}

// In the third tile of 64, keys after the last one and those that do not exist are zeros: each adds exp(0) to
// the sum.
TEST(MaskedOthers, KeysAfterTheLastAreZeros) {
  MaskedShape shape =
      shape_of({.batch = 2, .heads = 1, .kv_heads = 1, .seq_q = 3, .seq_k = 100, .head_dim = 2});
  const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 3);
  const Reference right = MaskedAttention::reference(shape, inputs);
  const auto expect_zeros = [&](const std::string& change, const Reference& before, int zeros) {
    const Reference wrong = other_problem(shape, inputs, change);
    for (std::size_t row = 3; row < 6; ++row) {
      const double more = std::exp(wrong.at("lse")[row]) - std::exp(before.at("lse")[row]);
      EXPECT_NEAR(more, zeros, 1e-9) << change;
      const double share = std::exp(before.at("lse")[row] - wrong.at("lse")[row]);
      EXPECT_NEAR(wrong.at("o")[2 * row], before.at("o")[2 * row] * share, 1e-12);
    }
  };
  expect_zeros("without the mask of keys after the last, with zeros for those keys", right, 28);
  shape.key_lengths = numbers({100, 60});
  const Reference shorter = MaskedAttention::reference(shape, inputs);
  expect_zeros("without the key lengths, with zeros for those keys", shorter, 40);
  expect_zeros("if one key more existed than the key lengths say, of zeros", shorter, 1);
  expect_zeros("without the key lengths in tiles of 128 queries and 64 keys that are partial", shorter, 4);
}

TEST(MaskedOthers, DropoutInTheWrongPlaces) {
  // One query and one element per row, so that the formulas are numbers.
  MaskedShape shape = shape_of({.seq_q = 1, .seq_k = 12, .head_dim = 1, .scale = 0.5});
  shape.backward = true;
  shape.dropout = 0.5;
  const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 2);
  const double q = inputs.at("q").data[0], d_o = inputs.at("do").data[0];
  std::vector<double> k, v, p, z;
  double sum = 0, o = 0, o_without = 0;
  for (std::size_t key = 0; key < 12; ++key) {
    k.push_back(inputs.at("k").data[key]);
    v.push_back(inputs.at("v").data[key]);
    p.push_back(std::exp(0.5 * q * k[key]));
    z.push_back(shape.keeps(0, 0, std::int64_t(key)) ? 2 : 0);
    sum += p[key];
  }
  for (std::size_t key = 0; key < 12; ++key) {
    p[key] /= sum;
    o += p[key] * z[key] * v[key];
    o_without += p[key] * v[key];
  }
  /// @param ds  of a key     @param weight  of dO in dV
  const auto expect = [&](const std::string& change, auto ds, auto weight) {
    SCOPED_TRACE(change);
    const Reference other = other_problem(shape, inputs, change);
    std::vector<double> dk, dv, dq = {0};
    for (std::size_t key = 0; key < 12; ++key) {
      dk.push_back(0.5 * ds(key) * q);
      dv.push_back(weight(key) * d_o);
      dq[0] += 0.5 * ds(key) * k[key];
    }
    expect_near(other.at("dq"), dq, "dq");
    expect_near(other.at("dk"), dk, "dk");
    expect_near(other.at("dv"), dv, "dv");
  };
  const auto ds = [&](std::size_t key) { return p[key] * (d_o * v[key] * z[key] - o * d_o); };
  const auto weight = [&](std::size_t key) { return p[key] * z[key]; };
  const auto without = [&](std::size_t key) { return p[key] * (d_o * v[key] - o * d_o); };
  expect("without dropout in dP", without, weight);
  expect("without dropout in dV", ds, [&](std::size_t key) { return p[key]; });
  expect(
      "with dropout of P in dS",
      [&](std::size_t key) { return p[key] * z[key] * (d_o * v[key] * z[key] - o * d_o); }, weight);
  expect(
      "with D = rowsum(dO o O) of O without dropout",
      [&](std::size_t key) { return p[key] * (d_o * v[key] * z[key] - o_without * d_o); }, weight);
  expect(
      "without the factor of dropout in dP",
      [&](std::size_t key) { return p[key] * (d_o * v[key] * z[key] / 2 - o * d_o); }, weight);

  shape.backward = false;
  const auto expect_o = [&](const std::string& change, double o_expected, double lse) {
    const Reference other = other_problem(shape, inputs, change);
    EXPECT_NEAR(other.at("o")[0], o_expected, 1e-12) << change;
    EXPECT_NEAR(other.at("lse")[0], lse, 1e-12) << change;
  };
  double kept = 0;
  for (std::size_t key = 0; key < 12; ++key) kept += p[key] * z[key] / 2;
  expect_o("without dropout", o_without, std::log(sum));
  expect_o("without the factor 1 / (1 - p) of dropout", o / 2, std::log(sum));
  expect_o("with the factor 1 / (1 - p) of dropout applied twice", 2 * o, std::log(sum));
  expect_o("if l were the sum over the elements that dropout keeps, without its factor", o / 2 / kept,
           std::log(sum * kept));
  expect_o("with the elements that dropout drops in place of those that it keeps", 2 * o_without - o,
           std::log(sum));
}

// One query, one key and the sink: exp(LSE) is a sum of two, and O a share of V.
TEST(MaskedOthers, SinksInOtherPlaces) {
  MaskedShape shape =
      shape_of({.heads = 2, .kv_heads = 1, .seq_q = 1, .seq_k = 1, .head_dim = 1, .scale = 0.5});
  shape.sinks = sinks({0.75f, -1.25f});
  const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 2);
  const double q = inputs.at("q").data[1], k = inputs.at("k").data[0], v = inputs.at("v").data[0];
  const double key = std::exp(0.5 * q * k), sink = std::exp(-1.25);
  const auto expect = [&](const std::string& change, double in_o, double in_lse) {  // of the second head
    const Reference other = other_problem(shape, inputs, change);
    EXPECT_NEAR(other.at("o")[1], v * key / (key + in_o), 1e-12) << change;
    EXPECT_NEAR(std::exp(other.at("lse")[1]), key + in_lse, 1e-12) << change;
  };
  expect("without the sinks", 0, 0);
  expect("with the sink in O, but not in LSE", sink, 0);
  expect("with the sink in LSE, but not in O", 0, sink);
  expect("with the sink of the first head for all", std::exp(0.75), std::exp(0.75));
  expect("if each of the four lanes of a row added the sink", 4 * sink, 4 * sink);
  expect("with the scale applied to the sinks", std::exp(-0.625), std::exp(-0.625));
  const double log2e = std::log2(std::exp(1.0));
  expect("without the factor log2 e of the sinks", std::exp(-1.25 / log2e), std::exp(-1.25 / log2e));
  expect("with the factor log2 e of the sinks applied twice", std::exp(-1.25 * log2e),
         std::exp(-1.25 * log2e));

  shape.backward = true;
  const TensorMap with_do = MaskedAttention::random_inputs(shape, Init::kNormal, 2);
  const double p = sink / (key + sink), d = with_do.at("do").data[1] * v * key / (key + sink);
  const auto expect_gradient = [&](const std::string& change, double gradient) {
    EXPECT_NEAR(other_problem(shape, with_do, change).at("dsinks")[1], gradient, 1e-12) << change;
  };
  expect_gradient("without D in the gradients of the sinks", -p);
  expect_gradient("without P in the gradients of the sinks", -d);
  expect_gradient("with the other sign of the gradients of the sinks", p * d);
}

TEST(MaskedOthers, ScoresInOtherOrders) {
  MaskedShape shape =
      shape_of({.heads = 2, .kv_heads = 2, .seq_q = 1, .seq_k = 2, .head_dim = 1, .scale = 0.5});
  shape.softcap = 0.75;
  shape.alibi = true;
  const TensorMap inputs = MaskedAttention::random_inputs(shape, Init::kNormal, 2);
  // exp(LSE) of the second head, whose slope is 2^-8, that of the first 2^-4. The query stands at the last
  // key.
  const double q = inputs.at("q").data[1], k0 = inputs.at("k").data[2], k1 = inputs.at("k").data[3];
  const auto expect = [&](const std::string& change, double far, double near) {
    EXPECT_NEAR(std::exp(other_problem(shape, inputs, change).at("lse")[1]), std::exp(far) + std::exp(near),
                1e-12)
        << change;
  };
  const auto capped = [](double s) { return 0.75 * std::tanh(s / 0.75); };
  const double s0 = 0.5 * q * k0, s1 = 0.5 * q * k1, slope = std::exp2(-8), of_first = std::exp2(-4);
  expect("without softcap", s0 - slope, s1);
  expect("without ALiBi", capped(s0), capped(s1));
  expect("with ALiBi before softcap", capped(s0 - slope), capped(s1));
  expect("with ALiBi added", capped(s0) + slope, capped(s1));
  expect("with heads counted from 0 in ALiBi", capped(s0) - of_first, capped(s1));
  expect("with query i at key i in ALiBi", capped(s0), capped(s1) - slope);
  expect("without the factor softcap", capped(s0) / 0.75 - slope, capped(s1) / 0.75);
  expect("without the division of the score by softcap", 0.75 * std::tanh(s0) - slope, 0.75 * std::tanh(s1));
}

}  // namespace
}  // namespace fa
