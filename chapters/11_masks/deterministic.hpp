/// @file
/// The backward pass of the variant `deterministic`.
#pragma once

#include "pass.hpp"

namespace fa::ch11::deterministic {

Pass backward();

}  // namespace fa::ch11::deterministic
