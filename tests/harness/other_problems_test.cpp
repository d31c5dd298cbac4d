#include "harness/other_problems.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention/attention_forward.hpp"
#include "harness/runner.hpp"

namespace fa {
namespace {

const AttentionShape kShape = {
    .heads = 2, .kv_heads = 2, .seq_q = 20, .seq_k = 40, .head_dim = 32, .causal = true};

/// What is found for a kernel that computes another problem. @param wrong_lse  whether LSE is wrong as well
std::vector<AsIf> found_for(const AttentionShape& shape, const TensorMap& inputs, bool wrong_lse = true) {
  const TensorMap right = random_inputs<AttentionForward>(kShape, Init::kNormal);
  const Reference expected = AttentionForward::reference(kShape, right);
  const Reference other = AttentionForward::reference(shape, inputs);
  TensorMap outputs;
  for (const TensorSpec& spec : AttentionForward::outputs(kShape)) {
    const std::vector<double>& values =
        spec.name == "lse" && !wrong_lse ? expected.at("lse") : other.at(spec.name);
    outputs[spec.name] = {spec.shape, {values.begin(), values.end()}};
  }
  const Check check = check_outputs(outputs, expected, AttentionForward::tolerances(kShape));
  EXPECT_FALSE(check.passed());
  return find_problems<AttentionForward>(kShape, right, outputs, check);
}

std::vector<AsIf> found_for(const AttentionShape& shape) {
  return found_for(shape, random_inputs<AttentionForward>(kShape, Init::kNormal));
}

/// The inputs with one tensor whose elements are read elsewhere. @param source  of row and column
template <class F>
TensorMap with_disordered(const std::string& name, F source) {
  TensorMap inputs = random_inputs<AttentionForward>(kShape, Init::kNormal);
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

TEST(OtherProblems, OneInputInPlaceOfAnother) {
  TensorMap inputs = random_inputs<AttentionForward>(kShape, Init::kNormal);
  inputs["k"] = inputs["v"];
  EXPECT_EQ(changes(found_for(kShape, inputs)), (Words{"with v in place of k"}));
}

TEST(OtherProblems, ThoseThatExplainMoreComeAlone) {
  // O belongs to V in place of K, LSE to the right problem.
  TensorMap inputs = random_inputs<AttentionForward>(kShape, Init::kNormal);
  inputs["k"] = inputs["v"];
  const std::vector<AsIf> found = found_for(kShape, inputs, false);
  EXPECT_EQ(changes(found), (Words{"with v in place of k"}));
  EXPECT_EQ(found.at(0).outputs, (std::set<std::string>{"o"}));
}

TEST(OtherProblems, NothingIsClaimedForOtherNumbers) {
  EXPECT_TRUE(found_for(kShape, random_inputs<AttentionForward>(kShape, Init::kNormal, 9)).empty());
}

TEST(OtherProblems, LseAloneIsNoEvidence) {
  const TensorMap right = random_inputs<AttentionForward>(kShape, Init::kNormal);
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
