// The fastest that a GPU reads: tools/bench/decoding.py compares chapter 14 with it, in the same process.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace {

/// Reads `count` elements, each block neighbouring ones, many of them in flight. What it adds up is stored
/// only if it has a value that no tensor of the benchmark leads to, so that the loads remain.
__global__ void __launch_bounds__(512) read_all(const uint4* x, std::size_t count, std::uint32_t* never) {
  constexpr int kAtOnce = 8;
  const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
  std::uint32_t sum = 0;
  for (std::size_t first = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; first < count;
       first += kAtOnce * step) {
    uint4 some[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * step < count) some[i] = __ldcs(x + first + i * step);
    }
#pragma unroll
    for (const uint4& four : some) sum += four.x ^ four.y ^ four.z ^ four.w;
  }
  if (sum == 0x9E3779B9u) *never = sum;
}

}  // namespace

/// Enqueues the kernel. @param bytes  a multiple of 16    @param never  4 bytes    @return  a cudaError_t
extern "C" int read_roof(const void* x, std::size_t bytes, void* never, cudaStream_t stream) {
  int device = 0, multiprocessors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  read_all<<<4 * multiprocessors, 512, 0, stream>>>(static_cast<const uint4*>(x), bytes / sizeof(uint4),
                                                    static_cast<std::uint32_t*>(never));
  return int(cudaGetLastError());
}
