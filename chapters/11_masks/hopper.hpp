/// @file
/// Both passes of `hopper`. Their kernels are compiled for sm_90a, and run on no other GPU.
#pragma once

#include "pass.hpp"

namespace fa::ch11::hopper {

Pass forward();
/// Needs O and LSE of the forward pass, in the workspace.
Pass backward();

}  // namespace fa::ch11::hopper
