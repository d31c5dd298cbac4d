/// @file
/// What a wrong kernel may compute instead.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "attention/tensor.hpp"

namespace fa {

/// A problem that differs a little from another one, as if by mistake.
struct OtherProblem {
  std::string change;                    ///< "without the causal mask"
  std::function<Reference()> reference;  ///< its outputs, of the same shapes
  /// A quick test, if there is one: if it is false, these are not the outputs of this problem.
  std::function<bool(const TensorMap& outputs)> may_fit = {};
};

/// Row and column in a matrix.
struct Place {
  std::int64_t row, col;
};

/// A way to read a matrix in the wrong order.
struct Disorder {
  const char* words;        ///< "rows 0 to 7 and 8 to 15 of every 16 swapped"
  Place (*source)(Place);   ///< where the element is read that belongs in a place
  bool mixes_rows = false;  ///< whether a row gets elements of several rows
};

/// The mistakes that loading fragments of 16 x 16 elements invites.
std::span<const Disorder> disorders();

/// Forward passes of attention with Q, K or V in disorder, and with one input in place of another.
/// @param reference  the outputs for these inputs
std::vector<OtherProblem> with_mistaken_inputs(const TensorMap& inputs,
                                               const std::function<Reference(const TensorMap&)>& reference);

}  // namespace fa
