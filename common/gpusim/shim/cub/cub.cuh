/// @file
/// <cub/cub.cuh>: a part of CUB.
#pragma once

#include "gpusim_block.cuh"
#include "gpusim_device.cuh"
