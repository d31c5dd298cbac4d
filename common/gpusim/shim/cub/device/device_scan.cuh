/// @file
/// <cub/device/device_scan.cuh>: a part of CUB.
#pragma once

#include "../gpusim_device.cuh"
