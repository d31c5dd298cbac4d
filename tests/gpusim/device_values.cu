/// @file
/// Prints what a GPU computes: the contents of device_values.txt.
#include <cstdio>
#include <vector>

#include "device_values.cuh"

using namespace gpusim_values;

template <bool kExact, class Names>
static void print(const Names& names) {
  const std::size_t count = sizeof names / sizeof names[0];
  std::vector<unsigned long long> values(count * kArguments);
  unsigned long long* out = nullptr;
  cudaMalloc(&out, values.size() * sizeof values[0]);
  compute<kExact><<<1, kArguments>>>(arguments(), out);
  cudaMemcpy(values.data(), out, values.size() * sizeof values[0], cudaMemcpyDeviceToHost);
  if (cudaGetLastError() != cudaSuccess) std::printf("failed\n");
  for (std::size_t i = 0; i < count; ++i) {
    for (int j = 0; j < kArguments; ++j) std::printf("%llx ", values[i * kArguments + j]);
    std::printf("%s\n", names[i]);
  }
}

int main() {
  print<true>(kExactNames);
  print<false>(kCloseNames);
}
