/// @file
/// <thrust/iterator/iterator_traits.h>: a part of Thrust.
#pragma once

#include "../gpusim_algorithms.h"
