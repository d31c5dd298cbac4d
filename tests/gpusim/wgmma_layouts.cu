// Finds out from where in shared memory wgmma takes each element of a matrix, for every descriptor of
// wgmma_layouts.hpp, and the sums of 16 products that it makes. Built with the preset cuda only, for sm_90a:
//   build/cuda/bin/wgmma_layouts | python3 -m tools.results - > docs/results/wgmma_layouts.json

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "device/hopper.cuh"
#include "device/launch.cuh"
#include "wgmma_layouts.hpp"
#include "wgmma_sums.hpp"

namespace {

namespace ptx = fa::ptx;

constexpr int kBytes = 192 * 1024;  // that hold their own places
constexpr int kElements = 2048;     // of the larger operand

extern __shared__ __align__(1024) unsigned char smem[];

__device__ std::uint64_t descriptor(const unsigned char* start, int leading, int stride, int base_offset,
                                    int mode) {
  return ptx::shared_address(start) >> 4 | std::uint64_t(leading) >> 4 << 16 |
         std::uint64_t(stride) >> 4 << 32 | std::uint64_t(base_offset) << 49 | std::uint64_t(mode) << 62;
}

// A 16 x 16 matrix, K-major without swizzle: the place of an element.
__device__ int plain(int n, int k) { return (n / 8 * 2 + k / 8) * 64 + n % 8 * 8 + k % 8; }

template <bool kTransposed>
__device__ void multiply_a(float (&d)[8], std::uint64_t a, std::uint64_t b) {
  ptx::wgmma_fence();
  ptx::wgmma<__half, false, kTransposed, false>(d, a, b);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
}

template <bool kTransposed>
__device__ void multiply_b(float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b) {
  ptx::wgmma_fence();
  ptx::wgmma<__half, false, kTransposed>(d, a, b);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
}

// A block for each layout. Half of the place of an element, in two numbers that fit into a half, comes out of
// a product with the identity. places: A as [m][k], B as [n][k]
__global__ void find_places(const gpusim_test::MatrixLayout* layouts, int* places) {
  const gpusim_test::MatrixLayout layout = layouts[blockIdx.x];
  places += std::size_t(blockIdx.x) * kElements;
  auto* const words = reinterpret_cast<__half*>(smem);
  auto* const identity = reinterpret_cast<__half*>(smem + kBytes);
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
  for (int part = 0; part < 2; ++part) {
    const int unit = part == 0 ? 1 : 1024;
    __syncthreads();
    for (int i = threadIdx.x; i < kBytes / 2; i += 128) words[i] = __float2half(float(i / unit % 1024));
    for (int i = threadIdx.x; i < 256; i += 128)
      identity[plain(i / 16, i % 16)] = __float2half(i / 16 == i % 16);
    ptx::fence_proxy_async();
    __syncthreads();
    const std::uint64_t matrix =
        descriptor(smem + layout.start, layout.leading, layout.stride, layout.base_offset, layout.mode);
    const auto found = [&](int element, float value) {
      places[element] = (part == 0 ? 0 : places[element]) + 2 * unit * int(value);
    };
    if (layout.is_a) {
      float d[8];
      const std::uint64_t b = descriptor(smem + kBytes, 128, 256, 0, 0);
      if (layout.transposed) {
        multiply_a<true>(d, matrix, b);
      } else {
        multiply_a<false>(d, matrix, b);
      }
      for (int i = 0; i < 8; ++i) found((row + 8 * (i / 2 % 2)) * 16 + 8 * (i / 4) + column + i % 2, d[i]);
    } else {
      std::uint32_t a[4];
      for (int i = 0; i < 4; ++i) {
        const int m = row + 8 * (i % 2), k = column + 8 * (i / 2);
        a[i] = m == k ? 0x3c00u : m == k + 1 ? 0x3c000000u : 0u;
      }
      float d[64];
      if (layout.transposed) {
        multiply_b<true>(d, a, matrix);
      } else {
        multiply_b<false>(d, a, matrix);
      }
      for (int i = 0; i < 64; ++i) {
        const int k = row + 8 * (i / 2 % 2);
        if (k < 16) found((8 * (i / 4) + column + i % 2) * 16 + k, d[i]);
      }
    }
  }
}

// c + the sum of 16 products, for each problem.
__global__ void add_up(const gpusim_test::Sum* problems, int count, float* sums) {
  auto* const b = reinterpret_cast<std::uint16_t*>(smem);
  for (int p = 0; p < count; ++p) {
    const gpusim_test::Sum& problem = problems[p];
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 128) b[plain(i / 16, i % 16)] = problem.b[i % 16];
    ptx::fence_proxy_async();
    __syncthreads();
    std::uint32_t a[4];
    for (int i = 0; i < 4; ++i) {
      const int k = 2 * (threadIdx.x % 4) + 8 * (i / 2);
      a[i] = problem.a[k] | std::uint32_t(problem.a[k + 1]) << 16;
    }
    float d[8];
    for (float& x : d) x = problem.c;
    const std::uint64_t matrix = descriptor(smem, 128, 256, 0, 0);
    ptx::wgmma_fence();
    if (problem.is_half) {
      ptx::wgmma<__half, true, false>(d, a, matrix);
    } else {
      ptx::wgmma<__nv_bfloat16, true, false>(d, a, matrix);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(d);
    if (threadIdx.x == 0) sums[p] = d[0];
  }
}

template <class T>
T* on_device(const std::vector<T>& values) {
  T* data = nullptr;
  FA_CUDA_CHECK(cudaMalloc(&data, values.size() * sizeof(T)));
  FA_CUDA_CHECK(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return data;
}

}  // namespace

int main() {
  const std::vector<gpusim_test::MatrixLayout> layouts = gpusim_test::matrix_layouts();
  std::vector<int> places(layouts.size() * kElements);
  int* const found = on_device(places);
  FA_CUDA_CHECK(
      cudaFuncSetAttribute(find_places, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes + 1024));
  find_places<<<unsigned(layouts.size()), 128, kBytes + 1024>>>(on_device(layouts), found);
  FA_CUDA_CHECK(cudaMemcpy(places.data(), found, places.size() * sizeof(int), cudaMemcpyDeviceToHost));

  const std::vector<gpusim_test::Sum> problems = gpusim_test::sums();
  std::vector<float> results(problems.size());
  float* const sums = on_device(results);
  add_up<<<1, 128, 1024>>>(on_device(problems), int(problems.size()), sums);
  FA_CUDA_CHECK(cudaMemcpy(results.data(), sums, results.size() * sizeof(float), cudaMemcpyDeviceToHost));

  cudaDeviceProp device;
  FA_CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
  std::printf("{\n \"device\": \"%s\",\n \"places\": [", device.name);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const int* const elements = &places[i * kElements];
    gpusim_test::PlacesHash hash;
    for (int chunk = 0; chunk < layouts[i].chunks(); ++chunk) {
      const int in_row = layouts[i].chunks() / 16;  // of an MN-major matrix
      for (int e = 0; e < 8; ++e) {
        const int element =
            layouts[i].transposed ? (8 * (chunk % in_row) + e) * 16 + chunk / in_row : 8 * chunk + e;
        if (e == 0) hash.add(elements[element]);
        if (elements[element] != elements[element - (layouts[i].transposed ? 16 * e : e)] + 2 * e) {
          std::fprintf(stderr, "layout %zu: chunk %d is not in one piece\n", i, chunk);
          return 1;
        }
      }
    }
    std::printf("%s%s%u", i == 0 ? "" : ",", i % 10 == 0 ? "\n  " : " ", hash.value());
  }
  std::printf("\n ],\n \"sums\": [");
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, &results[i], sizeof bits);
    std::printf("%s%s%u", i == 0 ? "" : ",", i % 10 == 0 ? "\n  " : " ", bits);
  }
  std::printf("\n ]\n}\n");
}
