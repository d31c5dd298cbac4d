/// @file
/// What a kernel computes that takes the keys in tiles and mistakes one tile for another, or masks the wrong
/// one.
#pragma once

#include <vector>

#include "attention/attention.hpp"
#include "attention/tensor.hpp"
#include "diagnosis/other_problem.hpp"

namespace fa {

/// Forward passes of attention in which tiles of 32, 64 or 128 keys are left out, counted twice, exchanged or
/// used in place of others, or where a mask is missing or in the wrong place. None for large problems.
std::vector<OtherProblem> with_mistaken_tiles(const AttentionShape& shape, const TensorMap& inputs);

}  // namespace fa
