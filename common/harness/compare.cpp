#include "harness/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace fa {
namespace {

/// |got - expected|; 0 for two NaNs or equal infinities, NaN or inf if only one of the two is not finite.
double distance(double got, double expected) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  return std::abs(got - expected);
}

std::vector<std::int64_t> index_of(std::size_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = std::int64_t(element) % shape[axis];
    element /= std::size_t(shape[axis]);
  }
  return index;
}

WrongIndices indices_along(std::size_t axis, const std::vector<std::size_t>& wrong,
                           const std::vector<std::int64_t>& shape) {
  const std::size_t length = std::size_t(shape[axis]);
  std::vector<bool> seen(length);
  for (const std::size_t element : wrong) seen[std::size_t(index_of(element, shape)[axis])] = true;
  WrongIndices indices{.length = shape[axis]};
  for (std::int64_t index = 0; index < indices.length; ++index) {
    if (!seen[std::size_t(index)]) continue;
    if (indices.count++ == 0) {
      indices.first = index;
    } else {
      const std::int64_t step = index - indices.last;
      indices.step = indices.count == 2 || indices.step == step ? step : 0;
    }
    indices.last = index;
  }
  return indices;
}

/// The range of some numbers.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_narrow() const { return high - low <= 1e-3 * std::abs(high); }
};

/// @param wrong  indices of the wrong elements, at least one, ascending
WrongPattern pattern_of(const Tensor& got, const std::vector<double>& expected,
                        const std::vector<std::size_t>& wrong) {
  constexpr std::uint32_t kPoison = 0xFFFFFFFF;
  WrongPattern pattern;
  for (std::size_t axis = 0; axis < got.shape.size(); ++axis)
    pattern.axes.push_back(indices_along(axis, wrong, got.shape));

  const std::size_t line_length = got.shape.empty() ? 1 : std::size_t(got.shape.back());
  Range all, line;
  bool is_number = true, same_in_lines = true;
  std::size_t lines = 0, elements_of_line = 0, longest = 0;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const float value = got.data[wrong[i]];
    if (std::bit_cast<std::uint32_t>(value) == kPoison) {
      ++pattern.unwritten;
    } else if (!std::isfinite(value) && std::isfinite(expected[wrong[i]])) {
      ++pattern.not_a_number;
    } else if (value == 0) {
      ++pattern.zeros;
    }
    const double factor = value / expected[wrong[i]];
    is_number = is_number && std::isfinite(factor) && factor != 0;
    all.add(factor);
    const bool is_new_line = i == 0 || wrong[i] / line_length != wrong[i - 1] / line_length;
    if (is_new_line) {
      line = {};
      elements_of_line = 0;
      ++lines;
    }
    line.add(factor);
    longest = std::max(longest, ++elements_of_line);
    same_in_lines = same_in_lines && line.is_narrow();
  }
  if (!is_number) return pattern;
  if (all.is_narrow() && wrong.size() > 1) {
    pattern.factor = all.low;
  } else {
    pattern.factor_per_line = same_in_lines && lines > 1 && longest > 1;
  }
  return pattern;
}

}  // namespace

bool Check::passed() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.second.passed; });
}

TensorCheck compare(const Tensor& got, const std::vector<double>& expected, Tolerance tolerance) {
  if (got.data.size() != expected.size()) {
    throw std::invalid_argument(
        fmt::format("{} elements to compare with {}", got.data.size(), expected.size()));
  }
  TensorCheck check{.measure = tolerance.measure, .tolerance = tolerance.limit, .elements = expected.size()};
  double squared_error = 0, squared_norm = 0;
  for (std::size_t element = 0; element < expected.size(); ++element) {
    const double error = distance(got.data[element], expected[element]);
    squared_error += error * error;
    if (std::isfinite(expected[element])) squared_norm += expected[element] * expected[element];
    if (!(error <= check.max_abs)) check.max_abs = std::isnan(check.max_abs) ? check.max_abs : error;
  }
  check.rel_l2 = squared_error == 0 ? 0 : std::sqrt(squared_error / squared_norm);
  check.passed = check.error() <= tolerance.limit;  // false for NaN
  if (check.passed) return check;

  std::vector<std::size_t> wrong;
  const double mean_square = squared_norm / double(expected.size());
  const auto may_be_off_by = [&](double value) {
    if (tolerance.measure == Measure::kMaxAbs) return tolerance.limit;
    const double square = std::isfinite(value) ? value * value : 0;
    return tolerance.limit * std::sqrt((square + mean_square) / 2);
  };
  for (std::size_t element = 0; element < expected.size(); ++element) {
    if (distance(got.data[element], expected[element]) <= may_be_off_by(expected[element])) continue;
    wrong.push_back(element);
  }
  check.wrong_elements = std::int64_t(wrong.size());
  if (!wrong.empty()) {
    check.first_wrong = {index_of(wrong[0], got.shape), got.data[wrong[0]], expected[wrong[0]]};
    check.pattern = pattern_of(got, expected, wrong);
  }
  return check;
}

}  // namespace fa
