/// @file
/// The runtime API: kernels and their launches. This file sees threadIdx as kernels do.

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "gpusim/runtime/api.hpp"
#include "gpusim/runtime/cluster_order.hpp"
#include "gpusim/runtime/emulated.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/streams.hpp"

using gpusim::Streams;
using gpusim::api::kDefaultDynamicShared;
using gpusim::api::result;

namespace {

/// Kernels for which cudaFuncSetAttribute has allowed more dynamic shared memory.
std::map<const void*, std::size_t>& dynamic_shared_limits() {
  static std::map<const void*, std::size_t> limits;
  return limits;
}

/// @param cluster  its blocks in each direction; {0, 0, 0} if the launch has no clusters
/// @param overlaps  whether the kernel may begin before the one before it has ended
cudaError_t read_attributes(const cudaLaunchConfig_t& config, gpusim::device::Index& cluster, bool& overlaps,
                            bool& cooperative) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeIgnore) continue;
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      overlaps = attribute.val.programmaticStreamSerializationAllowed != 0;
      continue;
    }
    if (attribute.id == cudaLaunchAttributeCooperative) {
      cooperative = attribute.val.cooperative != 0;
      continue;
    }
    const bool is_hint = attribute.id == cudaLaunchAttributeAccessPolicyWindow ||
                         attribute.id == cudaLaunchAttributeSynchronizationPolicy ||
                         attribute.id == cudaLaunchAttributeClusterSchedulingPolicyPreference ||
                         attribute.id == cudaLaunchAttributePriority ||
                         attribute.id == cudaLaunchAttributePreferredSharedMemoryCarveout;
    if (is_hint) continue;
    if (attribute.id != cudaLaunchAttributeClusterDimension) return cudaErrorNotSupported;
    if (gpusim::emulated_device().compute_capability < 90) return cudaErrorNotSupported;
    const auto& dim = attribute.val.clusterDim;
    cluster = {dim.x, dim.y, dim.z};
    if (dim.x == 0 || dim.y == 0 || dim.z == 0) return cudaErrorInvalidClusterSize;
    if (std::uint64_t(dim.x) * dim.y * dim.z > gpusim::kMaxClusterBlocks) return cudaErrorInvalidClusterSize;
    if (config.gridDim.x % dim.x != 0 || config.gridDim.y % dim.y != 0 || config.gridDim.z % dim.z != 0)
      return cudaErrorInvalidClusterSize;
  }
  return cudaSuccess;
}

/// Registers are not counted: what most kernels have.
constexpr int kAssumedRegisters = 32;

/// Of shared memory, for the system, in each block.
std::size_t reserved_bytes() { return gpusim::emulated_device().compute_capability >= 80 ? 1024 : 0; }

/// How many such blocks a multiprocessor has room for.
int active_blocks(int block_size, std::size_t dynamic_bytes) {
  const gpusim::EmulatedDevice& device = gpusim::emulated_device();
  const int warps = (block_size + 31) / 32;
  int blocks = std::min(device.threads_per_multiprocessor / 32 / warps, device.blocks_per_multiprocessor());
  blocks = std::min(blocks, 65536 / (warps * 32 * kAssumedRegisters));
  const std::size_t shared = std::size_t(device.shared_kib_per_multiprocessor) * 1024;
  const std::size_t bytes = (dynamic_bytes + reserved_bytes() + 127) / 128 * 128;
  return bytes == 0 ? blocks : std::min(blocks, int(shared / bytes));
}

}  // namespace

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || std::size_t(value) > gpusim::emulated_device().shared_bytes_per_block())
    return result(cudaErrorInvalidValue);
  dynamic_shared_limits()[kernel] = std::size_t(value);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = kAssumedRegisters;
  attributes->ptxVersion = attributes->binaryVersion = gpusim::emulated_device().compute_capability;
  attributes->maxDynamicSharedSizeBytes = int(gpusim::api::dynamic_limit(kernel));
  attributes->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
  return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncSetSharedMemConfig(const void*, cudaSharedMemConfig) { return cudaSuccess; }

// ---- occupancy --------------------------------------------------------------------------------------------

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_size,
                                                          std::size_t dynamic_bytes) {
  if (block_size <= 0) return result(cudaErrorInvalidValue);
  *blocks = block_size > 1024 || dynamic_bytes > gpusim::emulated_device().shared_bytes_per_block()
                ? 0
                : active_blocks(block_size, dynamic_bytes);
  static_cast<void>(kernel);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel,
                                                                   int block_size, std::size_t dynamic_bytes,
                                                                   unsigned int) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, block_size, dynamic_bytes);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* kernel, int blocks,
                                                      int) {
  if (blocks <= 0) return result(cudaErrorInvalidValue);
  const gpusim::EmulatedDevice& device = gpusim::emulated_device();
  const std::size_t share = std::size_t(device.shared_kib_per_multiprocessor) * 1024 / std::size_t(blocks);
  *bytes = std::min(share - std::min(share, reserved_bytes()), gpusim::api::dynamic_limit(kernel));
  return cudaSuccess;
}

cudaError_t gpusim::api::best_block_size(int* grid, int* block, const void* kernel,
                                         std::size_t (*bytes)(const void*, int), const void* context,
                                         int limit) {
  const int most = limit <= 0 || limit > 1024 ? 1024 : limit;
  int best = 0, best_threads = 0;
  for (int size = most / 32 * 32 == 0 ? most : most / 32 * 32; size > 0; size -= 32) {
    int blocks = 0;
    const cudaError_t error =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, size, bytes(context, size));
    if (error != cudaSuccess) return error;
    if (blocks * size <= best_threads) continue;
    best = size;
    best_threads = blocks * size;
  }
  *block = best;
  *grid = best == 0 ? 0 : best_threads / best * emulated_device().multiprocessors;
  return cudaSuccess;
}

std::size_t gpusim::api::dynamic_limit(const void* kernel) {
  const auto limit = dynamic_shared_limits().find(kernel);
  return std::max(limit == dynamic_shared_limits().end() ? 0 : limit->second, kDefaultDynamicShared);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int version,
                                             unsigned long long, cudaDriverEntryPointQueryResult* status) {
  constexpr unsigned int kFirstVersion = 12000;
  const bool known = std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  const bool found = known && version >= kFirstVersion;
  *function = found ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
  if (status != nullptr) {
    *status = found   ? cudaDriverEntryPointSuccess
              : known ? cudaDriverEntryPointVersionNotSufficent
                      : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDA_VERSION, flags, status);
}

void gpusim::device::copy_element(void* to, const void* from, std::size_t bytes) {
  api::copy({.to = to, .from = from, .bytes = bytes}, nullptr, {"cudaMemcpy", __builtin_return_address(0)},
            true);
}

cudaError_t gpusim::device::launch(const cudaLaunchConfig_t& config, const void* kernel,
                                   void (*body)(const void*), const void* arguments,
                                   std::size_t argument_bytes, std::initializer_list<std::int64_t> integers) {
  const gpusim::OneHostThread turn;
  const dim3 grid = config.gridDim;
  const dim3 block = config.blockDim;
  const auto in_range = [](unsigned value, unsigned most) { return value >= 1 && value <= most; };
  if (!in_range(grid.x, 2147483647u) || !in_range(grid.y, 65535u) || !in_range(grid.z, 65535u) ||
      !in_range(block.x, 1024u) || !in_range(block.y, 1024u) || !in_range(block.z, 64u) ||
      std::uint64_t(block.x) * block.y * block.z > 1024) {
    return result(cudaErrorInvalidConfiguration);
  }
  const auto limit = dynamic_shared_limits().find(kernel);
  const std::size_t allowed = limit == dynamic_shared_limits().end() ? kDefaultDynamicShared : limit->second;
  if (config.dynamicSmemBytes > std::max(allowed, kDefaultDynamicShared))
    return result(cudaErrorInvalidValue);
  if (!api::is_stream(config.stream)) return result(cudaErrorInvalidResourceHandle);
  Index cluster{0, 0, 0};
  bool overlaps = false, cooperative = false;
  if (const cudaError_t error = read_attributes(config, cluster, overlaps, cooperative); error != cudaSuccess)
    return result(error);
  if (cooperative && cluster.x != 0) return result(cudaErrorNotSupported);
  const int resident = active_blocks(int(block.x * block.y * block.z), config.dynamicSmemBytes);
  if (cooperative &&
      std::uint64_t(grid.x) * grid.y * grid.z > std::uint64_t(resident) * emulated_device().multiprocessors)
    return result(cudaErrorCooperativeLaunchTooLarge);
  const std::size_t dynamic_bytes = config.dynamicSmemBytes;
  const auto run_now = [=, has_limit = limit != dynamic_shared_limits().end()](
                           cudaStream_t stream, const void* with,
                           std::initializer_list<std::int64_t> numbers) {
    Streams::instance().begin(stream, {.kernel = kernel});
    api::fail_device(cudaSuccess);
    const std::size_t static_bytes = run({{grid.x, grid.y, grid.z},
                                          {block.x, block.y, block.z},
                                          dynamic_bytes,
                                          body,
                                          with,
                                          kernel,
                                          numbers,
                                          argument_bytes,
                                          cluster,
                                          stream,
                                          cooperative,
                                          overlaps && Streams::instance().follows_kernel()});
    // Only the run shows which static variables a kernel has. A device refuses the launch instead.
    const std::size_t most = has_limit ? emulated_device().shared_bytes_per_block() : kDefaultDynamicShared;
    const std::size_t dynamic = has_limit ? std::max(allowed, dynamic_bytes) : dynamic_bytes;
    const bool fits = static_bytes <= kMostStaticShared && static_bytes + dynamic <= most;
    return result(fits ? cudaSuccess : cudaErrorInvalidValue);
  };
  if (!api::is_any_capturing()) return run_now(api::resolve(config.stream), arguments, integers);
  constexpr std::size_t kAlignment = 128;  // of tensor maps
  const std::shared_ptr<void> copy(
      std::aligned_alloc(kAlignment, (argument_bytes + kAlignment - 1) / kAlignment * kAlignment),
      &std::free);
  std::memcpy(copy.get(), arguments, argument_bytes);
  return api::enqueue(config.stream, cudaGraphNodeTypeKernel,
                      [=](cudaStream_t stream) { return run_now(stream, copy.get(), {}); });
}
