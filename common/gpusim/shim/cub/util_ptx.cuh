/// @file
/// <cub/util_ptx.cuh>: a part of CUB.
#pragma once

#include "gpusim_iterators.cuh"
