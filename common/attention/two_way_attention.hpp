/// @file
/// The problem of chapter 12: attention, forward or backward.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"

namespace fa {

struct TwoWayShape : AttentionShape {
  bool backward = false;  ///< the gradients are wanted, not O
};

/// AttentionForward, or with `backward` AttentionBackward. attention/problem.hpp describes the members.
struct TwoWayAttention {
  using Shape = TwoWayShape;

  struct Args : AttentionForward::Args {
    bool backward;
  };

  static constexpr std::string_view kName = "attention";

  static std::optional<Refusal> refuse(const Shape& shape) { return fa::refuse(shape); }
  static std::vector<TensorSpec> inputs(const Shape& shape) {
    return shape.backward ? AttentionBackward::inputs(shape) : AttentionForward::inputs(shape);
  }
  static std::vector<TensorSpec> outputs(const Shape& shape) {
    return shape.backward ? AttentionBackward::outputs(shape) : AttentionForward::outputs(shape);
  }
  static TensorMap random_inputs(const Shape& shape, Init init, std::uint64_t seed) {
    return shape.backward ? AttentionBackward::random_inputs(shape, init, seed)
                          : AttentionForward::random_inputs(shape, init, seed);
  }
  static Args bind(const Shape& shape, const std::map<std::string, void*>& buffers) {
    return {AttentionForward::bind(shape, buffers), shape.backward};
  }
  static Reference reference(const Shape& shape, const TensorMap& inputs) {
    return shape.backward ? AttentionBackward::reference(shape, inputs)
                          : AttentionForward::reference(shape, inputs);
  }
  static Excerpt<Shape> ends(const Shape& shape) {
    const Excerpt<AttentionShape> part = fa::ends(shape);
    return {.shape = {part.shape, shape.backward}, .cut = part.cut};
  }
  static Tolerances tolerances(const Shape& shape) {
    return shape.backward ? AttentionBackward::tolerances(shape) : AttentionForward::tolerances(shape);
  }
  static Tolerances tolerances(const Shape& shape, const TensorMap& inputs, const Reference& expected) {
    return shape.backward ? AttentionBackward::tolerances(shape, inputs, expected)
                          : AttentionForward::tolerances(shape, inputs, expected);
  }
  static std::string describe_inputs(const Shape& shape, const TensorMap& inputs, const std::string& output,
                                     const std::vector<std::int64_t>& index) {
    return shape.backward ? AttentionBackward::describe_inputs(shape, inputs, output, index)
                          : AttentionForward::describe_inputs(shape, inputs, output, index);
  }
  static double flops(const Shape& shape) {
    return shape.backward ? AttentionBackward::flops(shape) : AttentionForward::flops(shape);
  }
  static std::vector<std::pair<std::string, std::int64_t>> describe(const Shape& shape) {
    return AttentionForward::describe(shape);
  }
};

}  // namespace fa
