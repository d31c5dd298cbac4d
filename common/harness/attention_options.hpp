/// @file
/// --batch, --heads, ... and the other options for the inputs of the attention chapters.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "harness/input_options.hpp"
#include "harness/problem_options.hpp"

namespace fa {

/// Sizes and random numbers, or a file for every input tensor. @tparam P  AttentionForward or AttentionBackward
template <class P>
class AttentionOptions {
 public:
  void add_to(CLI::App& app);

  /// Without --dtype, the element type is the first of fp32, bf16 and fp16 that runs.
  GivenProblem<P> read(const std::function<bool(const AttentionShape&)>& runs) const;

 private:
  GivenProblem<P> random() const;
  GivenProblem<P> from_files() const;

  /// The type that --dtype names; fp32 without it.
  /// @throws UsageError  if the word is not one of fp32, fp16, bf16
  DType dtype() const;

  /// The layout that --layout names.
  /// @throws UsageError  if there is no such layout
  Layout layout() const;

  std::optional<std::int64_t> batch_, heads_, kv_heads_, seq_q_, seq_k_, head_dim_;
  std::optional<std::string> dtype_, layout_;
  bool causal_ = false;
  std::optional<double> scale_;
  RandomOptions random_{kFiniteInitNames};
  std::map<std::string, std::optional<std::string>> files_;  ///< by the name of the tensor
};

template <>
class ProblemOptions<AttentionForward> : public AttentionOptions<AttentionForward> {};
template <>
class ProblemOptions<AttentionBackward> : public AttentionOptions<AttentionBackward> {};

}  // namespace fa
