/// @file
/// <cub/iterator/counting_input_iterator.cuh>: a part of CUB.
#pragma once

#include "../gpusim_iterators.cuh"
