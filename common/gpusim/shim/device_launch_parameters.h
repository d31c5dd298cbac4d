/// @file
/// <device_launch_parameters.h>: the built-in variables, which cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
