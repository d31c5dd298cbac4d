/// @file
/// <cub/util_macro.cuh>: a part of CUB.
#pragma once

#include "gpusim_iterators.cuh"
