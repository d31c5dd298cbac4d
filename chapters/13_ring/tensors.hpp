/// @file
/// The inputs and outputs of a run, of which each rank has its own tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attention/attention_backward.hpp"
#include "harness/problem_options.hpp"
#include "harness/program.hpp"
#include "harness/runner.hpp"
#include "job.hpp"
#include "sample.hpp"

namespace fa::ch13 {

class Tensors {
 public:
  Tensors() = default;
  /// @param sample  rows of O of each head and rank to check; 0: all outputs
  /// @throws UsageError  if the inputs do not allow samples
  Tensors(const GivenProblem<AttentionBackward>& given, bool backward, int sample, Checked checked);

  std::vector<TensorSpec> inputs() const;
  std::vector<TensorSpec> outputs() const;

  /// Makes the inputs and, on rank 0, the reference. Without a reference, upload() makes the rank's own
  /// tokens.
  void make();
  /// Copies the rank's tokens of all inputs to device memory.
  void upload(const Job& job) const;
  /// Compares the outputs of all ranks with what they should be: rank 0 has the result.
  void check(const Job& job, VariantResult& result) const;

 private:
  void check_all(const Job& job, VariantResult& result) const;
  void check_sample(const Job& job, VariantResult& result) const;

  // Doxygen would link to a page of this instance, and makes none.
  /// @cond
  GivenProblem<AttentionBackward> given_;
  /// @endcond
  bool backward_ = false;
  int sample_ = 0;
  Checked checked_ = Checked::kAll;
  std::optional<LazyInputs> lazy_;
  TensorMap whole_;
  Reference reference_;
};

}  // namespace fa::ch13
