#include "diagnosis/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>

namespace fa {

Margin::Margin(const std::vector<double>& expected, Tolerance tolerance) : tolerance_(tolerance) {
  for (const double value : expected) mean_square_ += std::isfinite(value) ? value * value : 0;
  mean_square_ /= double(std::max<std::size_t>(1, expected.size()));
}

double Margin::of(double expected) const {
  if (tolerance_.measure == Measure::kMaxAbs) return tolerance_.limit;
  const double square = std::isfinite(expected) ? expected * expected : 0;
  return tolerance_.limit * std::sqrt((square + mean_square_) / 2);
}

namespace {

/// Whether an element holds the poison of DeviceBuffer::poison(): in fp32, fp16 or bf16, a NaN of bits that
/// are all set.
bool is_unwritten(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return bits == 0xFFFFFFFF || bits == 0xFFFFE000 || bits == 0xFFFF0000;
}

/// The distance |got - expected|; 0 for two NaNs, for one where the tolerance accepts any, or for equal
/// infinities; NaN or inf if only one of the two is not finite.
double distance(const Tensor& got, const std::vector<double>& expected, const Tolerance& tolerance,
                std::size_t element) {
  const float x = got.data[element];
  const std::size_t parts = tolerance.nan_in_part.size();
  const bool may_be_nan =
      parts > 0 && tolerance.nan_in_part[element / (expected.size() / parts)] && !is_unwritten(x);
  if (double(x) == expected[element] || (std::isnan(x) && (may_be_nan || std::isnan(expected[element]))))
    return 0;
  return std::abs(double(x) - expected[element]);
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

constexpr double kMargins = 4;  // that a difference or a factor must exceed to be told from noise

/// Wrong elements, and the factor that fits them best if their values were only scaled.
class Scaled {
 public:
  Scaled(const Tensor& got, const std::vector<double>& expected, std::span<const std::size_t> elements)
      : got_(got), expected_(expected), elements_(elements) {
    double product = 0, square = 0;
    for (const std::size_t element : elements) {
      product += double(got.data[element]) * expected[element];
      square += expected[element] * expected[element];
      low_ = std::min(low_, expected[element]);
      high_ = std::max(high_, expected[element]);
    }
    factor_ = product / square;
  }

  double factor() const { return factor_; }

  /// Whether the expected values are the same. Any other constant is then off by one factor.
  bool is_constant() const { return high_ - low_ <= 1e-3 * std::abs(high_); }

  /// Whether each element is the factor times what it should be, within the margin. False if the factor is 0
  /// or NaN, or so close to 1 that the margin hides it.
  bool fits(const Margin& margin) const {
    return std::isfinite(factor_) && factor_ != 0 && std::abs(factor_ - 1) > kMargins * margin.limit() &&
           std::all_of(elements_.begin(), elements_.end(), [&](std::size_t element) {
             const double off = std::abs(got_.data[element] - factor_ * expected_[element]);
             return off <= std::abs(factor_) * margin.of(expected_[element]);
           });
  }

 private:
  const Tensor& got_;
  const std::vector<double>& expected_;
  std::span<const std::size_t> elements_;
  double factor_ = 0;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

/// Whether the wrong elements of each line are off by a factor of their own. Lines of equal expected values
/// say nothing.
bool has_factor_per_line(const Tensor& got, const std::vector<double>& expected,
                         std::span<const std::size_t> wrong, const Margin& margin) {
  const std::size_t line_length = got.shape.empty() ? 1 : std::size_t(got.shape.back());
  std::size_t telling = 0;
  for (std::size_t begin = 0, end; begin < wrong.size(); begin = end) {
    for (end = begin; end < wrong.size() && wrong[end] / line_length == wrong[begin] / line_length;) ++end;
    const Scaled line(got, expected, wrong.subspan(begin, end - begin));
    if (!line.fits(margin)) return false;
    telling += !line.is_constant();
  }
  return telling > 1;
}

/// got - expected, if it is the same for all wrong elements within the margin and the expected values differ
/// by more.
std::optional<double> same_difference(const Tensor& got, const std::vector<double>& expected,
                                      std::span<const std::size_t> wrong, const Margin& margin) {
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  for (const std::size_t element : wrong) {
    low = std::min(low, expected[element]);
    high = std::max(high, expected[element]);
    sum += got.data[element] - expected[element];
  }
  const double mean = sum / double(wrong.size());
  const bool is_same = std::all_of(wrong.begin(), wrong.end(), [&](std::size_t element) {
    return std::abs(got.data[element] - expected[element] - mean) <= margin.of(expected[element]);
  });
  const bool is_clear = std::abs(mean) > kMargins * margin.limit() && high - low > margin.limit();
  return is_same && is_clear ? std::optional(mean) : std::nullopt;
}

/// @param wrong  indices of the wrong elements, at least one, ascending
WrongPattern pattern_of(const Tensor& got, const std::vector<double>& expected, Tolerance tolerance,
                        const std::vector<std::size_t>& wrong) {
  WrongPattern pattern;
  for (std::size_t axis = 0; axis < got.shape.size(); ++axis)
    pattern.axes.push_back(indices_along(axis, wrong, got.shape));

  for (const std::size_t element : wrong) {
    const float value = got.data[element];
    if (is_unwritten(value)) {
      ++pattern.unwritten;
    } else if (!std::isfinite(value) && std::isfinite(expected[element])) {
      ++pattern.not_a_number;
    } else if (value == 0) {
      ++pattern.zeros;
    }
  }
  const Margin margin(expected, tolerance);
  if (tolerance.measure == Measure::kMaxAbs)
    pattern.difference = same_difference(got, expected, wrong, margin);
  else if (const Scaled all(got, expected, wrong); !all.fits(margin))
    pattern.factor_per_line = has_factor_per_line(got, expected, wrong, margin);
  else if (!all.is_constant())
    pattern.factor = all.factor();
  return pattern;
}

}  // namespace

bool Check::passed() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.second.passed; });
}

std::vector<std::size_t> wrong_elements(const Tensor& got, const std::vector<double>& expected,
                                        Tolerance tolerance) {
  const Margin margin(expected, tolerance);
  const auto beyond = [&](double margins) {
    std::vector<std::size_t> wrong;
    for (std::size_t element = 0; element < expected.size(); ++element) {
      if (!(distance(got, expected, tolerance, element) <= margins * margin.of(expected[element])))
        wrong.push_back(element);
    }
    return wrong;
  };
  const std::vector<std::size_t> clearly_wrong = beyond(2);
  return clearly_wrong.empty() ? beyond(1) : clearly_wrong;
}

TensorCheck compare(const Tensor& got, const std::vector<double>& expected, Tolerance tolerance) {
  if (got.data.size() != expected.size()) {
    throw std::invalid_argument(
        fmt::format("{} elements to compare with {}", got.data.size(), expected.size()));
  }
  TensorCheck check{.measure = tolerance.measure, .tolerance = tolerance.limit, .elements = expected.size()};
  double squared_error = 0, squared_norm = 0;
  for (std::size_t element = 0; element < expected.size(); ++element) {
    const double error = distance(got, expected, tolerance, element);
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
    check.pattern = pattern_of(got, expected, tolerance, wrong);
  }
  return check;
}

Check check_outputs(const TensorMap& outputs, const Reference& reference, const Tolerances& tolerances) {
  Check check;
  for (const auto& [name, output] : outputs) {
    check.tensors[name] = compare(output, reference.at(name), tolerances.at(name));
  }
  return check;
}

}  // namespace fa
