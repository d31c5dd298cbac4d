// Sums every 128 numbers of an array: an ordinary CUDA program that the simulator runs.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "gpusim/gpusim.hpp"

namespace example {

constexpr int kThreads = 128;

extern __shared__ float partials[];  // one per warp

/// sums[b] = x[128 b] + ... + x[128 b + 127], or up to the end of x.
///
///   grid    ceil(n / 128)     block   128
///   shared  one float per warp
__global__ void block_sums(const float* x, float* sums, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  float sum = i < n ? x[i] : 0.0f;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
  if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (int warp = 0; warp < kThreads / 32; ++warp) total += partials[warp];
    sums[blockIdx.x] = total;
  }
}

void print_counters(const gpusim::Report& report) {
  for (const auto& [name, c] : report.tensors) {
    std::printf("%-5s read  %4lld bytes %4lld sectors %3lld requests\n", name.c_str(),
                (long long)c.read_bytes, (long long)c.read_sectors, (long long)c.read_requests);
    std::printf("%-5s write %4lld bytes %4lld sectors %3lld requests\n", name.c_str(),
                (long long)c.write_bytes, (long long)c.write_sectors, (long long)c.write_requests);
  }
  const gpusim::SharedCounters& s = report.shared;
  std::printf("shared: %lld bytes per block; wavefronts (ideal): load %lld (%lld), store %lld (%lld)\n",
              (long long)s.bytes_per_block, (long long)s.load_wavefronts, (long long)s.load_wavefronts_ideal,
              (long long)s.store_wavefronts, (long long)s.store_wavefronts_ideal);
  std::printf("%lld barriers, %lld shuffles\n", (long long)report.ops.barriers,
              (long long)report.ops.shuffles);
}

int run(bool counters) {
  constexpr int kNumbers = 1000;
  constexpr int kBlocks = (kNumbers + kThreads - 1) / kThreads;
  const std::vector<float> ones(kNumbers, 1.0f);
  std::vector<float> sums(kBlocks);
  float* gX = nullptr;
  float* gSums = nullptr;
  if (cudaMalloc(&gX, sizeof(float) * kNumbers) != cudaSuccess ||
      cudaMalloc(&gSums, sizeof(float) * kBlocks) != cudaSuccess) {
    std::fputs("block_sums: no memory left\n", stderr);
    return 2;
  }
  gpusim::name_allocation(gX, "x");
  gpusim::name_allocation(gSums, "sums");
  cudaMemcpy(gX, ones.data(), sizeof(float) * kNumbers, cudaMemcpyHostToDevice);

  cudaLaunchConfig_t config = {};
  config.gridDim = kBlocks;
  config.blockDim = kThreads;
  config.dynamicSmemBytes = sizeof(float) * kThreads / 32;
  const cudaError_t status = cudaLaunchKernelEx(&config, block_sums, gX, gSums, kNumbers);
  if (status != cudaSuccess) {
    std::fprintf(stderr, "block_sums: %s\n", cudaGetErrorString(status));
    return 2;
  }
  cudaMemcpy(sums.data(), gSums, sizeof(float) * kBlocks, cudaMemcpyDeviceToHost);
  cudaFree(gX);
  cudaFree(gSums);

  std::printf("sums:");
  for (const float sum : sums) std::printf(" %g", sum);
  std::printf("\n");
  if (!counters) return 0;  // at exit, the simulator reports what it has found

  const gpusim::Report report = gpusim::take_report();
  print_counters(report);
  if (report.defects.empty()) return 0;
  std::fputs(gpusim::format_defects(report).c_str(), stderr);
  return 1;
}

}  // namespace example

int main(int argc, char** argv) {
  if (argc == 1) return example::run(false);
  if (argc == 2 && std::strcmp(argv[1], "--counters") == 0) return example::run(true);
  std::fputs("usage: block_sums [--counters]\n", stderr);
  return 2;
}
