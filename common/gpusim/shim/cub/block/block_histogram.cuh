/// @file
/// <cub/block/block_histogram.cuh>: a part of CUB.
#pragma once

#include "../gpusim_block.cuh"
