// The fastest that a GPU reads, and how fast it reads with few bytes in flight: tools/bench/decoding.py
// compares chapter 14 with the first, in the same process.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace {

/// Reads `count` elements. In each step, a block reads neighbouring ones, four by each thread before it uses
/// the first. What it adds up is stored only if it has one particular value, so that the compiler keeps
/// the loads.
__global__ void __launch_bounds__(512) read_all(const uint4* x, std::size_t count, std::uint32_t* never) {
  constexpr int kAtOnce = 4;
  const std::size_t of_block = kAtOnce * blockDim.x;
  std::uint32_t sum = 0;
  for (std::size_t first = blockIdx.x * of_block + threadIdx.x; first < count;
       first += gridDim.x * of_block) {
    uint4 some[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * blockDim.x < count) some[i] = __ldcs(x + first + i * blockDim.x);
    }
#pragma unroll
    for (const uint4& four : some) sum += four.x ^ four.y ^ four.z ^ four.w;
  }
  if (sum == 0x9E3779B9u) *never = sum;
}

constexpr int kThreads = 256;

/// Reads `count` elements with kStages copies of 16 bytes in flight for each thread.
template <int kStages>
__global__ void __launch_bounds__(kThreads)
    read_in_flight(const uint4* x, std::size_t count, std::uint32_t* never) {
  extern __shared__ uint4 ring[];  // [kStages][kThreads]: each thread reads only what it has copied itself
  const std::size_t step = std::size_t(gridDim.x) * kThreads;
  const std::size_t first = std::size_t(blockIdx.x) * kThreads + threadIdx.x;
  const auto copy = [&](int stage, std::size_t i) {
    if (i < count) __pipeline_memcpy_async(ring + stage * kThreads + threadIdx.x, x + i, sizeof *x);
    __pipeline_commit();
  };
  for (int stage = 0; stage < kStages; ++stage) copy(stage, first + stage * step);
  std::uint32_t sum = 0;
  int stage = 0;
  for (std::size_t i = first; i < count; i += step) {
    __pipeline_wait_prior(kStages - 1);
    const uint4 four = ring[stage * kThreads + threadIdx.x];
    sum += four.x ^ four.y ^ four.z ^ four.w;
    copy(stage, i + kStages * step);
    stage = stage + 1 < kStages ? stage + 1 : 0;
  }
  if (sum == 0x9E3779B9u) *never = sum;
}

template <int kStages>
cudaError_t launch_in_flight(const void* x, std::size_t bytes, void* never, int blocks, cudaStream_t stream) {
  constexpr int kShared = kStages * kThreads * int(sizeof(uint4));
  const cudaError_t status =
      cudaFuncSetAttribute(read_in_flight<kStages>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (status != cudaSuccess) return status;
  read_in_flight<kStages><<<blocks, kThreads, kShared, stream>>>(
      static_cast<const uint4*>(x), bytes / sizeof(uint4), static_cast<std::uint32_t*>(never));
  return cudaGetLastError();
}

int multiprocessors() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

}  // namespace

/// Enqueues a kernel of one block per multiprocessor, which has 4 KB in flight for each stage.
/// @param bytes, never  as for read_roof()    @return  a cudaError_t, also for a number without a kernel
extern "C" int read_with_stages(int stages, const void* x, std::size_t bytes, void* never,
                                cudaStream_t stream) {
  const auto launch = [&](auto kernel) { return int(kernel(x, bytes, never, multiprocessors(), stream)); };
  switch (stages) {
    case 1: return launch(launch_in_flight<1>);
    case 2: return launch(launch_in_flight<2>);
    case 4: return launch(launch_in_flight<4>);
    case 6: return launch(launch_in_flight<6>);
    case 8: return launch(launch_in_flight<8>);
    case 12: return launch(launch_in_flight<12>);
    case 16: return launch(launch_in_flight<16>);
    case 24: return launch(launch_in_flight<24>);
    default: return cudaErrorInvalidValue;
  }
}

/// Enqueues the kernel. @param bytes  a multiple of 16    @param never  4 bytes    @return  a cudaError_t
extern "C" int read_roof(const void* x, std::size_t bytes, void* never, cudaStream_t stream) {
  read_all<<<4 * multiprocessors(), 512, 0, stream>>>(static_cast<const uint4*>(x), bytes / sizeof(uint4),
                                                      static_cast<std::uint32_t*>(never));
  return int(cudaGetLastError());
}
