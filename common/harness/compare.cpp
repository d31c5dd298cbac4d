#include "harness/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace fa {
namespace {

/// |got - expected|; 0 for two NaNs and for the same infinity, NaN or inf where only one of them is so.
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

}  // namespace

bool Check::passed() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.second.passed; });
}

TensorCheck compare(const Tensor& got, const std::vector<double>& expected, Tolerance tolerance) {
  if (got.data.size() != expected.size()) {
    throw std::invalid_argument(
        fmt::format("{} elements to compare with {}", got.data.size(), expected.size()));
  }
  TensorCheck check{.measure = tolerance.measure, .tolerance = tolerance.limit};
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

  const double mean_square = squared_norm / double(expected.size());
  const auto may_be_off_by = [&](double value) {
    if (tolerance.measure == Measure::kMaxAbs) return tolerance.limit;
    const double square = std::isfinite(value) ? value * value : 0;
    return tolerance.limit * std::sqrt((square + mean_square) / 2);
  };
  for (std::size_t element = 0; element < expected.size(); ++element) {
    if (distance(got.data[element], expected[element]) <= may_be_off_by(expected[element])) continue;
    if (check.wrong_elements++ == 0) {
      check.first_wrong = {index_of(element, got.shape), got.data[element], expected[element]};
    }
  }
  return check;
}

}  // namespace fa
