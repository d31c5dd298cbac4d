/// @file
/// Compares tensors with the float64 reference, within a tolerance.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attention/tensor.hpp"
#include "attention/tolerance.hpp"
#include "diagnosis/relocation.hpp"

namespace fa {

/// A wrong element.
struct WrongElement {
  std::vector<std::int64_t> index;
  float got = 0;
  double expected = 0;
  std::string inputs = {};  ///< a line about the few inputs that it is computed from; empty if they are many
};

/// Consecutive indices.
struct IndexRange {
  std::int64_t first = 0, last = 0;
  bool operator==(const IndexRange&) const = default;
};

/// The indices of the wrong elements along one axis.
struct WrongIndices {
  std::int64_t length = 0;  ///< of the axis
  std::int64_t count = 0;   ///< different indices
  std::int64_t first = 0, last = 0;
  std::int64_t step = 0;  ///< between consecutive indices if it is always the same, otherwise 0

  /// All of them as at most kMostRanges ranges, otherwise none. With a period, the ranges of the first
  /// period, which all others repeat.
  std::vector<IndexRange> ranges = {};
  std::int64_t period = 0;

  static constexpr std::size_t kMostRanges = 3;
};

/// What the wrong elements of a tensor have in common, which shows where in the kernel to look.
struct WrongPattern {
  std::vector<WrongIndices> axes;
  std::int64_t unwritten = 0;     ///< elements that still hold the poison of DeviceBuffer::poison()
  std::int64_t not_a_number = 0;  ///< other elements that are NaN or infinite where a number is expected
  std::int64_t zeros = 0;         ///< elements that are 0 where another number is expected

  /// got / expected, if it is the same for all wrong elements within the margin, and the expected values
  /// differ: a constant in place of another constant is no factor. For kRelL2.
  std::optional<double> factor = std::nullopt;
  /// Whether each line along the last axis is off by its own factor, the same for all its elements. Lines of
  /// equal expected values say nothing; two others are needed. For kRelL2.
  bool factor_per_line = false;
  /// got - expected under the same conditions. For kMaxAbs.
  std::optional<double> difference = std::nullopt;

  /// Where the values of the wrong elements belong, if that can be told.
  std::optional<Relocation> holds = std::nullopt;
};

/// The comparison of one output with its reference.
struct TensorCheck {
  double rel_l2 =
      0;  ///< |got - expected| / |expected|, Euclidean norms; NaN or inf if an element is so wrongly
  double max_abs = 0;                 ///< the largest |got - expected|
  Measure measure = Measure::kRelL2;  ///< which of the two errors decides
  double tolerance = 0;               ///< the largest allowed value of that error
  bool passed = false;
  std::size_t elements = 0;                                ///< compared
  std::int64_t wrong_elements = 0;                         ///< 0 when passed
  std::optional<WrongElement> first_wrong = std::nullopt;  ///< in row-major order
  std::optional<WrongPattern> pattern = std::nullopt;      ///< of all of them

  /// The error that decides.
  double error() const { return measure == Measure::kRelL2 ? rel_l2 : max_abs; }
};

/// A change of the problem for which wrong outputs are right.
struct AsIf {
  std::string change;  ///< "with v in place of k"
  std::set<std::string> outputs;
};

/// All outputs of a variant.
struct Check {
  std::map<std::string, TensorCheck> tensors;
  std::vector<AsIf> as_if = {};  ///< changes of the problem for which wrong outputs are right

  bool passed() const;
};

/// How far an element may be off before it counts as wrong in a tensor that fails; compare() has the formula.
class Margin {
 public:
  Margin(const std::vector<double>& expected, Tolerance tolerance);
  double of(double expected) const;  ///< @param expected  the element's own expected value
  double limit() const { return tolerance_.limit; }

 private:
  Tolerance tolerance_;
  double mean_square_ = 0;  ///< of all expected values that are finite
};

/// Compares a tensor with its reference.
///
/// A NaN is right only where the reference has a NaN or where the tolerance accepts any, an infinity only
/// where the reference has the same one; such elements then count as exact. If all reference elements are 0,
/// the relative error is 0 or infinite.
///
/// If the check fails, elements that are too far off count as wrong: for kMaxAbs, by more than the limit; for
/// kRelL2, by more than limit * sqrt((e^2 + r^2) / 2), where e is the expected value of the element and r the
/// root mean square of all expected values. If no element were that far off, rel_l2 could not exceed the
/// limit. But a few of many are that far off by rounding alone. So if any is off by more than twice as much,
/// only such elements count.
///
/// @throws std::invalid_argument  if the numbers of elements differ
TensorCheck compare(const Tensor& got, const std::vector<double>& expected, Tolerance tolerance);

/// Compares each output with its reference.
Check check_outputs(const TensorMap& outputs, const Reference& reference, const Tolerances& tolerances);

/// The elements that compare() counts in a tensor that fails, ascending.
std::vector<std::size_t> wrong_elements(const Tensor& got, const std::vector<double>& expected,
                                        Tolerance tolerance);

}  // namespace fa
