/// @file
/// What is wrong with outputs that failed their check: it shows what a kernel leaves out, exchanges or reads
/// in the wrong order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "attention/decoding_attention.hpp"
#include "attention/masked_attention.hpp"
#include "attention/problem.hpp"
#include "attention/softmax.hpp"
#include "attention/tensor.hpp"
#include "attention/two_way_attention.hpp"
#include "diagnosis/compare.hpp"
#include "diagnosis/other_problem.hpp"

namespace fa {

/// What a wrong kernel may compute instead of a problem.
/// @param inputs  must outlive the result
template <Problem P>
std::vector<OtherProblem> other_problems(const typename P::Shape& shape, const TensorMap& inputs);

/// None.
template <>
std::vector<OtherProblem> other_problems<Softmax>(const Softmax::Shape& shape, const TensorMap& inputs);

/// Without the mask; without the scale, or with it applied twice; with another head of K and V for a head of
/// Q; with P in disorder; with_mistaken_inputs() and with_mistaken_tiles().
template <>
std::vector<OtherProblem> other_problems<AttentionForward>(const AttentionShape& shape,
                                                           const TensorMap& inputs);

/// Without the mask, and with a factor or an operand of the formulas left out or exchanged for another.
template <>
std::vector<OtherProblem> other_problems<AttentionBackward>(const AttentionShape& shape,
                                                            const TensorMap& inputs);

/// Those of AttentionForward or AttentionBackward.
template <>
std::vector<OtherProblem> other_problems<TwoWayAttention>(const TwoWayShape& shape, const TensorMap& inputs);

/// Without each of the masks, with one that is off by one or evaluated for whole tiles, and with mistakes in
/// dropout, in modified scores and in the formulas of the gradients. None for large problems.
template <>
std::vector<OtherProblem> other_problems<MaskedAttention>(const MaskedShape& shape, const TensorMap& inputs);

/// Those of AttentionForward, made in every sequence, and what goes wrong with pages and with scales.
template <>
std::vector<OtherProblem> other_problems<DecodingAttention>(const DecodingShape& shape,
                                                            const TensorMap& inputs);

/// The changed problems that make most wrong outputs right. Several if the outputs cannot tell them apart:
/// with the rows of K in another order, O is the same as with those of V in that order. None that explains
/// only NaN, and none that would make a right O or LSE wrong.
std::vector<AsIf> find_problems(const TensorMap& outputs, const Check& check,
                                const std::vector<OtherProblem>& problems);

/// Adds to each tensor that failed where its values belong.
void find_relocations(Check& check, const TensorMap& outputs, const Reference& reference,
                      const Tolerances& tolerances, const TensorMap& inputs);

/// The problems that differ a little from this one and for which outputs that failed are right. None if
/// computing their references would take long.
template <Problem P>
std::vector<AsIf> find_problems(const typename P::Shape& shape, const TensorMap& inputs,
                                const TensorMap& outputs, const Check& check) {
  constexpr double kMostFlops = 1 << 23;  // a reference then takes a few milliseconds
  if (P::flops(shape) == 0 || P::flops(shape) > kMostFlops) return {};
  return find_problems(outputs, check, other_problems<P>(shape, inputs));
}

/// Adds to a check that failed everything that can be told of the wrong elements.
template <Problem P>
void diagnose(Check& check, const typename P::Shape& shape, const TensorMap& inputs, const TensorMap& outputs,
              const Reference& reference, const Tolerances& tolerances) {
  find_relocations(check, outputs, reference, tolerances, inputs);
  check.as_if = find_problems<P>(shape, inputs, outputs, check);
  for (auto& [name, tensor] : check.tensors) {
    if (tensor.first_wrong)
      tensor.first_wrong->inputs = P::describe_inputs(shape, inputs, name, tensor.first_wrong->index);
  }
}

}  // namespace fa
