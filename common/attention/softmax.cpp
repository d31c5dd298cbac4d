#include "attention/softmax.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>
#include <tuple>

#include "attention/parallel.hpp"
#include "attention/problem.hpp"

namespace fa {

static_assert(Problem<Softmax>);

std::optional<Refusal> Softmax::refuse(const Shape& shape) {
  constexpr std::int64_t kMostCols = 1 << 30;  // a kernel that steps over the end must not leave `int`
  const std::tuple<std::string_view, std::int64_t, std::int64_t> lengths[] = {
      {"rows", shape.rows, INT_MAX}, {"cols", shape.cols, kMostCols}};
  for (const auto& [name, length, most] : lengths) {
    if (length < 1 || length > most) {
      return Refusal::problem(fmt::format("--{} is {}: must be from 1 to {}", name, length, most));
    }
  }
  // The product fits; its bytes in float64 must fit as well.
  constexpr std::int64_t kMostElements =
      std::numeric_limits<std::int64_t>::max() / std::int64_t(sizeof(double));
  if (shape.rows * shape.cols > kMostElements) {
    return Refusal::problem(fmt::format("--rows {} times --cols {}: must be at most {} elements", shape.rows,
                                        shape.cols, kMostElements));
  }
  return std::nullopt;
}

std::vector<TensorSpec> Softmax::inputs(const Shape& shape) {
  return {{.name = "x", .shape = {shape.rows, shape.cols}}};
}

std::vector<TensorSpec> Softmax::outputs(const Shape& shape) {
  return {{.name = "y", .shape = {shape.rows, shape.cols}}};
}

TensorMap Softmax::random_inputs(const Shape& shape, Init init, std::uint64_t seed) {
  return random_tensors(inputs(shape), init, seed);
}

Softmax::Args Softmax::bind(const Shape& shape, const std::map<std::string, void*>& buffers) {
  return {.x = static_cast<const float*>(buffers.at("x")),
          .y = static_cast<float*>(buffers.at("y")),
          .rows = int(shape.rows),
          .cols = int(shape.cols)};
}

Reference Softmax::reference(const Shape& shape, const TensorMap& inputs) {
  const std::vector<float>& x = inputs.at("x").data;
  std::vector<double> y(x.size());
  const auto softmax_of_row = [&](std::int64_t row) {
    const float* in = x.data() + row * shape.cols;
    double* out = y.data() + row * shape.cols;
    double max = -std::numeric_limits<double>::infinity();
    bool undefined = false;
    for (std::int64_t col = 0; col < shape.cols; ++col) {
      undefined = undefined || std::isnan(in[col]) || in[col] == std::numeric_limits<float>::infinity();
      max = std::max(max, double(in[col]));
    }
    if (undefined) {
      std::fill(out, out + shape.cols, std::numeric_limits<double>::quiet_NaN());
      return;
    }
    if (std::isinf(max)) return;  // -inf only: the zeros that are there already
    double sum = 0;
    for (std::int64_t col = 0; col < shape.cols; ++col) sum += out[col] = std::exp(double(in[col]) - max);
    for (std::int64_t col = 0; col < shape.cols; ++col) out[col] /= sum;
  };

  constexpr std::int64_t kElementsOfRange = 1 << 16;
  parallel_for(shape.rows, kElementsOfRange / shape.cols + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) softmax_of_row(row);
  });
  return {{"y", std::move(y)}};
}

Excerpt<Softmax::Shape> Softmax::ends(const Shape& shape) {
  constexpr std::int64_t kRows = 256;
  if (shape.rows <= 2 * kRows) return {.shape = shape, .cut = [](const TensorMap& whole) { return whole; }};
  const auto cut = [cols = shape.cols](const TensorMap& tensors) {
    TensorMap parts;
    for (const auto& [name, tensor] : tensors) {
      parts[name] = {.shape = {2 * kRows, cols}, .data = both_ends(tensor.data, std::size_t(kRows * cols))};
    }
    return parts;
  };
  return {.shape = {.rows = 2 * kRows, .cols = shape.cols}, .cut = cut};
}

Tolerances Softmax::tolerances(const Shape& shape) {
  // exp() and the quotient are off by a few times 2^-24. A sum that one thread makes in order wanders off by
  // up to 0.8e-7 * sqrt(cols): the worst of 60 rows of random numbers, from 33 to a million columns.
  return {{"y", {Measure::kRelL2, std::max(1e-6, 1e-7 * std::sqrt(double(shape.cols)))}}};
}

std::string Softmax::describe_inputs(const Shape& shape, const TensorMap& inputs, const std::string&,
                                     const std::vector<std::int64_t>& index) {
  constexpr std::int64_t kMostShown = 8;
  const std::int64_t row = index.at(0), col = index.at(1);
  const float* x = inputs.at("x").data.data() + row * shape.cols;
  if (shape.cols <= kMostShown)
    return fmt::format("row {} of x is {:.6g}", row, fmt::join(x, x + shape.cols, ", "));
  const std::int64_t top = std::max_element(x, x + shape.cols) - x;
  return fmt::format("x[{}, {}] is {:.6g}, the maximum of its row is x[{}, {}] = {:.6g}", row, col, x[col],
                     row, top, x[top]);
}

double Softmax::flops(const Shape& /*shape*/) { return 0; }

std::vector<std::pair<std::string, std::int64_t>> Softmax::describe(const Shape& shape) {
  return {{"rows", shape.rows}, {"cols", shape.cols}};
}

}  // namespace fa
