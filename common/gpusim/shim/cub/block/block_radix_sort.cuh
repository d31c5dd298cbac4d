/// @file
/// <cub/block/block_radix_sort.cuh>: a part of CUB.
#pragma once

#include "../gpusim_block.cuh"
