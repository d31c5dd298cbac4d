/// @file
/// --backward, in addition to the options of attention: those of chapter 12.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attention/two_way_attention.hpp"
#include "harness/attention_options.hpp"

namespace fa {

template <>
class ProblemOptions<TwoWayAttention> : public AttentionOptions<TwoWayAttention> {
 protected:
  void add_more(CLI::App& app, const std::string& group) override;
  TwoWayShape completed(const AttentionShape& shape) const override { return {shape, backward_}; }
  void describe_more(InputSource& source) const override;
  std::vector<std::string> names() const override { return {"q", "k", "v", "do"}; }
  std::optional<std::string> why_unused(const std::string& name) const override;

 private:
  bool backward_ = false;
};

}  // namespace fa
