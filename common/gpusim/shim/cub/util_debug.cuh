/// @file
/// <cub/util_debug.cuh>: a part of CUB.
#pragma once

#include "gpusim_iterators.cuh"
