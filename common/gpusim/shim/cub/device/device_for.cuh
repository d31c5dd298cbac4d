/// @file
/// <cub/device/device_for.cuh>: a part of CUB.
#pragma once

#include "../gpusim_device.cuh"
