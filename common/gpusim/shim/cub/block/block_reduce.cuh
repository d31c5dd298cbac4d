/// @file
/// <cub/block/block_reduce.cuh>: a part of CUB.
#pragma once

#include "../gpusim_block.cuh"
