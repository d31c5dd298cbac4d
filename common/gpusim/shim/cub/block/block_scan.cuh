/// @file
/// <cub/block/block_scan.cuh>: a part of CUB.
#pragma once

#include "../gpusim_block.cuh"
