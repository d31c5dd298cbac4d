/// @file
/// The outcome of a run, as a table and as JSON.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "attention/tensor.hpp"
#include "harness/errors.hpp"
#include "harness/result.hpp"

namespace fa {

/// The sources of the inputs, by option: {"init", "normal"}, {"seed", 0}, or {"x", "x.npy"}.
using InputSource =
    std::vector<std::pair<std::string, std::variant<std::string, std::uint64_t, double, bool>>>;

/// The problem of a run, for reports.
struct ProblemReport {
  std::string name;                                         ///< "softmax"
  std::vector<std::pair<std::string, std::int64_t>> sizes;  ///< {"rows", 64}, ...
  InputSource inputs;
  std::vector<TensorSpec> tensors = {};  ///< inputs, then outputs
};

/// All results of a run.
struct Report {
  std::string chapter, title;
  std::string backend, device;
  ProblemReport problem;
  std::optional<double> copy_gb_per_s = std::nullopt;  ///< measured in the same run, with --bench
  std::vector<VariantResult> variants = {};
  std::vector<std::string> remarks = {};  ///< one line each, on files that are not written
  std::string debug_command = {};         ///< stops a debugger at the defects; empty if nothing does

  /// Whether nothing is wrong with any variant except what was declared.
  bool ok() const;
};

/// Writes the table, at most 100 columns wide, then what is wrong with each variant, then all defects in
/// full, with the command that stops a debugger at them. Columns for which the backend has no values are left
/// out.
void print(std::ostream& out, const Report& report);

/// The report as the text of one JSON object, without a newline at the end. Values that a backend cannot
/// determine are absent; a number that is not finite is null.
std::string to_json(const Report& report);

/// The same of a run that was refused: {"refused": {"text": .., "reason": .., "variant": ..}}. The text names
/// no variant.
std::string to_json(const UsageError& error);

}  // namespace fa
