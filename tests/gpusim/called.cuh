/// @file
/// Accesses in a header, for the test that their caller is named.
#pragma once

#include <cuda_runtime.h>

namespace gpusim_test {

__device__ __forceinline__ void put(float* address, float value) { *address = value; }
__device__ __forceinline__ float get(const float* address) { return *address; }

}  // namespace gpusim_test
