/// @file
/// <cub/cub.cuh>: a part of CUB.
#pragma once

#include "gpusim_device.cuh"
#include "gpusim_block.cuh"
