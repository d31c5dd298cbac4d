/// @file
/// --batch, --heads, ... and the other options for the inputs of the attention chapters.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "harness/input_options.hpp"
#include "harness/problem_options.hpp"

namespace fa {

/// Sizes and random numbers, or a file for every input tensor.
/// @tparam P  a problem whose Shape is an AttentionShape
template <class P>
class AttentionOptions {
 public:
  using Shape = typename P::Shape;

  virtual ~AttentionOptions() = default;

  void add_to(CLI::App& app);

  /// Without --dtype, the element type is the first of fp32, bf16 and fp16 that runs.
  GivenProblem<P> read(const std::function<bool(const Shape&)>& runs) const;

 protected:
  /// What another problem adds to AttentionShape: its options, and the shape that they make of one.
  virtual void add_more(CLI::App&, const std::string& /*group*/) {}
  virtual Shape completed(const AttentionShape& shape) const = 0;
  /// What the help says of the queries.
  virtual std::string queries_in_words() const { return "queries"; }
  /// What --causal does.
  virtual std::string causal_in_words() const {
    return "query i sees key j only when j <= i + seq_k - seq_q";
  }
  /// The queries and the keys if options do not say how many.
  virtual std::int64_t default_queries() const { return 100; }
  virtual std::int64_t default_keys(std::int64_t queries) const { return queries; }
  /// The help for the latter.
  virtual std::string default_keys_in_words() const { return "as many as queries"; }
  /// The seed of random numbers.
  std::uint64_t seed() const { return random_.seed(); }
  /// What the report says of these options.
  virtual void describe_more(InputSource&) const {}
  /// The tensors that can be read from files.
  virtual std::vector<std::string> names() const = 0;
  /// Why the file of one of them is of no use; nothing if it is.
  virtual std::optional<std::string> why_unused(const std::string& /*name*/) const { return std::nullopt; }

 private:
  /// Those of names() that the problem needs.
  /// @throws UsageError  if a file is given for one that it does not
  std::vector<std::string> used_names() const;

  GivenProblem<P> random() const;
  GivenProblem<P> from_files() const;

  /// The type that --dtype names; fp32 without it.
  /// @throws UsageError  if the word is not one of fp32, fp16, bf16
  DType dtype() const;

  /// The layout that --layout names.
  /// @throws UsageError  if there is no such layout
  Layout layout() const;

  std::optional<std::int64_t> batch_, heads_, kv_heads_, seq_q_, seq_k_, head_dim_, head_dim_v_;
  std::optional<std::string> dtype_, layout_;
  bool causal_ = false;
  std::optional<double> scale_;
  RandomOptions random_{kFiniteInitNames};
  std::map<std::string, std::optional<std::string>> files_;  ///< by the name of the tensor
};

/// A problem that AttentionShape describes. @tparam P  AttentionForward or AttentionBackward
template <class P>
class DenseAttentionOptions : public AttentionOptions<P> {
 protected:
  AttentionShape completed(const AttentionShape& shape) const override { return shape; }
  std::vector<std::string> names() const override;
};

template <>
class ProblemOptions<AttentionForward> : public DenseAttentionOptions<AttentionForward> {};
template <>
class ProblemOptions<AttentionBackward> : public DenseAttentionOptions<AttentionBackward> {};

/// The numbers of keys in the file of --key-lengths. @throws UsageError  if the sequences cannot have so many
std::shared_ptr<const std::vector<std::int32_t>> read_key_lengths(const std::string& path,
                                                                  const AttentionShape& shape);

}  // namespace fa
