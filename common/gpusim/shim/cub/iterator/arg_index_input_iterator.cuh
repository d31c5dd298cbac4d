/// @file
/// <cub/iterator/arg_index_input_iterator.cuh>: a part of CUB.
#pragma once

#include "../gpusim_iterators.cuh"
