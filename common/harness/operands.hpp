/// @file
/// Wrong outputs that would be right for other inputs: which operand a kernel loads in the wrong order, or exchanges.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attention/tensor.hpp"
#include "attention/tolerance.hpp"

namespace fa {

/// A change of the inputs.
struct OperandChange {
  std::vector<std::string> inputs;  ///< that are changed
  std::string change;  ///< "rows 0 to 7 and 8 to 15 of every 16 swapped", or the name of the input in their place
  bool is_other_input = false;  ///< whether `change` is a name
};

/// The changes for which all outputs are right. Several if the outputs cannot tell them apart: with the rows of K in
/// another order, O is the same as with those of V in that order.
///
/// Tries the mistakes that loading fragments of 16 x 16 elements invites, on inputs of four dimensions.
/// @param reference  the outputs for these inputs; called some 40 times
std::vector<OperandChange> find_operand_changes(const TensorMap& outputs, const TensorMap& inputs,
                                                const Tolerances& tolerances,
                                                const std::function<Reference(const TensorMap&)>& reference);

}  // namespace fa
