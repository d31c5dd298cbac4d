/// @file
/// <thrust/iterator/reverse_iterator.h>: a part of Thrust.
#pragma once

#include "../gpusim_algorithms.h"
