/// @file
/// --batch, --heads, ... and the inputs of the attention chapters.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "attention/attention_forward.hpp"
#include "harness/input_options.hpp"
#include "harness/problem_options.hpp"

namespace fa {

/// Sizes with random numbers, or Q, K and V from three files.
template <>
class ProblemOptions<AttentionForward> {
 public:
  void add_to(CLI::App& app);
  /// Without --dtype it is the first of fp32, bf16 and fp16 that runs.
  GivenProblem<AttentionForward> read(const std::function<bool(const AttentionShape&)>& runs) const;

 private:
  GivenProblem<AttentionForward> random() const;
  GivenProblem<AttentionForward> from_files() const;

  /// @throws UsageError  if the word is not one of fp32, fp16, bf16
  /// Without a word, fp32.
  DType dtype() const;

  std::optional<std::int64_t> batch_, heads_, kv_heads_, seq_q_, seq_k_, head_dim_;
  std::optional<std::string> dtype_;
  bool causal_ = false;
  std::optional<double> scale_;
  RandomOptions random_;
  std::optional<std::string> q_, k_, v_;
};

}  // namespace fa
