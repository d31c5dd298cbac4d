/// @file
/// <cub/device/device_run_length_encode.cuh>: a part of CUB.
#pragma once

#include "../gpusim_device.cuh"
