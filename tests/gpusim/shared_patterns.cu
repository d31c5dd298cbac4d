// Runs every pattern of shared_patterns.hpp once, for elements of 2, 4, 8 and 16 bytes, each in a launch of
// one warp with one shared-memory load in it. Built with the preset cuda only; run it under ncu:
//   python3 -m tests.gpusim.measure_wavefronts build/cuda/bin/shared_patterns >
//   docs/results/shared_wavefronts.json

#include <cuda_runtime.h>

#include <cstdio>

#include "device/launch.cuh"
#include "shared_patterns.hpp"

namespace {

constexpr int kSharedBytes = 32 * 1024;

template <class T>
__global__ void read_shared(T* out, int pattern) {
  extern __shared__ float4 smem[];
  for (int i = threadIdx.x; i < kSharedBytes / 16; i += 32) smem[i] = float4{1.0f, 2.0f, 3.0f, 4.0f};
  __syncthreads();
  const int element =
      gpusim_test::element_of_lane(pattern, int(threadIdx.x)) % (kSharedBytes / int(sizeof(T)));
  out[threadIdx.x] = reinterpret_cast<const T*>(smem)[element];
}

template <class T>
void run_all() {
  T* out = nullptr;
  FA_CUDA_CHECK(cudaMalloc(&out, 32 * sizeof(T)));
  for (int p = 0; p < gpusim_test::kPatternCount; ++p) {
    fa::launch(read_shared<T>, 1, 32, kSharedBytes, nullptr, out, p);
    std::printf("pattern %d %s\n", int(sizeof(T)), gpusim_test::kPatternNames[p]);
  }
  FA_CUDA_CHECK(cudaDeviceSynchronize());
  FA_CUDA_CHECK(cudaFree(out));
}

}  // namespace

int main() {
  run_all<unsigned short>();
  run_all<float>();
  run_all<float2>();
  run_all<float4>();
}
