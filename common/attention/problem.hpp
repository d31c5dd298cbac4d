/// @file
/// What the harness requires of a problem: the concept that Softmax, AttentionForward, AttentionBackward,
/// MaskedAttention, TwoWayAttention and DecodingAttention satisfy.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/inputs.hpp"
#include "attention/refusal.hpp"
#include "attention/tensor.hpp"
#include "attention/tolerance.hpp"

namespace fa {

/// A problem says which tensors go in and come out for a shape, what the right outputs are, and what its
/// sizes are called. It knows no chapter, no command line and no device.
///
/// | member                    | meaning                                                                  |
/// |---------------------------|--------------------------------------------------------------------------|
/// | `Shape`                   | the sizes, and everything else that determines the result except the inputs|
/// | `Args`                    | the arguments of a kernel launch: device pointers and sizes               |
/// | `kName`                   | the name in reports                                                       |
/// | `refuse(shape)`           | why the shape cannot be computed, naming the option; nothing if it can    |
/// | `inputs`, `outputs`       | the tensors of that shape, in the order of the kernel's arguments         |
/// | `random_inputs(shape,..)` | inputs of a distribution, by name                                         |
/// | `bind(shape, buffers)`    | `Args` from device addresses by tensor name                               |
/// | `reference(shape, in)`    | the outputs in float64                                                    |
/// | `ends(shape)`             | a part to check alone if the whole reference would take minutes           |
/// | `tolerances(shape)`       | the largest error of each output                                          |
/// | `tolerances(shape, in, r)`| optional: on these inputs, looked at only if that is exceeded              |
/// | `describe_inputs(..)`     | a line on the inputs of an output's element, if they are few              |
/// | `flops(shape)`            | operations that the TFLOP/s column counts; 0 for none                     |
/// | `describe(shape)`         | the sizes by name, as reports show them                                   |
template <class P>
concept Problem = std::default_initializable<typename P::Shape> &&
    requires(const typename P::Shape& shape, const TensorMap& inputs,
             const std::map<std::string, void*>& buffers, Init init, std::uint64_t seed,
             const std::string& output, const std::vector<std::int64_t>& index) {
  { P::kName } -> std::convertible_to<std::string_view>;
  { P::refuse(shape) } -> std::same_as<std::optional<Refusal>>;
  { P::inputs(shape) } -> std::same_as<std::vector<TensorSpec>>;
  { P::outputs(shape) } -> std::same_as<std::vector<TensorSpec>>;
  { P::random_inputs(shape, init, seed) } -> std::same_as<TensorMap>;
  { P::bind(shape, buffers) } -> std::same_as<typename P::Args>;
  { P::reference(shape, inputs) } -> std::same_as<Reference>;
  { P::ends(shape) } -> std::same_as<Excerpt<typename P::Shape>>;
  { P::tolerances(shape) } -> std::same_as<Tolerances>;
  { P::describe_inputs(shape, inputs, output, index) } -> std::same_as<std::string>;
  { P::flops(shape) } -> std::same_as<double>;
  { P::describe(shape) } -> std::same_as<std::vector<std::pair<std::string, std::int64_t>>>;
};

}  // namespace fa
