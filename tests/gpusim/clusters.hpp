/// @file
/// Helpers for the tests of thread-block clusters.
#pragma once

#include <cuda_runtime.h>
#include <gpusim_cluster.h>

#include <stdexcept>
#include <utility>

#include "simulator.hpp"

namespace gpusim_test {

template <class... Params, class... Args>
cudaError_t try_clusters(dim3 cluster, const Launch& launch, void (*kernel)(Params...), Args&&... args) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster.x;
  attribute.val.clusterDim.y = cluster.y;
  attribute.val.clusterDim.z = cluster.z;
  cudaLaunchConfig_t config = {};
  config.gridDim = launch.grid;
  config.blockDim = launch.block;
  config.dynamicSmemBytes = launch.dynamic_shared_bytes;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
}

/// Runs a kernel with clusters of this size. @return the report of this kernel only
template <class... Params, class... Args>
gpusim::Report run_clusters(dim3 cluster, const Launch& launch, void (*kernel)(Params...), Args&&... args) {
  gpusim::take_report();
  const cudaError_t status = try_clusters(cluster, launch, kernel, std::forward<Args>(args)...);
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  return gpusim::take_report();
}

__device__ __forceinline__ void cluster_sync() {
  gpusim::ptx::barrier_cluster_arrive();
  gpusim::ptx::barrier_cluster_wait();
}

}  // namespace gpusim_test
