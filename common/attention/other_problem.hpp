/// @file
/// What a wrong kernel may compute instead.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attention/tensor.hpp"

namespace fa {

/// A problem that differs a little from another one, as if by mistake.
struct OtherProblem {
  std::string change;                    ///< "without the causal mask"
  std::function<Reference()> reference;  ///< its outputs, of the same shapes
};

/// Forward passes of attention with the mistakes that loading fragments of 16 x 16 elements invites, and with one input in
/// place of another.
/// @param reference  the outputs for these inputs
std::vector<OtherProblem> with_mistaken_inputs(const TensorMap& inputs,
                                               const std::function<Reference(const TensorMap&)>& reference);

}  // namespace fa
