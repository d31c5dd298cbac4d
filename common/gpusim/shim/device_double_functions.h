/// @file
/// <device_double_functions.h>: functions that cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
