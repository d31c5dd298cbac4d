/// @file
/// Chapter 01 as the harness sees it.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"

namespace fa {
using namespace ch01;
namespace {

using Shape = Softmax::Shape;
using Args = Softmax::Args;
using Step = Variant<Softmax>;  // spelled out for each variant below: g++ 12 fails on bare braces

/// How many blocks cover this many rows.
void launch_unsafe(const Args& a, cudaStream_t stream) {
  launch(unsafe_softmax, blocks_for(a.rows, kBlockThreads), kBlockThreads, 0, stream, a.x, a.y, a.rows,
         a.cols);
}

void launch_row_per_thread(const Args& a, cudaStream_t stream) {
  launch(row_per_thread_softmax, blocks_for(a.rows, kBlockThreads), kBlockThreads, 0, stream, a.x, a.y,
         a.rows, a.cols);
}

void launch_row_per_warp(const Args& a, cudaStream_t stream) {
  launch(row_per_warp_softmax, blocks_for(a.rows, kWarps), kBlockThreads, 0, stream, a.x, a.y, a.rows,
         a.cols);
}

void launch_row_per_block(const Args& a, cudaStream_t stream) {
  launch(row_per_block_softmax, unsigned(a.rows), kBlockThreads, 0, stream, a.x, a.y, a.rows, a.cols);
}

/// x is read once per pass, y is written once.
Traffic traffic_of_passes(const Shape& shape, int passes) {
  const std::int64_t matrix = shape.rows * shape.cols * std::int64_t(sizeof(float));
  return {.tensors = {{"x", {.read_bytes = passes * matrix}}, {"y", {.write_bytes = matrix}}}};
}

Traffic two_passes(const Shape& shape) { return traffic_of_passes(shape, 2); }
Traffic three_passes(const Shape& shape) { return traffic_of_passes(shape, 3); }

/// Why `unsafe` fails on these inputs, if it does: fp32 cannot hold the sum of exp(x) of some row.
///
/// Too large: log sum exp(x) exceeds log(FLT_MAX) = 88.7. Too small: max x is below log(FLT_MIN) = -87.3,
/// where exp(x) loses digits and eventually becomes 0. A row that holds only -inf comes out right, and so
/// does a row with a NaN.
std::optional<std::string> sum_out_of_range(const Shape& shape, const TensorMap& inputs) {
  const double highest = std::log(double(FLT_MAX)), lowest = std::log(double(FLT_MIN));
  const float* x = inputs.at("x").data.data();
  for (std::int64_t row = 0; row < shape.rows; ++row, x += shape.cols) {
    double m = -std::numeric_limits<double>::infinity();
    bool has_nan = false;
    for (std::int64_t col = 0; col < shape.cols; ++col) {
      m = std::max(m, double(x[col]));
      has_nan = has_nan || std::isnan(x[col]);
    }
    if (has_nan || m == -std::numeric_limits<double>::infinity()) continue;

    double lse = m;  // between max x and max x + log(cols)
    if (m <= highest && m + std::log(double(shape.cols)) > highest) {
      double l = 0;
      for (std::int64_t col = 0; col < shape.cols; ++col) l += std::exp(double(x[col]) - m);
      lse = m + std::log(l);
    }
    const std::string name = "row " + std::to_string(row);
    if (lse > highest) return name + ": the sum of exp(x) exceeds 3.4e38, the largest fp32 number";
    if (m < lowest) return name + ": every exp(x) is below 1.2e-38, where fp32 loses precision";
  }
  return std::nullopt;
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<Softmax>{
      .name = "01_safe_softmax",
      .title = "Safe softmax in three passes",
      .variants = {
          Step{.name = "unsafe",
               .summary = "one thread per row, no maximum subtracted: two passes, but exp(x) can overflow",
               .launch = launch_unsafe,
               .traffic = two_passes,
               .known_failure = sum_out_of_range},
          Step{.name = "row_per_thread",
               .summary = "subtracts the row's maximum: one more pass, and no overflow",
               .launch = launch_row_per_thread,
               .traffic = three_passes},
          Step{.name = "row_per_warp",
               .summary = "one warp per row: neighbouring lanes read neighbouring columns",
               .launch = launch_row_per_warp,
               .traffic = three_passes},
          Step{.name = "row_per_block",
               .summary = "one block per row: its warps exchange results through shared memory",
               .launch = launch_row_per_block,
               .traffic = three_passes},
      }};
}

}  // namespace fa
