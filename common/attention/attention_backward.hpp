/// @file
/// The problem of chapters 08 and 10: the backward pass of attention.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/attention_forward.hpp"

namespace fa {

/// The gradients of a loss with respect to Q, K and V, given dO, its gradient with respect to O.
///
/// With P = softmax(scale * Q K^T), O = P V and D = rowsum(dO * O) (Dao et al. 2022, appendix B.2):
///
///   dV = P^T dO    dP = dO V^T    dS = P * (dP - D)    dQ = scale * dS K    dK = scale * dS^T Q
///
/// dK and dV are summed over the query heads that share a head of K and V. Shapes and types are those of Q, K
/// and V; dO is like O. A query that sees no key has the gradient 0, as does a key that no query sees.
///
/// O and LSE are not inputs: a chapter computes them itself and keeps them in its workspace.
/// attention/problem.hpp describes the members.
struct AttentionBackward {
  using Shape = AttentionShape;
  using Args = AttentionForward::Args;  ///< buffers: q, k, v, do, dq, dk, dv and the variant's workspace

  static constexpr std::string_view kName = "attention_backward";

  static std::optional<Refusal> refuse(const Shape& shape) { return fa::refuse(shape); }

  static std::vector<TensorSpec> inputs(const Shape& shape);
  static std::vector<TensorSpec> outputs(const Shape& shape);

  /// Q, K and V as AttentionForward::random_inputs(), dO normal (uniform with Init::kUniform).
  static TensorMap random_inputs(const Shape& shape, Init init, std::uint64_t seed);

  static Args bind(const Shape& shape, const std::map<std::string, void*>& buffers) {
    return AttentionForward::bind(shape, buffers);
  }

  /// Gradients in float64, computed on all cores from inputs rounded to the shape's dtype. Memory grows with
  /// the lengths, not with their product.
  static Reference reference(const Shape& shape, const TensorMap& inputs);

  static Excerpt<Shape> ends(const Shape& shape) { return fa::ends(shape); }

  /// Relative L2 error of each gradient: 2e-5 in fp32, more in 16 bits. With a single key, dQ and dK are 0,
  /// and their largest elements are judged instead.
  static Tolerances tolerances(const Shape& shape);
  /// The limits on these inputs. In 16 bits, those of dQ and dK are wider than tolerances(shape) by what
  /// rounding O costs: D is computed from the rounded O, and the error of D does not cancel in dP - D. It
  /// matters if the rows of V, and those of K, have much in common. And as with AttentionForward, limits are
  /// wider where logits are large, and NaN is accepted where one of a hidden key may spread to.
  /// @param gradients  reference(shape, inputs)
  static Tolerances tolerances(const Shape& shape, const TensorMap& inputs, const Reference& gradients);

  /// For an element of dq, as AttentionForward::describe_inputs(); otherwise empty.
  static std::string describe_inputs(const Shape& shape, const TensorMap& inputs, const std::string& output,
                                     const std::vector<std::int64_t>& index) {
    return output == "dq" ? AttentionForward::describe_inputs(shape, inputs, "o", index) : "";
  }

  /// Five matrix products, compared with two in the forward pass: 6 * head_dim + 4 * value_dim() for each
  /// query and each key that it sees.
  static double flops(const Shape& shape);

  static std::vector<std::pair<std::string, std::int64_t>> describe(const Shape& shape) {
    return AttentionForward::describe(shape);
  }
};

}  // namespace fa
