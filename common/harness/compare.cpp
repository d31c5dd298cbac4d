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

/// The ranges of `seen`, up to `end`; none if there are too many.
std::vector<IndexRange> ranges_of(const std::vector<bool>& seen, std::size_t end) {
  std::vector<IndexRange> ranges;
  for (std::size_t index = 0; index < end; ++index) {
    if (!seen[index]) continue;
    if (index > 0 && seen[index - 1]) {
      ranges.back().last = std::int64_t(index);
    } else if (ranges.size() == WrongIndices::kMostRanges) {
      return {};
    } else {
      ranges.push_back({std::int64_t(index), std::int64_t(index)});
    }
  }
  return ranges;
}

bool has_period(const std::vector<bool>& seen, std::size_t period) {
  return std::equal(seen.begin() + std::ptrdiff_t(period), seen.end(), seen.begin());
}

void find_ranges(const std::vector<bool>& seen, WrongIndices& indices) {
  indices.ranges = ranges_of(seen, seen.size());
  if (!indices.ranges.empty()) return;
  for (std::size_t period = 2; period <= std::min<std::size_t>(seen.size() / 2, 1024); ++period) {
    if (!has_period(seen, period)) continue;
    indices.ranges = ranges_of(seen, period);
    if (!indices.ranges.empty()) indices.period = std::int64_t(period);
    return;
  }
}

WrongIndices indices_along(std::size_t axis, const std::vector<std::size_t>& wrong,
                           const std::vector<std::int64_t>& shape) {
  const std::size_t length = std::size_t(shape[axis]);
  std::size_t stride = 1;
  for (std::size_t inner = axis + 1; inner < shape.size(); ++inner) stride *= std::size_t(shape[inner]);
  std::vector<bool> seen(length);
  for (const std::size_t element : wrong) seen[element / stride % length] = true;
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
  find_ranges(seen, indices);
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

/// Sets the fields of the pattern that are about factors.
void find_factors(const Tensor& got, const std::vector<double>& expected,
                  const std::vector<std::size_t>& wrong, WrongPattern& pattern) {
  const std::size_t line_length = got.shape.empty() ? 1 : std::size_t(got.shape.back());
  Range factors, values, factors_of_line, values_of_line;
  bool same_in_lines = true;
  std::size_t telling_lines = 0;  // with different expected values
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const double value = expected[wrong[i]], factor = got.data[wrong[i]] / value;
    if (!std::isfinite(factor) || factor == 0) return;
    factors.add(factor);
    values.add(value);
    if (i == 0 || wrong[i] / line_length != wrong[i - 1] / line_length) factors_of_line = values_of_line = {};
    const bool was_constant = values_of_line.is_narrow();
    factors_of_line.add(factor);
    values_of_line.add(value);
    telling_lines += was_constant && !values_of_line.is_narrow();
    same_in_lines = same_in_lines && factors_of_line.is_narrow();
  }
  if (factors.is_narrow()) {
    if (!values.is_narrow()) pattern.factor = factors.low;
  } else {
    pattern.factor_per_line = same_in_lines && telling_lines > 1;
  }
}

/// @param wrong  indices of the wrong elements, at least one, ascending
WrongPattern pattern_of(const Tensor& got, const std::vector<double>& expected,
                        const std::vector<std::size_t>& wrong) {
  constexpr std::uint32_t kPoison = 0xFFFFFFFF;
  WrongPattern pattern;
  for (std::size_t axis = 0; axis < got.shape.size(); ++axis)
    pattern.axes.push_back(indices_along(axis, wrong, got.shape));

  for (const std::size_t element : wrong) {
    const float value = got.data[element];
    if (std::bit_cast<std::uint32_t>(value) == kPoison) {
      ++pattern.unwritten;
    } else if (!std::isfinite(value) && std::isfinite(expected[element])) {
      ++pattern.not_a_number;
    } else if (value == 0) {
      ++pattern.zeros;
    }
  }
  find_factors(got, expected, wrong, pattern);
  return pattern;
}

}  // namespace

bool Check::passed() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.second.passed; });
}

Margin::Margin(const std::vector<double>& expected, Tolerance tolerance) : tolerance_(tolerance) {
  for (const double value : expected) mean_square_ += std::isfinite(value) ? value * value : 0;
  mean_square_ /= double(std::max<std::size_t>(1, expected.size()));
}

double Margin::of(double expected) const {
  if (tolerance_.measure == Measure::kMaxAbs) return tolerance_.limit;
  const double square = std::isfinite(expected) ? expected * expected : 0;
  return tolerance_.limit * std::sqrt((square + mean_square_) / 2);
}

std::vector<std::size_t> wrong_elements(const Tensor& got, const std::vector<double>& expected,
                                        Tolerance tolerance) {
  const Margin margin(expected, tolerance);
  std::vector<std::size_t> wrong;
  for (std::size_t element = 0; element < expected.size(); ++element) {
    if (!(distance(got.data[element], expected[element]) <= margin.of(expected[element])))
      wrong.push_back(element);
  }
  return wrong;
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

  const std::vector<std::size_t> wrong = wrong_elements(got, expected, tolerance);
  check.wrong_elements = std::int64_t(wrong.size());
  if (!wrong.empty()) {
    check.first_wrong = {index_of(wrong[0], got.shape), got.data[wrong[0]], expected[wrong[0]]};
    check.pattern = pattern_of(got, expected, wrong);
  }
  return check;
}

}  // namespace fa
