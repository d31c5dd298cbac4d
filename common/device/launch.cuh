/// @file
/// Launches kernels, in the same way on a GPU and on the simulator. Taught by chapter 01.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace fa {

/// A CUDA call failed. The message contains the expression, its file and line, and CUDA's own text.
struct CudaError : std::runtime_error {
  CudaError(cudaError_t status, const char* expression, const char* file, int line)
      : std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + expression + ": " +
                           cudaGetErrorString(status)),
        code(status) {}
  cudaError_t code;
};

/// Throws CudaError unless the call returns cudaSuccess.
#define FA_CUDA_CHECK(...)                                                                            \
  do {                                                                                                \
    const cudaError_t fa_status = (__VA_ARGS__);                                                      \
    if (fa_status != cudaSuccess) throw ::fa::CudaError(fa_status, #__VA_ARGS__, __FILE__, __LINE__); \
  } while (false)

/// The shared memory that a block may have, in bytes: 232,448 on an H100, 101,376 on a GeForce RTX 40.
/// @throws CudaError  if there is no device
inline std::size_t shared_bytes_limit() {
  int device = 0, bytes = 0;
  FA_CUDA_CHECK(cudaGetDevice(&device));
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return std::size_t(bytes);
}

/// The compute capability of the device, times ten: 75 for a T4, 90 for an H100.
/// @throws CudaError  if there is no device
inline int compute_capability() {
  int device = 0, major = 0, minor = 0;
  FA_CUDA_CHECK(cudaGetDevice(&device));
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

/// The number of multiprocessors of the device: 132 on an H100.
/// @throws CudaError  if there is no device
inline int multiprocessors() {
  int device = 0, count = 0;
  FA_CUDA_CHECK(cudaGetDevice(&device));
  FA_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

/// The most blocks of a grid in y, and in z. In x, there may be INT_MAX.
constexpr int kMostBlocksInYOrZ = 65535;

/// The blocks that a kernel needs for `count` items, of which a block takes `of_block`.
template <class Count, class OfBlock>
constexpr unsigned blocks_for(Count count, OfBlock of_block) {
  return unsigned((std::size_t(count) + std::size_t(of_block) - 1) / std::size_t(of_block));
}

/// The configuration of `kernel<<<grid, block, shared_bytes, stream>>>`. A block may have more than 48 KiB of
/// shared memory, static and dynamic together, only if an attribute of the kernel allows it, which is set
/// here.
template <class... Params>
cudaLaunchConfig_t launch_config(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes,
                                 cudaStream_t stream) {
  if (shared_bytes > 0) {
    FA_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes)));
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return config;
}

/// Enqueues `kernel<<<grid, block, shared_bytes, stream>>>(args...)` and checks the launch.
///
/// cudaLaunchKernelEx is a form of launch that a plain C++ compiler can read too.
///
/// @throws CudaError  if the device refuses: too many threads, too much shared memory, ...
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            Args&&... args) {
  const cudaLaunchConfig_t config = launch_config(kernel, grid, block, shared_bytes, stream);
  FA_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

/// The same, but the kernel may begin while the one before it in the stream still runs: see begin_early().
/// Taught by chapter 10.
template <class... Params, class... Args>
void launch_early(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes,
                  cudaStream_t stream, Args&&... args) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = launch_config(kernel, grid, block, shared_bytes, stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  FA_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

/// launch(), with clusters of `cluster` blocks each: blocks whose blockIdx.x / cluster is the same. Taught by
/// chapter 02.
///
/// @param cluster  1, 2, 4 or 8, a divisor of grid.x
template <class... Params, class... Args>
void launch_clusters(void (*kernel)(Params...), unsigned cluster, dim3 grid, dim3 block,
                     std::size_t shared_bytes, cudaStream_t stream, Args&&... args) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = launch_config(kernel, grid, block, shared_bytes, stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  FA_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

}  // namespace fa
