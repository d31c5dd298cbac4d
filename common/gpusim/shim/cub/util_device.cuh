/// @file
/// <cub/util_device.cuh>: a part of CUB.
#pragma once

#include "gpusim_iterators.cuh"
