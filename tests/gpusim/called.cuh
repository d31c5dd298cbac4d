/// @file
/// Accesses in a header, to test that reports name their caller.
#pragma once

#include <cuda_runtime.h>

namespace gpusim_test {

__device__ __forceinline__ void put(float* address, float value) { *address = value; }
__device__ __forceinline__ float get(const float* address) { return *address; }

}  // namespace gpusim_test
