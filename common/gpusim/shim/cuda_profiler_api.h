/// @file
/// <cuda_profiler_api.h>: marks for a profiler, of which the simulator has none.
#pragma once

#include "cuda_runtime_api.h"
