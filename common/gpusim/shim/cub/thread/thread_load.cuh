/// @file
/// <cub/thread/thread_load.cuh>: a part of CUB.
#pragma once

#include "../gpusim_iterators.cuh"
