/// @file
/// The problem of chapters 01 and 02: softmax over the rows of a matrix.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/inputs.hpp"
#include "attention/refusal.hpp"
#include "attention/tensor.hpp"
#include "attention/tolerance.hpp"
#include "attention/traffic.hpp"

namespace fa {

/// y[r, c] = exp(x[r, c]) / sum_j exp(x[r, j]).
///
/// A row that contains only -inf gives zeros; a row that contains NaN or +inf gives NaN throughout.
///
/// Every problem of the tutorial has the members of this class, which the harness uses
/// (concept fa::Problem in attention/problem.hpp).
struct Softmax {
  /// x and y are [rows, cols], fp32.
  struct Shape {
    std::int64_t rows = 1;
    std::int64_t cols = 1;
  };

  /// The arguments of a kernel launch. Pointers to device memory.
  struct Args {
    const float* x;
    float* y;
    int rows;
    int cols;
  };

  static constexpr std::string_view kName = "softmax";

  /// Nothing if the shape can be computed, otherwise what is wrong, naming the option: "--rows is 0: must be
  /// ..".
  static std::optional<Refusal> refuse(const Shape& shape);

  static std::vector<TensorSpec> inputs(const Shape& shape);
  static std::vector<TensorSpec> outputs(const Shape& shape);

  static TensorMap random_inputs(const Shape& shape, Init init, std::uint64_t seed);

  /// @param buffers  device addresses of all inputs and outputs, by name
  static Args bind(const Shape& shape, const std::map<std::string, void*>& buffers);

  /// Outputs in float64, computed on all cores with the maximum subtracted.
  static Reference reference(const Shape& shape, const TensorMap& inputs);

  /// The first and the last 256 rows.
  static Excerpt<Shape> ends(const Shape& shape);

  /// The largest relative L2 error of an fp32 kernel in each output: 1e-6, and more for rows of more than 100
  /// columns, so that a thread may sum a whole row.
  static Tolerances tolerances(const Shape& shape);

  /// "row 2 of x is 0.3, 120.3", or for a long row "x[2, 9] is 0.3, the maximum of its row is x[2, 4] =
  /// 120.3".
  /// @param index  of an element of y
  static std::string describe_inputs(const Shape& shape, const TensorMap& inputs, const std::string& output,
                                     const std::vector<std::int64_t>& index);

  /// Floating-point operations that the TFLOP/s column counts; 0: the problem is bound by bytes, show none.
  static double flops(const Shape& shape);

  /// {"rows", n}, {"cols", n}: the shape for the JSON report.
  static std::vector<std::pair<std::string, std::int64_t>> describe(const Shape& shape);
};

}  // namespace fa
