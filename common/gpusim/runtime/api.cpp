/// @file
/// The CUDA runtime API (shim/cuda_runtime_api.h).

#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/cluster_order.hpp"
#include "gpusim/runtime/emulated.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/streams.hpp"

using gpusim::Arena;
using gpusim::Streams;
using gpusim::Use;

struct CUstream_st {};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  bool recorded = false;
};

namespace {

constexpr std::size_t kDefaultDynamicShared = 48 * 1024;

cudaError_t last_error = cudaSuccess;

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/// Kernels for which cudaFuncSetAttribute has allowed more dynamic shared memory.
std::map<const void*, std::size_t>& dynamic_shared_limits() {
  static std::map<const void*, std::size_t> limits;
  return limits;
}

/// Whether [p, p + bytes) is in one live allocation, or is host memory, which the simulator does not check.
bool valid_device_range(const void* p, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return bytes == 0 || !Arena::instance().contains(address) || Arena::instance().find(address, bytes) != 0;
}

/// @param cluster  its blocks in each direction; {0, 0, 0} if the launch has no clusters
/// @param overlaps  whether the kernel may begin before the one before it has ended
cudaError_t read_attributes(const cudaLaunchConfig_t& config, gpusim::device::Index& cluster,
                            bool& overlaps, bool& cooperative) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeIgnore) continue;
    if (attribute.id == cudaLaunchAttributeCooperative) {
      cooperative = attribute.val.cooperative != 0;
      continue;
    }
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      overlaps = attribute.val.programmaticStreamSerializationAllowed != 0;
      continue;
    }
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

/// How many blocks the device can hold at once, as far as threads and dynamic shared memory limit them.
std::uint64_t resident_blocks(const cudaLaunchConfig_t& config) {
  const gpusim::EmulatedDevice& device = gpusim::emulated_device();
  constexpr std::size_t kMostBlocks = 32, kReserved = 1024;  // of a multiprocessor; bytes for each block
  const std::size_t threads = (std::size_t(config.blockDim.x) * config.blockDim.y * config.blockDim.z + 31) / 32 * 32;
  const std::size_t shared = std::size_t(device.shared_kib_per_multiprocessor) * 1024;
  const std::size_t each = std::min({kMostBlocks, std::size_t(device.threads_per_multiprocessor) / threads,
                                     shared / (config.dynamicSmemBytes + kReserved)});
  return std::uint64_t(each) * std::uint64_t(device.multiprocessors);
}

bool is_device(const void* p) { return Arena::instance().contains(reinterpret_cast<std::uintptr_t>(p)); }

/// The operation that has begun uses these bytes, if they are the device's.
void use(const void* p, std::size_t bytes, Use use) {
  if (is_device(p))
    Streams::instance().use(reinterpret_cast<std::uintptr_t>(p) - Arena::instance().base(), bytes, use);
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                 const char* routine) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && bytes != 0 &&
      (is_device(to) != to_device || is_device(from) != from_device)) {
    return result(cudaErrorInvalidValue);
  }
  if (!valid_device_range(to, bytes) || !valid_device_range(from, bytes))
    return result(cudaErrorInvalidValue);
  if (bytes == 0) return cudaSuccess;
  const gpusim::HostRuntime runtime;
  Streams::instance().begin(stream, routine);
  use(from, bytes, Use::kRead);
  use(to, bytes, Use::kWrite);
  std::memcpy(to, from, bytes);
  if (is_device(to)) Arena::instance().mark(reinterpret_cast<std::uintptr_t>(to), bytes, true);
  return cudaSuccess;
}

cudaError_t fill(void* to, int value, std::size_t bytes, cudaStream_t stream, const char* routine) {
  if (bytes == 0) return cudaSuccess;
  if (!is_device(to) || !valid_device_range(to, bytes)) return result(cudaErrorInvalidValue);
  const gpusim::HostRuntime runtime;
  Streams::instance().begin(stream, routine);
  use(to, bytes, Use::kWrite);
  std::memset(to, value, bytes);
  Arena::instance().mark(reinterpret_cast<std::uintptr_t>(to), bytes, true);
  return cudaSuccess;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidSymbol: return "cudaErrorInvalidSymbol";
    case cudaErrorInvalidDevicePointer: return "cudaErrorInvalidDevicePointer";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    case cudaErrorInvalidClusterSize: return "cudaErrorInvalidClusterSize";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchOutOfResources: return "cudaErrorLaunchOutOfResources";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorCooperativeLaunchTooLarge: return "cudaErrorCooperativeLaunchTooLarge";
    case cudaErrorUnknown: break;
  }
  return "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidSymbol: return "invalid device symbol";
    case cudaErrorInvalidDevicePointer: return "invalid device pointer";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorNotSupported: return "operation not supported";
    case cudaErrorInvalidClusterSize: return "cluster misconfiguration";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchOutOfResources: return "too many resources requested for launch";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorCooperativeLaunchTooLarge: return "too many blocks in cooperative launch";
    case cudaErrorUnknown: break;
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device != 0) return result(cudaErrorInvalidDevice);
  const gpusim::EmulatedDevice& emulated = gpusim::emulated_device();
  *p = {};
  std::snprintf(p->name, sizeof p->name, "%s", emulated.name);
  p->totalGlobalMem = Arena::instance().capacity();
  p->sharedMemPerBlock = kDefaultDynamicShared;
  p->sharedMemPerBlockOptin = emulated.shared_bytes_per_block();
  p->sharedMemPerMultiprocessor = std::size_t(emulated.shared_kib_per_multiprocessor) * 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = emulated.threads_per_multiprocessor;
  const int block[3] = {1024, 1024, 64};
  const int grid[3] = {2147483647, 65535, 65535};
  std::memcpy(p->maxThreadsDim, block, sizeof block);
  std::memcpy(p->maxGridSize, grid, sizeof grid);
  p->major = emulated.compute_capability / 10;
  p->minor = emulated.compute_capability % 10;
  p->multiProcessorCount = emulated.multiprocessors;
  p->l2CacheSize = emulated.l2_mib << 20;
  p->totalConstMem = 64 * 1024;
  p->concurrentKernels = p->unifiedAddressing = p->cooperativeLaunch = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; return cudaSuccess;
    case cudaDevAttrWarpSize: *value = p.warpSize; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; return cudaSuccess;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; return cudaSuccess;
    case cudaDevAttrCooperativeLaunch: *value = 1; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = int(p.sharedMemPerMultiprocessor);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(p.sharedMemPerBlockOptin); return cudaSuccess;
  }
  return result(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (device != 0 || length < 13) return result(cudaErrorInvalidValue);
  const auto process = unsigned(getpid());
  if (const char* text = std::getenv("GPUSIM_PCI_BUS_ID")) {
    std::snprintf(id, std::size_t(length), "%s", text);
  } else {
    std::snprintf(id, std::size_t(length), "%04x:%02x:%02x.0", process >> 13 & 0xffff, process >> 5 & 0xff,
                  process & 0x1f);
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  Streams::instance().synchronize_all();
  return cudaSuccess;
}
cudaError_t cudaDeviceReset() { return cudaSuccess; }

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = Arena::instance().allocate(bytes);
  return result(*pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  Streams::instance().synchronize_all();
  return result(Arena::instance().release(pointer) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  *pointer = std::malloc(bytes);
  if (*pointer != nullptr) gpusim::pin(*pointer, bytes);
  return result(*pointer != nullptr || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* pointer) {
  gpusim::unpin(pointer);
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = Arena::instance().capacity();
  *free = *total - Arena::instance().used();
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = copy(to, from, bytes, kind, nullptr, __func__);
  Streams::instance().synchronize(nullptr);
  return error;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream, __func__);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidValue);
  for (std::size_t row = 0; row < height; ++row) {
    const cudaError_t error =
        copy(static_cast<std::byte*>(to) + row * to_pitch,
             static_cast<const std::byte*>(from) + row * from_pitch, width, kind, stream, __func__);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill(to, value, bytes, nullptr, __func__);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(to, value, bytes, stream, __func__);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  *stream = new CUstream_st;
  Streams::instance().create(*stream, (flags & cudaStreamNonBlocking) == 0);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Streams::instance().destroy(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Streams::instance().synchronize(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  Streams::instance().wait(stream, event);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Streams::instance().forget_event(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Streams::instance().record(event, stream);
  event->time = std::chrono::steady_clock::now();
  event->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Streams::instance().synchronize_event(event);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start->recorded || !end->recorded) return result(cudaErrorInvalidResourceHandle);
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || std::size_t(value) > gpusim::emulated_device().shared_bytes_per_block())
    return result(cudaErrorInvalidValue);
  dynamic_shared_limits()[kernel] = std::size_t(value);
  return cudaSuccess;
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

cudaError_t gpusim::device::launch(const cudaLaunchConfig_t& config, const void* kernel,
                                   void (*body)(const void*), const void* arguments,
                                   std::size_t argument_bytes, std::initializer_list<std::int64_t> integers) {
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
  Index cluster{0, 0, 0};
  bool overlaps = false, cooperative = false;
  if (const cudaError_t error = read_attributes(config, cluster, overlaps, cooperative); error != cudaSuccess)
    return result(error);
  if (cooperative && cluster.x != 0) return result(cudaErrorNotSupported);
  if (cooperative && std::uint64_t(grid.x) * grid.y * grid.z > resident_blocks(config))
    return result(cudaErrorCooperativeLaunchTooLarge);
  Streams::instance().begin(config.stream);
  const std::size_t static_bytes = run({{grid.x, grid.y, grid.z},
                                        {block.x, block.y, block.z},
                                        config.dynamicSmemBytes,
                                        body,
                                        arguments,
                                        kernel,
                                        integers,
                                        argument_bytes,
                                        cluster,
                                        config.stream,
                                        cooperative,
                                        overlaps && Streams::instance().follows_kernel()});
  // Only the run shows which static variables a kernel has. A device refuses the launch instead.
  const bool has_limit = limit != dynamic_shared_limits().end();
  const std::size_t most = has_limit ? emulated_device().shared_bytes_per_block() : kDefaultDynamicShared;
  const std::size_t dynamic = std::max(has_limit ? limit->second : 0, config.dynamicSmemBytes);
  const bool fits = static_bytes <= kMostStaticShared && static_bytes + dynamic <= most;
  return result(fits ? cudaSuccess : cudaErrorInvalidValue);
}
