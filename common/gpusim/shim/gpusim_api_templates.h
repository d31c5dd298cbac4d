/// @file
/// The forms of the runtime API that C++ has in addition: without casts to `void**`, with kernels and
/// variables by their names. Part of <cuda_runtime_api.h>.
#pragma once

#include "driver_types.h"

// ---- memory -----------------------------------------------------------------------------------------------

template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaMallocPitch(T** pointer, size_t* pitch, size_t width, size_t height) {
  return cudaMallocPitch(reinterpret_cast<void**>(pointer), pitch, width, height);
}
template <class T>
cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned int flags = cudaMemAttachGlobal) {
  return cudaMallocManaged(reinterpret_cast<void**>(pointer), bytes, flags);
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned int flags = 0) {
  return cudaHostAlloc(reinterpret_cast<void**>(pointer), bytes, flags);
}
template <class T>
cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned int flags = 0) {
  return cudaHostAlloc(reinterpret_cast<void**>(pointer), bytes, flags);
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned int flags) {
  return cudaHostGetDevicePointer(reinterpret_cast<void**>(device), host, flags);
}
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(pointer), bytes, stream);
}
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(reinterpret_cast<void**>(pointer), bytes, pool, stream);
}
template <class T>
cudaError_t cudaMallocFromPoolAsync(T** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(reinterpret_cast<void**>(pointer), bytes, pool, stream);
}
template <class T>
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, T* pointer, size_t bytes = 0,
                                     unsigned int flags = cudaMemAttachSingle) {
  return cudaStreamAttachMemAsync(stream, static_cast<void*>(pointer), bytes, flags);
}
/// As in CUDA 13.
inline cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location,
                                        unsigned int, cudaStream_t stream = nullptr) {
  return cudaMemPrefetchAsync(
      pointer, bytes, location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId, stream);
}
inline cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                                 cudaMemLocation location) {
  return cudaMemAdvise(pointer, bytes, advice,
                       location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId);
}

// ---- variables of the device ------------------------------------------------------------------------------

template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cudaErrorInvalidValue;
  return cudaMemcpyToSymbol(static_cast<const void*>(&symbol), from, bytes, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cudaErrorInvalidValue;
  return cudaMemcpyFromSymbol(to, static_cast<const void*>(&symbol), bytes, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                    cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                    cudaStream_t stream = nullptr) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cudaErrorInvalidValue;
  return cudaMemcpyToSymbolAsync(static_cast<const void*>(&symbol), from, bytes, offset, kind, stream);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                      cudaStream_t stream = nullptr) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cudaErrorInvalidValue;
  return cudaMemcpyFromSymbolAsync(to, static_cast<const void*>(&symbol), bytes, offset, kind, stream);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
  return cudaGetSymbolAddress(address, static_cast<const void*>(&symbol));
}
template <class P, class T>
cudaError_t cudaGetSymbolAddress(P** address, const T& symbol) {
  return cudaGetSymbolAddress(reinterpret_cast<void**>(address), static_cast<const void*>(&symbol));
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
  *bytes = sizeof(T);
  return cudaSuccess;
}

// ---- arrays -----------------------------------------------------------------------------------------------

namespace gpusim {

/// The format of an element: a number, or a vector of up to four. @tparam Component  of a vector
template <class T, class Component>
constexpr cudaChannelFormatDesc channel_format() {
  constexpr int kBits = 8 * int(sizeof(Component)), kCount = int(sizeof(T) / sizeof(Component));
  constexpr bool kIsFloat = Component(1) / Component(2) != Component(0);
  return {kBits, kCount > 1 ? kBits : 0, kCount > 2 ? kBits : 0, kCount > 3 ? kBits : 0,
          kIsFloat                       ? cudaChannelFormatKindFloat
          : Component(-1) < Component(0) ? cudaChannelFormatKindSigned
                                         : cudaChannelFormatKindUnsigned};
}

}  // namespace gpusim

template <class T>
cudaChannelFormatDesc cudaCreateChannelDesc();
#define GPUSIM_CHANNELS(type, name)                               \
  template <>                                                     \
  inline cudaChannelFormatDesc cudaCreateChannelDesc<type>() {    \
    return gpusim::channel_format<type, type>();                  \
  }                                                               \
  template <>                                                     \
  inline cudaChannelFormatDesc cudaCreateChannelDesc<name##1>() { \
    return gpusim::channel_format<type, type>();                  \
  }                                                               \
  template <>                                                     \
  inline cudaChannelFormatDesc cudaCreateChannelDesc<name##2>() { \
    return gpusim::channel_format<name##2, type>();               \
  }                                                               \
  template <>                                                     \
  inline cudaChannelFormatDesc cudaCreateChannelDesc<name##4>() { \
    return gpusim::channel_format<name##4, type>();               \
  }
GPUSIM_CHANNELS(signed char, char)
GPUSIM_CHANNELS(unsigned char, uchar)
GPUSIM_CHANNELS(short, short)
GPUSIM_CHANNELS(unsigned short, ushort)
GPUSIM_CHANNELS(int, int)
GPUSIM_CHANNELS(unsigned int, uint)
GPUSIM_CHANNELS(float, float)
#undef GPUSIM_CHANNELS
template <>
inline cudaChannelFormatDesc cudaCreateChannelDesc<char>() {
  return gpusim::channel_format<signed char, signed char>();
}

inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) {
  return {width, height, depth};
}
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
inline cudaPitchedPtr make_cudaPitchedPtr(void* pointer, size_t pitch, size_t width, size_t height) {
  return {pointer, pitch, width, height};
}

// ---- kernels ----------------------------------------------------------------------------------------------

inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned int flags) {
  return cudaEventCreateWithFlags(event, flags);
}
template <class... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class... Params>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Params...)) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <class... Params>
cudaError_t cudaFuncSetCacheConfig(void (*kernel)(Params...), cudaFuncCache config) {
  return cudaFuncSetCacheConfig(reinterpret_cast<const void*>(kernel), config);
}
template <class... Params>
cudaError_t cudaFuncSetSharedMemConfig(void (*kernel)(Params...), cudaSharedMemConfig config) {
  return cudaFuncSetSharedMemConfig(reinterpret_cast<const void*>(kernel), config);
}
template <class... Params>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(Params...),
                                                          int block_size, size_t dynamic_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void*>(kernel),
                                                       block_size, dynamic_bytes);
}
template <class... Params>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void (*kernel)(Params...),
                                                                   int block_size, size_t dynamic_bytes,
                                                                   unsigned int flags) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, reinterpret_cast<const void*>(kernel),
                                                                block_size, dynamic_bytes, flags);
}

namespace gpusim::api {
/// The block size with the most threads on a multiprocessor, the largest of these.
cudaError_t best_block_size(int* grid, int* block, const void* kernel, size_t (*bytes)(const void*, int),
                            const void* context, int limit);
}  // namespace gpusim::api

/// @param bytes  dynamic shared memory for each block size
template <class Bytes, class... Params>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid, int* block, void (*kernel)(Params...),
                                                           Bytes bytes, int limit = 0) {
  return gpusim::api::best_block_size(
      grid, block, reinterpret_cast<const void*>(kernel),
      [](const void* f, int size) {
        return size_t((*const_cast<Bytes*>(static_cast<const Bytes*>(f)))(size));
      },
      &bytes, limit);
}
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* kernel,
                                                      size_t dynamic_bytes = 0, int limit = 0) {
  return gpusim::api::best_block_size(
      grid, block, kernel, [](const void* bytes, int) { return *static_cast<const size_t*>(bytes); },
      &dynamic_bytes, limit);
}
template <class... Params>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, void (*kernel)(Params...),
                                               size_t dynamic_bytes = 0, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(
      grid, block, kernel, [dynamic_bytes](int) { return dynamic_bytes; }, limit);
}
template <class... Params>
cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, void (*kernel)(Params...),
                                                        size_t dynamic_bytes = 0, int limit = 0,
                                                        unsigned int = 0) {
  return cudaOccupancyMaxPotentialBlockSize(grid, block, kernel, dynamic_bytes, limit);
}

// ---- what is there so that programs compile ---------------------------------------------------------------

/// Between processes, nothing is shared.
struct cudaIpcMemHandle_t {
  char reserved[64];
};
struct cudaIpcEventHandle_t {
  char reserved[64];
};
inline constexpr unsigned int cudaIpcMemLazyEnablePeerAccess = 1;
inline cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return cudaErrorNotSupported; }
inline cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned int) {
  return cudaErrorNotSupported;
}
inline cudaError_t cudaIpcCloseMemHandle(void*) { return cudaErrorNotSupported; }
inline cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) { return cudaErrorNotSupported; }
inline cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return cudaErrorNotSupported;
}

inline cudaError_t cudaStreamCopyAttributes(cudaStream_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaThreadSetLimit(cudaLimit limit, size_t value) {
  return cudaDeviceSetLimit(limit, value);
}
inline cudaError_t cudaThreadSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
