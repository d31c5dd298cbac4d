/// @file
/// Configurations of launches that are written with <<< >>>: see check/front_end.hpp.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "gpusim/runtime/symbols.hpp"

namespace gpusim::device {
namespace {

/// Of the launches whose arguments are being evaluated: these may launch kernels, too.
thread_local std::vector<cudaLaunchConfig_t> open_launches;

thread_local cudaLaunchAttribute cluster;  ///< of the kernel that is entered
thread_local bool has_cluster = false;

thread_local bool asks_for_launcher = false;
thread_local Launcher told_launcher = nullptr;

}  // namespace

void push_launch(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, cudaStream_t stream) {
  if (!is_on_host()) {
    std::fputs(
        "error: gpusim does not simulate dynamic parallelism: a function of the device launches a kernel\n",
        stderr);
    std::_Exit(2);
  }
  open_launches.push_back({grid, block, dynamic_shared_bytes, stream});
}

void set_cluster(unsigned x, unsigned y, unsigned z) {
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {x, y, z};
  has_cluster = true;
}

cudaLaunchConfig_t pop_launch(const void* kernel) {
  if (open_launches.empty()) {
    const auto entry = reinterpret_cast<std::uintptr_t>(kernel) + 1;
    const std::vector<std::string> names = functions_around({entry})[entry];
    std::fprintf(stderr, "error: the kernel %s is called like a function: it needs <<<grid, block>>>\n",
                 names.empty() ? "?" : names.back().c_str());
    std::exit(2);
  }
  cudaLaunchConfig_t config = open_launches.back();
  open_launches.pop_back();
  if (std::exchange(has_cluster, false)) {
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  return config;
}

bool tell_launcher(Launcher launcher) {
  if (!asks_for_launcher) return false;
  told_launcher = launcher;
  return true;
}

cudaError_t launch_by_address(const cudaLaunchConfig_t& config, const void* kernel, void** arguments) {
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  // What it takes for its arguments makes no difference: it asks first, and then returns.
  asks_for_launcher = true;
  reinterpret_cast<void (*)()>(const_cast<void*>(kernel))();
  asks_for_launcher = false;
  const Launcher launcher = std::exchange(told_launcher, nullptr);
  return launcher != nullptr ? launcher(config, kernel, arguments) : cudaErrorInvalidDeviceFunction;
}

}  // namespace gpusim::device
