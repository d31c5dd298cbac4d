/// @file
/// The backward pass of each variant. It needs O and LSE of the variant's forward pass, in the workspace.
#pragma once

#include "pass.hpp"

namespace fa::ch11::backward {

Pass masked_everywhere();
Pass skip_empty();
Pass three_kinds();
Pass compressed();
Pass block_sparse();
Pass dropout();
Pass scores();

}  // namespace fa::ch11::backward
