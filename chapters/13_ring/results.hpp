/// @file
/// What all ranks have seen, as one result.
#pragma once

#include "harness/result.hpp"
#include "ranks.hpp"

namespace fa::ch13 {

/// Counts added up, defects of all ranks, links in the order of the ranks. On all ranks the same.
VariantResult sum_of_ranks(Ranks& ranks, const VariantResult& mine);

}  // namespace fa::ch13
