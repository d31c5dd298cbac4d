/// @file
/// <host_defines.h>: __global__ and the like, which cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
