/// @file
/// <cub/util_allocator.cuh>: a part of CUB.
#pragma once

#include "gpusim_iterators.cuh"
