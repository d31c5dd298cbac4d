/// @file
/// <cub/iterator/transform_input_iterator.cuh>: a part of CUB.
#pragma once

#include "../gpusim_iterators.cuh"
