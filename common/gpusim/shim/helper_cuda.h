/// @file
/// <helper_cuda.h> of CUDA's samples, as programs use it: checks of the API's results, and the choice of a
/// device.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda_runtime_api.h"
#include "helper_string.h"

#ifndef MIN
#define MIN(a, b) ((a < b) ? a : b)
#endif
#ifndef MAX
#define MAX(a, b) ((a > b) ? a : b)
#endif

inline const char* _cudaGetErrorEnum(cudaError_t error) { return cudaGetErrorName(error); }

/// Results of libraries have no names here.
template <class T>
const char* _cudaGetErrorEnum(T) {
  return "<unknown>";
}

template <class T>
void check(T result, const char* function, const char* file, int line) {
  if (result == T(0)) return;
  std::fprintf(stderr, "CUDA error at %s:%d code=%u(%s) \"%s\"\n", file, line, unsigned(result),
               _cudaGetErrorEnum(result), function);
  std::exit(EXIT_FAILURE);
}
#define checkCudaErrors(value) check((value), #value, __FILE__, __LINE__)

inline void __getLastCudaError(const char* message, const char* file, int line) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s(%d): CUDA error: %s: (%d) %s\n", file, line, message, int(error),
               cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}
inline void __printLastCudaError(const char* message, const char* file, int line) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s(%d): CUDA error: %s: (%d) %s\n", file, line, message, int(error),
               cudaGetErrorString(error));
}
#define getLastCudaError(message) __getLastCudaError(message, __FILE__, __LINE__)
#define printLastCudaError(message) __printLastCudaError(message, __FILE__, __LINE__)

inline int ftoi(float value) { return value >= 0.0f ? int(value + 0.5f) : int(value - 0.5f); }

/// Lanes for fp32 in a multiprocessor, from the programming guide.
inline int _ConvertSMVer2Cores(int major, int minor) {
  switch (10 * major + minor) {
    case 30:
    case 32:
    case 35:
    case 37: return 192;
    case 60:
    case 70:
    case 72:
    case 75:
    case 80: return 64;
    default: return 128;
  }
}
inline const char* _ConvertSMVer2ArchName(int major, int minor) {
  switch (major) {
    case 3: return "Kepler";
    case 5: return "Maxwell";
    case 6: return "Pascal";
    case 7: return minor == 5 ? "Turing" : "Volta";
    case 8: return minor == 9 ? "Ada" : "Ampere";
    case 9: return "Hopper";
    default: return "Blackwell";
  }
}

inline int gpuDeviceInit(int device) {
  checkCudaErrors(cudaSetDevice(device));
  return device;
}
inline int gpuGetMaxGflopsDeviceId() { return 0; }
inline int findCudaDevice(int argc, const char** argv) {
  int device = 0;
  if (checkCmdLineFlag(argc, argv, "device")) {
    device = gpuDeviceInit(getCmdLineArgumentInt(argc, argv, "device"));
  } else {
    checkCudaErrors(cudaSetDevice(device));
  }
  cudaDeviceProp properties;
  checkCudaErrors(cudaGetDeviceProperties(&properties, device));
  std::printf("GPU Device %d: \"%s\" with compute capability %d.%d\n\n", device,
              _ConvertSMVer2ArchName(properties.major, properties.minor), properties.major, properties.minor);
  return device;
}
inline int findIntegratedGPU() { return -1; }
inline bool checkCudaCapabilities(int major, int minor) {
  cudaDeviceProp properties;
  checkCudaErrors(cudaGetDeviceProperties(&properties, 0));
  if (properties.major > major || (properties.major == major && properties.minor >= minor)) return true;
  std::printf("The device has compute capability %d.%d, and the program needs %d.%d\n", properties.major,
              properties.minor, major, minor);
  return false;
}
