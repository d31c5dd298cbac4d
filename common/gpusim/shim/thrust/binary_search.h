/// @file
/// <thrust/binary_search.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
