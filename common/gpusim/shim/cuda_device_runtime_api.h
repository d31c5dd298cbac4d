/// @file
/// <cuda_device_runtime_api.h>: functions that cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
