/// @file
/// Two small tiles of ones in shared memory, for tests of what a kernel may do around their product.
#pragma once

#include <gpusim_hopper.h>

#include <cstdint>

namespace gpusim_test {

extern __shared__ __align__(1024) unsigned char smem[];

// A is 64 x 16 and B is 16 x 16, both K-major without swizzle, 2 KiB and 512 bytes.
constexpr int kB = 2048, kBytes = 4096;

namespace {

__device__ std::uint64_t descriptor(int start, int leading = 128, int stride = 256) {
  return (gpusim::ptx::shared_address(smem) + std::uint32_t(start)) >> 4 | std::uint64_t(leading / 16) << 16 |
         std::uint64_t(stride / 16) << 32;
}

/// Fills A and B with ones.
__device__ void fill() {
  for (int i = threadIdx.x; i < kBytes / 4; i += blockDim.x)
    reinterpret_cast<std::uint32_t*>(smem)[i] = 0x3c003c00u;
  gpusim::ptx::fence_proxy_async();
  __syncthreads();
}

}  // namespace
}  // namespace gpusim_test
