#include "diagnosis/diagnosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attention/attention_forward.hpp"

namespace fa {
namespace {

const AttentionShape kShape = {
    .heads = 2, .kv_heads = 2, .seq_q = 20, .seq_k = 40, .head_dim = 32, .causal = true};

/// What is found for a kernel that computes another problem.
std::vector<AsIf> found_for(const AttentionShape& shape, const TensorMap& inputs) {
  const TensorMap right = AttentionForward::random_inputs(kShape, Init::kNormal, 0);
  const Reference expected = AttentionForward::reference(kShape, right);
  const Reference other = AttentionForward::reference(shape, inputs);
  TensorMap outputs;
  for (const TensorSpec& spec : AttentionForward::outputs(kShape)) {
    const std::vector<double>& values = other.at(spec.name);
    outputs[spec.name] = {spec.shape, {values.begin(), values.end()}};
  }
  const Check check = check_outputs(outputs, expected, AttentionForward::tolerances(kShape));
  EXPECT_FALSE(check.passed());
  return find_problems<AttentionForward>(kShape, right, outputs, check);
}

std::vector<AsIf> found_for(const AttentionShape& shape) {
  return found_for(shape, AttentionForward::random_inputs(kShape, Init::kNormal, 0));
}

/// The inputs with one tensor whose elements are read elsewhere. @param source  of row and column
template <class F>
TensorMap with_disordered(const std::string& name, F source) {
  TensorMap inputs = AttentionForward::random_inputs(kShape, Init::kNormal, 0);
  const Tensor right = inputs.at(name);
  const std::int64_t rows = right.shape[2], cols = right.shape[3];
  for (std::int64_t element = 0; element < std::int64_t(right.data.size()); ++element) {
    std::int64_t row = element / cols % rows, col = element % cols;
    const std::int64_t matrix = element / (rows * cols) * rows * cols;
    source(row, col);
    inputs[name].data[std::size_t(element)] =
        row < rows ? right.data[std::size_t(matrix + row * cols + col)] : 0.0f;
  }
  return inputs;
}

std::vector<std::string> changes(const std::vector<AsIf>& found) {
  std::vector<std::string> words;
  for (const AsIf& each : found) words.push_back(each.change);
  return words;
}

using Words = std::vector<std::string>;

TEST(OtherProblems, TheMaskAndTheScale) {
  AttentionShape other = kShape;
  other.causal = false;
  const std::vector<AsIf> found = found_for(other);
  EXPECT_EQ(changes(found), (Words{"without the causal mask"}));
  EXPECT_EQ(found.at(0).outputs, (std::set<std::string>{"lse", "o"}));
  other = kShape;
  other.scale = 1;
  EXPECT_EQ(changes(found_for(other)), (Words{"without the scale"}));
  other.scale = 1.0 / 32;
  EXPECT_EQ(changes(found_for(other)), (Words{"with the scale applied twice"}));
}

TEST(OtherProblems, QuartersOfFragmentsInAnotherOrder) {
  const TensorMap keys = with_disordered("k", [](std::int64_t& row, std::int64_t& col) {
    const std::int64_t low_row = row % 16 / 8, low_col = col % 16 / 8;
    row += 8 * (low_col - low_row);
    col += 8 * (low_row - low_col);
  });
  EXPECT_EQ(changes(found_for(kShape, keys)),
            (Words{"if k had the top right and the bottom left quarter of every 16 x 16 tile swapped"}));
}

TEST(OtherProblems, ATileThatIsTransposed) {
  const TensorMap values = with_disordered("v", [](std::int64_t& row, std::int64_t& col) {
    const std::int64_t in_row = row % 8, in_col = col % 8;
    row += in_col - in_row;
    col += in_row - in_col;
  });
  const std::vector<AsIf> found = found_for(kShape, values);
  EXPECT_EQ(changes(found), (Words{"if v had every 8 x 8 tile transposed"}));
  EXPECT_EQ(found.at(0).outputs, (std::set<std::string>{"o"}));  // LSE is right
}

/// Without a mask: two tiles of 64 keys, of which the second is ragged, or four of 32.
const AttentionShape kTiles = {.heads = 2, .kv_heads = 1, .seq_q = 20, .seq_k = 110, .head_dim = 32};

/// What is found if each query takes these keys: their rows of K and V. @param keys  of a query
template <class KeysOf>
Words found_with(const AttentionShape& shape, KeysOf keys_of) {
  const TensorMap inputs = AttentionForward::random_inputs(shape, Init::kNormal, 0);
  TensorMap outputs;
  for (const TensorSpec& spec : AttentionForward::outputs(shape)) outputs[spec.name] = {spec.shape, {}};
  const auto row_of = [&](const char* name, std::int64_t row) {
    const std::vector<float>& data = inputs.at(name).data;
    const auto begin = data.begin() + row * shape.head_dim;
    return std::vector<float>(begin, begin + shape.head_dim);
  };
  for (std::int64_t row = 0; row < shape.heads * shape.seq_q; ++row) {
    AttentionShape of_row = shape;  // one query, and the keys that it takes
    of_row.heads = of_row.kv_heads = of_row.seq_q = 1;
    of_row.causal = false;
    const std::vector<std::pair<std::int64_t, std::int64_t>> keys = keys_of(row % shape.seq_q);
    of_row.seq_k = std::int64_t(keys.size());
    const std::vector<std::int64_t> of_keys = {1, 1, of_row.seq_k, shape.head_dim};
    TensorMap parts = {
        {"q", {{1, 1, 1, shape.head_dim}, row_of("q", row)}}, {"k", {of_keys, {}}}, {"v", {of_keys, {}}}};
    for (const auto& [k, v] : keys) {
      for (const auto& [name, key] : {std::pair{"k", k}, {"v", v}}) {
        const std::vector<float> from =
            key < shape.seq_k ? row_of(name, key) : std::vector<float>(std::size_t(shape.head_dim));
        parts.at(name).data.insert(parts.at(name).data.end(), from.begin(), from.end());
      }
    }
    for (const auto& [name, values] : AttentionForward::reference(of_row, parts))
      outputs.at(name).data.insert(outputs.at(name).data.end(), values.begin(), values.end());
  }
  const Check check =
      check_outputs(outputs, AttentionForward::reference(shape, inputs), AttentionForward::tolerances(shape));
  EXPECT_FALSE(check.passed());
  return changes(find_problems<AttentionForward>(shape, inputs, outputs, check));
}

/// The keys 0 .. count - 1, with K, V or both from elsewhere. @param source  of a key
template <class Source>
auto moved(bool k, bool v, std::int64_t count, Source source) {
  return [=](std::int64_t) {
    std::vector<std::pair<std::int64_t, std::int64_t>> keys;
    for (std::int64_t key = 0; key < count; ++key)
      keys.emplace_back(k ? source(key) : key, v ? source(key) : key);
    return keys;
  };
}

TEST(OtherProblems, ATileInPlaceOfAnother) {
  const auto last_is_first = [](std::int64_t key) { return key >= 64 ? key - 64 : key; };
  EXPECT_EQ(found_with(kTiles, moved(true, true, 110, last_is_first)),
            (Words{"with keys 0 to 45 of k and v in place of keys 64 to 109"}));
  EXPECT_EQ(found_with(kTiles, moved(false, true, 110, last_is_first)),
            (Words{"with keys 0 to 45 of v in place of keys 64 to 109"}));
  const auto all_are_third = [](std::int64_t key) { return key < 64 ? key % 32 + 64 : key; };
  EXPECT_EQ(found_with(kTiles, moved(true, false, 110, all_are_third)),
            (Words{"with keys 64 to 95 of k in place of all keys before them"}));
  const auto one_before = [](std::int64_t key) { return key >= 32 ? key - 32 : key; };
  EXPECT_EQ(found_with(kTiles, moved(true, false, 110, one_before)),
            (Words{"with k of the tile of 32 before in place of each tile's, from key 32 on"}));
}

TEST(OtherProblems, TilesThatAreExchangedLeftOutAndCountedTwice) {
  const auto exchanged = [](std::int64_t key) { return key < 64 ? key ^ 32 : key; };
  EXPECT_EQ(
      found_with(kTiles, moved(true, false, 110, exchanged)),
      (Words{"with keys 0 to 31 of k and keys 32 to 63 exchanged",
             "with keys 0 to 31 of v and keys 32 to 63 exchanged"}));  // which is the same without a mask
  const auto from_64 = [](std::int64_t key) { return key + 64; };
  EXPECT_EQ(found_with(kTiles, moved(true, true, 46, from_64)), (Words{"without keys 0 to 63"}));
  const auto again = [](std::int64_t key) { return key < 110 ? key : key - 46; };
  EXPECT_EQ(found_with(kTiles, moved(true, true, 156, again)), (Words{"with keys 64 to 109 counted twice"}));
}

TEST(OtherProblems, MasksOfTiles) {
  AttentionShape causal = kTiles;
  causal.causal = true;
  causal.seq_q = 100;
  causal.seq_k = 110;
  const auto seen = [&](auto sees) {
    return [=](std::int64_t query) {
      std::vector<std::pair<std::int64_t, std::int64_t>> keys;
      for (std::int64_t key = 0; key < 128; ++key)
        if (sees(query, key)) keys.emplace_back(key, key);
      return keys;
    };
  };
  EXPECT_EQ(found_with(causal, seen([=](std::int64_t query, std::int64_t key) {
                         return key / 64 * 64 + key % 32 < causal.visible_keys(query);
                       })),
            Words{});  // without slices that are left out
  EXPECT_EQ(found_with(causal, seen([=](std::int64_t query, std::int64_t key) {
                         const std::int64_t last = std::min(query / 16 * 16 + 15, causal.seq_q - 1);
                         return key / 64 * 64 + key % 32 < causal.visible_keys(query) &&
                                key / 32 * 32 < causal.visible_keys(last);
                       })),
            (Words{"if the mask counted each 32 keys from the start of their tile"}));
  EXPECT_EQ(found_with(causal, seen([=](std::int64_t query, std::int64_t key) {
                         return key / 32 == 1 || key < causal.visible_keys(query);
                       })),
            (Words{"without the mask for keys 32 to 63"}));
  EXPECT_EQ(found_with(causal, seen([=](std::int64_t query, std::int64_t key) {
                         const std::int64_t last = std::min(query / 64 * 64 + 63, causal.seq_q - 1);
                         return key < causal.visible_keys(last) / 32 * 32 || key < causal.visible_keys(query);
                       })),
            (Words{"without the mask in tiles of 32 keys that the last of every 64 queries sees"}));
}

TEST(OtherProblems, OneInputInPlaceOfAnother) {
  TensorMap inputs = AttentionForward::random_inputs(kShape, Init::kNormal, 0);
  inputs["k"] = inputs["v"];
  EXPECT_EQ(changes(found_for(kShape, inputs)), (Words{"with v in place of k"}));
}

/// What is found for outputs that should be 1, 2, 3, .. @param others  the outputs of other problems
Words found_among(const std::map<std::string, std::vector<float>>& outputs,
                  const std::map<std::string, Reference>& others) {
  TensorMap got;
  Reference expected;
  Tolerances tolerances;
  for (const auto& [name, values] : outputs) {
    got[name] = {{std::int64_t(values.size())}, values};
    for (std::size_t i = 1; i <= values.size(); ++i) expected[name].push_back(double(i));
    tolerances[name] = {name == "lse" ? Measure::kMaxAbs : Measure::kRelL2, 0.01};
  }
  std::vector<OtherProblem> problems;
  for (const auto& [change, reference] : others)
    problems.push_back({change, [values = reference] { return values; }});
  return changes(find_problems(got, check_outputs(got, expected, tolerances), problems));
}

TEST(OtherProblems, ThoseThatExplainMoreComeAlone) {
  const std::map<std::string, std::vector<float>> outputs = {{"dk", {5, 6}}, {"dq", {7, 8}}, {"dv", {1, 2}}};
  const Reference both = {{"dk", {5, 6}}, {"dq", {7, 8}}, {"dv", {3, 3}}};
  const Reference one = {{"dk", {5, 6}}, {"dq", {1, 2}}, {"dv", {1, 2}}};
  EXPECT_EQ(found_among(outputs, {{"one", one}, {"two", both}}), (Words{"two"}));
}

TEST(OtherProblems, ThoseThatChangeFewerRightGradientsComeAlone) {
  const std::map<std::string, std::vector<float>> outputs = {{"dk", {5, 6}}, {"dq", {1, 2}}, {"dv", {1, 2}}};
  const Reference of_dk = {{"dk", {5, 6}}, {"dq", {1, 2}}, {"dv", {1, 2}}};
  const Reference of_both = {{"dk", {5, 6}}, {"dq", {7, 8}}, {"dv", {1, 2}}};
  EXPECT_EQ(found_among(outputs, {{"a", of_both}, {"b", of_dk}, {"c", of_both}}), (Words{"b"}));
  EXPECT_EQ(found_among(outputs, {{"a", of_both}}), (Words{"a"}));  // a product of its own may be wrong alone
}

TEST(OtherProblems, ThoseThatChangeARightLseAreNone) {
  const std::map<std::string, std::vector<float>> outputs = {{"lse", {1, 2}}, {"o", {5, 6}}};
  EXPECT_EQ(found_among(outputs, {{"a", {{"lse", {1, 3}}, {"o", {5, 6}}}}}), Words{});
  EXPECT_EQ(found_among(outputs, {{"a", {{"lse", {1, 2}}, {"o", {5, 6}}}}}), (Words{"a"}));
}

TEST(OtherProblems, NaNAloneIsNoEvidence) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(found_among({{"o", {kNaN, 2}}}, {{"a", {{"o", {kNaN, 2}}}}}), Words{});
  EXPECT_EQ(found_among({{"o", {kNaN, 5}}}, {{"a", {{"o", {kNaN, 5}}}}}), (Words{"a"}));
}

TEST(OtherProblems, NothingIsClaimedForOtherNumbers) {
  EXPECT_TRUE(found_for(kShape, AttentionForward::random_inputs(kShape, Init::kNormal, 9)).empty());
}

TEST(OtherProblems, LseAloneIsNoEvidence) {
  const TensorMap right = AttentionForward::random_inputs(kShape, Init::kNormal, 0);
  AttentionShape other = kShape;
  other.scale = 1;
  const Reference expected = AttentionForward::reference(kShape, right);
  const Reference unscaled = AttentionForward::reference(other, right);
  TensorMap outputs;
  for (const TensorSpec& spec : AttentionForward::outputs(kShape))
    outputs[spec.name] = {spec.shape, {unscaled.at(spec.name).begin(), unscaled.at(spec.name).end()}};
  for (float& value : outputs["o"].data) value += 1;
  const Check check = check_outputs(outputs, expected, AttentionForward::tolerances(kShape));
  EXPECT_TRUE(find_problems<AttentionForward>(kShape, right, outputs, check).empty());
}

}  // namespace
}  // namespace fa
