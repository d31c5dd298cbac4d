/// @file
/// <device_atomic_functions.h>: atomicAdd() and the like, which cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
