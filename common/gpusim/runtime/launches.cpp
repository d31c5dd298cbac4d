/// @file
/// Configurations of launches that are written with <<< >>>: see check/front_end.hpp.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gpusim/runtime/symbols.hpp"

namespace gpusim::device {
namespace {

/// Of the launches whose arguments are being evaluated: these may launch kernels, too.
thread_local std::vector<cudaLaunchConfig_t> open_launches;

}  // namespace

void push_launch(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, cudaStream_t stream) {
  open_launches.push_back({grid, block, dynamic_shared_bytes, stream});
}

cudaLaunchConfig_t pop_launch(const void* kernel) {
  if (open_launches.empty()) {
    const auto entry = reinterpret_cast<std::uintptr_t>(kernel) + 1;
    const std::vector<std::string> names = functions_around({entry})[entry];
    std::fprintf(stderr, "error: the kernel %s is called like a function: it needs <<<grid, block>>>\n",
                 names.empty() ? "?" : names.back().c_str());
    std::exit(2);
  }
  const cudaLaunchConfig_t config = open_launches.back();
  open_launches.pop_back();
  return config;
}

}  // namespace gpusim::device
