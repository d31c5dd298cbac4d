/// @file
/// Which rule of the driver a tensor map breaks: the driver itself only says that it refuses the map.
#pragma once

#include "gpusim/tensor_map_rules.hpp"

namespace fa {

using gpusim::broken_tensor_map_rule;

}  // namespace fa
