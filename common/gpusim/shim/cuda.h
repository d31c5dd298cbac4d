/// @file
/// The simulator's <cuda.h>: the parts of the driver's interface that encode tensor maps and ask for the
/// device. Kernels in modules are missing.
#pragma once

#include <cstdint>

#include "cuda_runtime_api.h"

using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;

#define CUDA_VERSION 12080

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_SUPPORTED = 801,
};

inline constexpr int CU_TENSOR_MAP_NUM_QWORDS = 16;

// A kernel takes a map by value, about which g++ has a note.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

struct alignas(128) CUtensorMap {
  cuuint64_t opaque[CU_TENSOR_MAP_NUM_QWORDS];
};

enum CUtensorMapDataType : unsigned {
  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_UINT16,
  CU_TENSOR_MAP_DATA_TYPE_UINT32,
  CU_TENSOR_MAP_DATA_TYPE_INT32,
  CU_TENSOR_MAP_DATA_TYPE_UINT64,
  CU_TENSOR_MAP_DATA_TYPE_INT64,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
};

enum CUtensorMapInterleave : unsigned {
  CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
  CU_TENSOR_MAP_INTERLEAVE_16B,
  CU_TENSOR_MAP_INTERLEAVE_32B,
};

enum CUtensorMapSwizzle : unsigned {
  CU_TENSOR_MAP_SWIZZLE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_32B,
  CU_TENSOR_MAP_SWIZZLE_64B,
  CU_TENSOR_MAP_SWIZZLE_128B,
};

enum CUtensorMapL2promotion : unsigned {
  CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
  CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
  CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
};

enum CUtensorMapFloatOOBfill : unsigned {
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
};

/// Checks what the driver checks. gpusim::last_tensor_map_error() says which rule a map breaks.
extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                           void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                           const cuuint32_t* box, const cuuint32_t* element_strides,
                                           CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                           CUtensorMapL2promotion l2_promotion,
                                           CUtensorMapFloatOOBfill out_of_bounds_fill);

// ---- the device, by the numbers that the runtime API uses as well -----------------------------------------

using CUdevice = int;
using CUstream = cudaStream_t;
using CUevent = cudaEvent_t;
using CUdeviceptr = unsigned long long;

enum CUdevice_attribute {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

inline CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
inline CUresult cuDriverGetVersion(int* version) { return CUresult(int(cudaDriverGetVersion(version))); }
inline CUresult cuDeviceGetCount(int* count) { return CUresult(int(cudaGetDeviceCount(count))); }
inline CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
inline CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return CUresult(int(cudaDeviceGetAttribute(value, cudaDeviceAttr(int(attribute)), device)));
}
inline CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  for (int i = 0; error == cudaSuccess && i < length; ++i)
    name[i] = i + 1 < length ? properties.name[i] : '\0';
  return CUresult(int(error));
}
inline CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  *bytes = error == cudaSuccess ? properties.totalGlobalMem : 0;
  return CUresult(int(error));
}
/// The allocation that contains an address.
extern "C" CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address);
inline CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(cudaError_t(int(error)));
  return CUDA_SUCCESS;
}
inline CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = cudaGetErrorName(cudaError_t(int(error)));
  return CUDA_SUCCESS;
}

// ---- contexts and memory: there is one context, which always exists: the runtime's -----------------------

struct CUctx_st;
using CUcontext = CUctx_st*;

namespace gpusim::driver {
inline CUresult result(cudaError_t error) { return CUresult(int(error)); }
inline void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
inline CUcontext context() {
  static char only = 0;
  return reinterpret_cast<CUcontext>(&only);
}
}  // namespace gpusim::driver

inline CUresult cuCtxCreate(CUcontext* context, unsigned int, CUdevice device) {
  *context = gpusim::driver::context();
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
inline CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return cuCtxCreate(context, 0, device);
}
inline CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
inline CUresult cuCtxDestroy(CUcontext) { return CUDA_SUCCESS; }
inline CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
inline CUresult cuCtxPushCurrent(CUcontext) { return CUDA_SUCCESS; }
inline CUresult cuCtxGetCurrent(CUcontext* context) { return cuCtxCreate(context, 0, 0); }
inline CUresult cuCtxPopCurrent(CUcontext* context) { return cuCtxCreate(context, 0, 0); }
inline CUresult cuCtxGetDevice(CUdevice* device) { return cuDeviceGet(device, 0); }
inline CUresult cuCtxSynchronize() { return gpusim::driver::result(cudaDeviceSynchronize()); }

inline CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  return gpusim::driver::result(cudaMalloc(reinterpret_cast<void**>(address), bytes));
}
inline CUresult cuMemFree(CUdeviceptr address) {
  return gpusim::driver::result(cudaFree(gpusim::driver::pointer(address)));
}
inline CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return gpusim::driver::result(cudaMemGetInfo(free, total));
}
inline CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return gpusim::driver::result(cudaMemcpy(gpusim::driver::pointer(to), from, bytes, cudaMemcpyHostToDevice));
}
inline CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return gpusim::driver::result(cudaMemcpy(to, gpusim::driver::pointer(from), bytes, cudaMemcpyDeviceToHost));
}
inline CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return gpusim::driver::result(cudaMemcpy(gpusim::driver::pointer(to), gpusim::driver::pointer(from), bytes,
                                           cudaMemcpyDeviceToDevice));
}
inline CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t bytes) {
  return gpusim::driver::result(cudaMemset(gpusim::driver::pointer(to), value, bytes));
}
