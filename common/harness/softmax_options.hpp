/// @file
/// --rows, --cols and the other options for the inputs of the softmax chapters.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "attention/softmax.hpp"
#include "harness/input_options.hpp"
#include "harness/problem_options.hpp"

namespace fa {

/// Sizes and random numbers, or a matrix from a file, or the logits of queries and keys from two files.
template <>
class ProblemOptions<Softmax> {
 public:
  void add_to(CLI::App& app);
  GivenProblem<Softmax> read(const std::function<bool(const Softmax::Shape&)>& runs) const;

 private:
  GivenProblem<Softmax> random() const;
  GivenProblem<Softmax> matrix_from_file() const;
  GivenProblem<Softmax> logits_from_files() const;

  /// @throws UsageError  if an option is given that applies only to random numbers
  void refuse_random_options(const std::string& file) const;

  std::optional<std::int64_t> rows_, cols_;
  RandomOptions random_{kInitNames};
  std::optional<std::string> x_, q_, k_;
  std::optional<double> scale_;
};

}  // namespace fa
