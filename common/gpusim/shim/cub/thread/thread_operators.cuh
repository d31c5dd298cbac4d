/// @file
/// <cub/thread/thread_operators.cuh>: a part of CUB.
#pragma once

#include "../gpusim_iterators.cuh"
