/// @file
/// <cub/device/device_select.cuh>: a part of CUB.
#pragma once

#include "../gpusim_device.cuh"
