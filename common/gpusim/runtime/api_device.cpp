/// @file
/// The runtime API: the device and what it can do.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gpusim/runtime/api.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/emulated.hpp"
#include "gpusim/runtime/streams.hpp"

namespace gpusim::api {
namespace {

constinit unsigned device_flags = 0;
constinit cudaFuncCache cache_config = cudaFuncCachePreferNone;

struct Limit {
  cudaLimit which;
  std::size_t value;
};
/// They change nothing here.
constinit Limit limits[] = {{cudaLimitStackSize, 1024},
                            {cudaLimitPrintfFifoSize, 1 << 20},
                            {cudaLimitMallocHeapSize, 8 << 20},
                            {cudaLimitDevRuntimeSyncDepth, 2},
                            {cudaLimitDevRuntimePendingLaunchCount, 2048},
                            {cudaLimitMaxL2FetchGranularity, 64},
                            {cudaLimitPersistingL2CacheSize, 0}};

template <std::size_t n>
void set(int (&to)[n], const int (&from)[n]) {
  std::memcpy(to, from, sizeof to);
}

void fill_texture_limits(cudaDeviceProp& p) {
  p.textureAlignment = p.surfaceAlignment = 512;
  p.texturePitchAlignment = 32;
  p.maxTexture1D = 131072;
  p.maxTexture1DMipmap = 32768;
  p.maxTexture1DLinear = 268435456;
  set(p.maxTexture2D, {131072, 65536});
  set(p.maxTexture2DMipmap, {32768, 32768});
  set(p.maxTexture2DLinear, {131072, 65000, 2097120});
  set(p.maxTexture2DGather, {32768, 32768});
  set(p.maxTexture3D, {16384, 16384, 16384});
  set(p.maxTexture3DAlt, {8192, 8192, 32768});
  p.maxTextureCubemap = 32768;
  set(p.maxTexture1DLayered, {32768, 2048});
  set(p.maxTexture2DLayered, {32768, 32768, 2048});
  set(p.maxTextureCubemapLayered, {32768, 2046});
  p.maxSurface1D = 32768;
  set(p.maxSurface2D, {131072, 65536});
  set(p.maxSurface3D, {16384, 16384, 16384});
}

}  // namespace
}  // namespace gpusim::api

using gpusim::Arena;
using gpusim::Streams;
using gpusim::api::is_any_capturing;
using gpusim::api::result;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaSetValidDevices(int*, int) { return cudaSuccess; }
cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) { return cudaSetDevice(device); }
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return cudaGetDevice(device); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device != 0) return result(cudaErrorInvalidDevice);
  const gpusim::EmulatedDevice& emulated = gpusim::emulated_device();
  *p = {};
  std::snprintf(p->name, sizeof p->name, "%s", emulated.name);
  std::memcpy(p->uuid.bytes, "gpusim", 6);
  p->totalGlobalMem = Arena::instance().capacity();
  p->sharedMemPerBlock = gpusim::api::kDefaultDynamicShared;
  p->sharedMemPerBlockOptin = emulated.shared_bytes_per_block();
  p->sharedMemPerMultiprocessor = std::size_t(emulated.shared_kib_per_multiprocessor) * 1024;
  p->reservedSharedMemPerBlock = emulated.compute_capability >= 80 ? 1024 : 0;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = emulated.threads_per_multiprocessor;
  p->maxBlocksPerMultiProcessor = emulated.blocks_per_multiprocessor();
  gpusim::api::set(p->maxThreadsDim, {1024, 1024, 64});
  gpusim::api::set(p->maxGridSize, {2147483647, 65535, 65535});
  p->major = emulated.compute_capability / 10;
  p->minor = emulated.compute_capability % 10;
  p->multiProcessorCount = emulated.multiprocessors;
  p->clockRate = emulated.clock_mhz * 1000;
  p->memoryClockRate = emulated.memory_clock_mhz * 1000;
  p->memoryBusWidth = emulated.memory_bus_bits;
  p->l2CacheSize = emulated.l2_mib << 20;
  p->totalConstMem = 64 * 1024;
  p->memPitch = 2147483647;
  gpusim::api::fill_texture_limits(*p);
  p->concurrentKernels = p->unifiedAddressing = p->deviceOverlap = 1;
  p->asyncEngineCount = 2;
  p->canMapHostMemory = p->managedMemory = p->concurrentManagedAccess = 1;
  p->cooperativeLaunch = p->streamPrioritiesSupported = p->computePreemptionSupported = 1;
  p->globalL1CacheSupported = p->localL1CacheSupported = p->memoryPoolsSupported = 1;
  p->hostRegisterSupported = p->canUseHostPointerForRegisteredMem = 1;
  p->clusterLaunch = emulated.compute_capability >= 90 ? 1 : 0;
  p->singleToDoublePrecisionPerfRatio = emulated.compute_capability % 10 == 0 && p->major < 12 ? 2 : 64;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
#define GPUSIM_VALUE(name, number, expression) \
  case name: *value = int(expression); return cudaSuccess;
  switch (attribute) { GPUSIM_DEVICE_ATTRIBUTES(GPUSIM_VALUE) }
#undef GPUSIM_VALUE
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
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char*) { return cudaGetDevice(device); }

cudaError_t cudaDeviceSynchronize() {
  if (is_any_capturing()) return result(cudaErrorStreamCaptureUnsupported);
  Streams::instance().synchronize_all();
  return result(gpusim::api::device_error());
}
cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
cudaError_t cudaDeviceReset() {
  Streams::instance().synchronize_all();
  return cudaSuccess;
}
cudaError_t cudaThreadExit() { return cudaDeviceReset(); }

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  gpusim::api::device_flags = flags;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  *flags = gpusim::api::device_flags;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetLimit(cudaLimit which, std::size_t value) {
  for (auto& limit : gpusim::api::limits) {
    if (limit.which != which) continue;
    limit.value = value;
    return cudaSuccess;
  }
  return result(cudaErrorUnsupportedLimit);
}
cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit which) {
  for (const auto& limit : gpusim::api::limits) {
    if (limit.which != which) continue;
    *value = limit.value;
    return cudaSuccess;
  }
  return result(cudaErrorUnsupportedLimit);
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  gpusim::api::cache_config = config;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  *config = gpusim::api::cache_config;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  *config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

// There is one device.
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int) { return result(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceDisablePeerAccess(int) { return result(cudaErrorPeerAccessNotEnabled); }
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
  *value = 0;
  return result(cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
