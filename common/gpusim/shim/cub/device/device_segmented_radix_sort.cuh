/// @file
/// <cub/device/device_segmented_radix_sort.cuh>: a part of CUB.
#pragma once

#include "../gpusim_device.cuh"
