/// @file
/// <cub/thread/thread_store.cuh>: a part of CUB.
#pragma once

#include "../gpusim_iterators.cuh"
