// What a wrong kernel of chapter 14 may compute instead.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "attention/decoding_attention.hpp"
#include "diagnosis/diagnosis.hpp"

namespace fa {
namespace {

DecodingShape paged(bool fp8) {
  DecodingShape shape;
  shape.batch = 3, shape.heads = 4, shape.kv_heads = 2, shape.seq_q = 3, shape.seq_k = 50;
  shape.head_dim = 16;
  shape.key_lengths = std::make_shared<const std::vector<std::int32_t>>(std::vector<std::int32_t>{50, 0, 35});
  shape.block_table = std::make_shared<const BlockTable>(random_block_table(shape, 16, false, 1));
  shape.fp8 = fp8;
  return shape;
}

TEST(DecodingMistakes, WithPagesAndScalesChangeTheOutputs) {
  for (const bool fp8 : {false, true}) {
    const DecodingShape shape = paged(fp8);
    const TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, 1);
    const Reference right = DecodingAttention::reference(shape, inputs);
    std::map<std::string, bool> changes;  // whether they change o
    for (const OtherProblem& other : other_problems<DecodingAttention>(shape, inputs)) {
      const Reference outputs = other.reference();
      ASSERT_EQ(outputs.at("o").size(), right.at("o").size()) << other.change;
      EXPECT_TRUE(changes.emplace(other.change, outputs.at("o") != right.at("o")).second) << other.change;
    }
    for (const char* change :
         {"without the causal mask", "if the pages of sequences followed each other in the cache",
          "with the block table of sequence 0 for all",
          "with the page before it in place of the last page of each sequence",
          "with the first page in place of the last page of each sequence"}) {
      EXPECT_TRUE(changes[change]) << change;
    }
    for (const std::string name : {"k_scale", "v_scale"}) {
      EXPECT_EQ(changes["without " + name], fp8) << name;
      EXPECT_EQ(changes["with the " + name + " of head 0 for all"], fp8) << name;
    }
  }
}

TEST(DecodingMistakes, AreFoundInAllSequencesAtOnce) {
  const DecodingShape shape = paged(false);
  const TensorMap inputs = DecodingAttention::random_inputs(shape, Init::kNormal, 1);
  const Reference right = DecodingAttention::reference(shape, inputs);
  for (const OtherProblem& other : other_problems<DecodingAttention>(shape, inputs)) {
    if (other.change != "without the causal mask") continue;
    TensorMap outputs;
    const Reference wrong = other.reference();
    for (const TensorSpec& spec : DecodingAttention::outputs(shape)) {
      const std::vector<double>& values = wrong.at(spec.name);
      outputs[spec.name] = {.shape = spec.shape, .data = {values.begin(), values.end()}};
    }
    const Check check = check_outputs(outputs, right, DecodingAttention::tolerances(shape));
    ASSERT_FALSE(check.passed());
    const std::vector<AsIf> found = find_problems<DecodingAttention>(shape, inputs, outputs, check);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].change, "without the causal mask");
    EXPECT_EQ(found[0].outputs, (std::set<std::string>{"lse", "o"}));
  }
}

}  // namespace
}  // namespace fa
