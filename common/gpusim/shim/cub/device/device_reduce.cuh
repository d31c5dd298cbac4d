/// @file
/// <cub/device/device_reduce.cuh>: a part of CUB.
#pragma once

#include "../gpusim_device.cuh"
