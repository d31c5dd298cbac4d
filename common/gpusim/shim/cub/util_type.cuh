/// @file
/// <cub/util_type.cuh>: a part of CUB.
#pragma once

#include "gpusim_iterators.cuh"
