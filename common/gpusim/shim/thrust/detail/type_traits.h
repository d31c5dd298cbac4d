/// @file
/// <thrust/detail/type_traits.h>: a part of Thrust.
#pragma once

#include "../gpusim_algorithms.h"
