/// @file
/// Wrong outputs that would be right for another problem: it shows what a kernel leaves out, exchanges or reads in the wrong
/// order.
#pragma once

#include <map>
#include <string>
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

}  // namespace fa
