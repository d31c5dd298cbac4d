/// @file
/// <thrust/adjacent_difference.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
