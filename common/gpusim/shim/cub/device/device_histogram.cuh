/// @file
/// <cub/device/device_histogram.cuh>: a part of CUB.
#pragma once

#include "../gpusim_device.cuh"
