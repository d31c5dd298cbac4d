/// @file
/// <cub/device/device_partition.cuh>: a part of CUB.
#pragma once

#include "../gpusim_device.cuh"
