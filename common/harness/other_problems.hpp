/// @file
/// Wrong outputs that would be right for another problem: which operand a kernel loads in the wrong order, or exchanges,
/// and which parameter it ignores.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attention/other_problem.hpp"
#include "attention/tensor.hpp"
#include "harness/compare.hpp"

namespace fa {

/// The changed problems that make most wrong outputs right. Several if the outputs cannot tell them apart: with the rows
/// of K in another order, O is the same as with those of V in that order.
/// @param failed  the checks of outputs that failed
std::vector<AsIf> find_problems(const TensorMap& outputs, const std::map<std::string, TensorCheck>& failed,
                                const std::vector<OtherProblem>& problems);

/// The changes of inputs, if they have four dimensions, that are the mistakes which loading fragments of 16 x 16 elements
/// invites, and those that take an input for another.
std::vector<std::pair<std::string, TensorMap>> mistaken_inputs(const TensorMap& inputs);

}  // namespace fa
