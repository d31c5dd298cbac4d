/// @file
/// The runtime API: allocations, of the device, of the host, and managed ones.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "gpusim/runtime/api.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/streams.hpp"

using gpusim::Arena;
using gpusim::Streams;
using gpusim::api::enqueue;
using gpusim::api::Place;
using gpusim::api::place_of;
using gpusim::api::result;

struct CUmemPoolHandle_st {
  std::uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};
};

namespace gpusim::api {
namespace {

constexpr std::size_t kPitchUnit = 512;

std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

CUmemPoolHandle_st& default_pool() {
  static CUmemPoolHandle_st pool;
  return pool;
}
constinit cudaMemPool_t current_pool = nullptr;

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

Place place_of(const void* pointer) {
  const std::uintptr_t address = address_of(pointer);
  if (Arena::instance().contains(address)) return is_managed(address) ? Place::kManaged : Place::kDevice;
  if (is_pinned(address, 1)) return Place::kPinned;
  return is_device_variable(address) ? Place::kVariable : Place::kHost;
}

}  // namespace gpusim::api

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return result(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = Arena::instance().allocate(bytes);
  return result(*pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
  *pitch = gpusim::api::round_up(width, gpusim::api::kPitchUnit);
  return cudaMalloc(pointer, *pitch * height);
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent) {
  pointer->xsize = extent.width;
  pointer->ysize = extent.height;
  pointer->pitch = gpusim::api::round_up(extent.width, gpusim::api::kPitchUnit);
  return cudaMalloc(&pointer->ptr, pointer->pitch * extent.height * extent.depth);
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (gpusim::api::is_any_capturing()) return result(cudaErrorStreamCaptureUnsupported);
  Streams::instance().synchronize_all();
  gpusim::unmanage(pointer);
  return result(Arena::instance().release(pointer) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned int flags) {
  if (pointer == nullptr || bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
    return result(cudaErrorInvalidValue);
  if (const cudaError_t error = cudaMalloc(pointer, bytes); error != cudaSuccess) return error;
  // Not all of the host's writes are seen: nothing can be said about bytes that nobody has written. They are
  // zero, as the pages of a new process are.
  const gpusim::HostRuntime runtime;
  std::memset(*pointer, 0, bytes);
  Arena::instance().mark(gpusim::api::address_of(*pointer), bytes, true);
  gpusim::manage(*pointer, bytes);
  Streams::instance().watch();
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned int) {
  if (pointer == nullptr) return result(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  constexpr std::size_t kPage = 4096;
  *pointer = std::aligned_alloc(kPage, gpusim::api::round_up(bytes, kPage));
  if (*pointer == nullptr) return result(cudaErrorMemoryAllocation);
  gpusim::pin(*pointer, bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (!gpusim::is_pinned(gpusim::api::address_of(pointer), 1)) return result(cudaErrorInvalidValue);
  Streams::instance().synchronize_all();
  gpusim::unpin(pointer);
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned int) {
  if (pointer == nullptr || bytes == 0) return result(cudaErrorInvalidValue);
  if (gpusim::is_pinned(gpusim::api::address_of(pointer), 1))
    return result(cudaErrorHostMemoryAlreadyRegistered);
  gpusim::pin(pointer, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer) {
  if (!gpusim::is_pinned(gpusim::api::address_of(pointer), 1))
    return result(cudaErrorHostMemoryNotRegistered);
  gpusim::unpin(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int) {
  if (place_of(host) == Place::kHost) return result(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}
cudaError_t cudaHostGetFlags(unsigned int* flags, void* host) {
  if (place_of(host) != Place::kPinned) return result(cudaErrorInvalidValue);
  *flags = cudaHostAllocMapped;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = Arena::instance().capacity();
  *free = *total - Arena::instance().used();
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Place place = place_of(pointer);
  void* const same = const_cast<void*>(pointer);
  *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, same};
  switch (place) {
    case Place::kHost: attributes->hostPointer = nullptr; break;
    case Place::kPinned: *attributes = {cudaMemoryTypeHost, 0, same, same}; break;
    case Place::kDevice:
    case Place::kVariable: *attributes = {cudaMemoryTypeDevice, 0, same, nullptr}; break;
    case Place::kManaged: *attributes = {cudaMemoryTypeManaged, 0, same, same}; break;
  }
  if (place == Place::kHost) attributes->device = cudaInvalidDeviceId;
  return cudaSuccess;
}

// ---- in the order of a stream -----------------------------------------------------------------------------

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  if (!gpusim::api::is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  return cudaMalloc(pointer, bytes);
}
cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  return cudaMallocAsync(pointer, bytes, stream);
}
/// The memory counts as written at this point of the stream: who uses it in another one has a race.
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  if (!gpusim::api::is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  if (pointer == nullptr) return cudaSuccess;
  return enqueue(stream, cudaGraphNodeTypeEmpty, [pointer](cudaStream_t) {
    return result(Arena::instance().release(pointer) ? cudaSuccess : cudaErrorInvalidValue);
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = new CUmemPoolHandle_st;
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  if (pool == &gpusim::api::default_pool()) return result(cudaErrorInvalidValue);
  if (pool == gpusim::api::current_pool) gpusim::api::current_pool = nullptr;
  delete pool;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      std::memcpy(&pool->reuse[attribute - 1], value, sizeof(int));
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      std::memcpy(&pool->release_threshold, value, sizeof pool->release_threshold);
      return cudaSuccess;
    default: return cudaSuccess;
  }
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const std::uint64_t used = Arena::instance().used();
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      std::memcpy(value, &pool->reuse[attribute - 1], sizeof(int));
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      std::memcpy(value, &pool->release_threshold, sizeof pool->release_threshold);
      return cudaSuccess;
    default: std::memcpy(value, &used, sizeof used); return cudaSuccess;
  }
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (device != 0) return result(cudaErrorInvalidDevice);
  *pool = &gpusim::api::default_pool();
  return cudaSuccess;
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  if (device != 0) return result(cudaErrorInvalidDevice);
  *pool = gpusim::api::current_pool != nullptr ? gpusim::api::current_pool : &gpusim::api::default_pool();
  return cudaSuccess;
}
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  if (device != 0) return result(cudaErrorInvalidDevice);
  gpusim::api::current_pool = pool;
  return cudaSuccess;
}

// ---- managed memory ---------------------------------------------------------------------------------------

cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t, int, cudaStream_t stream) {
  if (!gpusim::api::is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const Place place = place_of(pointer);
  return result(place == Place::kManaged || place == Place::kVariable ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemAdvise(const void* pointer, std::size_t, cudaMemoryAdvise, int) {
  const Place place = place_of(pointer);
  return result(place == Place::kManaged || place == Place::kVariable ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, std::size_t, unsigned int) { return cudaSuccess; }
