/// @file
/// What the runtime API says about a device. Also for C.
#pragma once

#include <stddef.h>

typedef struct CUuuid_st {
  char bytes[16];
} cudaUUID_t;

/// What the simulator claims to be: the device that GPUSIM_DEVICE names. By default this is a device of
/// compute capability 9.0 with the sizes of an H100, so that a kernel that asks for the number of
/// multiprocessors makes the same grid everywhere.
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned int luidDeviceNodeMask;
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int clockRate;  ///< kHz
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment, texturePitchAlignment;
  int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
  int maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear;
  int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2];
  int maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap;
  int maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
  int maxSurface1D, maxSurface2D[2], maxSurface3D[3];
  int maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver;
  int asyncEngineCount, unifiedAddressing;
  int memoryClockRate;  ///< kHz
  int memoryBusWidth;   ///< bits
  int l2CacheSize, persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
  int hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio;
  int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
  int canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
  unsigned int gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned int memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
};

enum cudaComputeMode {
  cudaComputeModeDefault = 0,
  cudaComputeModeExclusive = 1,
  cudaComputeModeProhibited = 2,
  cudaComputeModeExclusiveProcess = 3
};

/// F(name, number, its value in a cudaDeviceProp p). Those that ask whether something exists that the
/// simulator has not are 0.
#define GPUSIM_DEVICE_ATTRIBUTES(F)                                                                   \
  F(cudaDevAttrMaxThreadsPerBlock, 1, p.maxThreadsPerBlock)                                           \
  F(cudaDevAttrMaxBlockDimX, 2, p.maxThreadsDim[0])                                                   \
  F(cudaDevAttrMaxBlockDimY, 3, p.maxThreadsDim[1])                                                   \
  F(cudaDevAttrMaxBlockDimZ, 4, p.maxThreadsDim[2])                                                   \
  F(cudaDevAttrMaxGridDimX, 5, p.maxGridSize[0])                                                      \
  F(cudaDevAttrMaxGridDimY, 6, p.maxGridSize[1])                                                      \
  F(cudaDevAttrMaxGridDimZ, 7, p.maxGridSize[2])                                                      \
  F(cudaDevAttrMaxSharedMemoryPerBlock, 8, p.sharedMemPerBlock)                                       \
  F(cudaDevAttrTotalConstantMemory, 9, p.totalConstMem)                                               \
  F(cudaDevAttrWarpSize, 10, p.warpSize)                                                              \
  F(cudaDevAttrMaxPitch, 11, p.memPitch)                                                              \
  F(cudaDevAttrMaxRegistersPerBlock, 12, p.regsPerBlock)                                              \
  F(cudaDevAttrClockRate, 13, p.clockRate)                                                            \
  F(cudaDevAttrTextureAlignment, 14, p.textureAlignment)                                              \
  F(cudaDevAttrGpuOverlap, 15, p.deviceOverlap)                                                       \
  F(cudaDevAttrMultiProcessorCount, 16, p.multiProcessorCount)                                        \
  F(cudaDevAttrKernelExecTimeout, 17, p.kernelExecTimeoutEnabled)                                     \
  F(cudaDevAttrIntegrated, 18, p.integrated)                                                          \
  F(cudaDevAttrCanMapHostMemory, 19, p.canMapHostMemory)                                              \
  F(cudaDevAttrComputeMode, 20, p.computeMode)                                                        \
  F(cudaDevAttrMaxTexture1DWidth, 21, p.maxTexture1D)                                                 \
  F(cudaDevAttrMaxTexture2DWidth, 22, p.maxTexture2D[0])                                              \
  F(cudaDevAttrMaxTexture2DHeight, 23, p.maxTexture2D[1])                                             \
  F(cudaDevAttrMaxTexture3DWidth, 24, p.maxTexture3D[0])                                              \
  F(cudaDevAttrMaxTexture3DHeight, 25, p.maxTexture3D[1])                                             \
  F(cudaDevAttrMaxTexture3DDepth, 26, p.maxTexture3D[2])                                              \
  F(cudaDevAttrSurfaceAlignment, 30, p.surfaceAlignment)                                              \
  F(cudaDevAttrConcurrentKernels, 31, p.concurrentKernels)                                            \
  F(cudaDevAttrEccEnabled, 32, p.ECCEnabled)                                                          \
  F(cudaDevAttrPciBusId, 33, p.pciBusID)                                                              \
  F(cudaDevAttrPciDeviceId, 34, p.pciDeviceID)                                                        \
  F(cudaDevAttrTccDriver, 35, p.tccDriver)                                                            \
  F(cudaDevAttrMemoryClockRate, 36, p.memoryClockRate)                                                \
  F(cudaDevAttrGlobalMemoryBusWidth, 37, p.memoryBusWidth)                                            \
  F(cudaDevAttrL2CacheSize, 38, p.l2CacheSize)                                                        \
  F(cudaDevAttrMaxThreadsPerMultiProcessor, 39, p.maxThreadsPerMultiProcessor)                        \
  F(cudaDevAttrAsyncEngineCount, 40, p.asyncEngineCount)                                              \
  F(cudaDevAttrUnifiedAddressing, 41, p.unifiedAddressing)                                            \
  F(cudaDevAttrPciDomainId, 50, p.pciDomainID)                                                        \
  F(cudaDevAttrTexturePitchAlignment, 51, p.texturePitchAlignment)                                    \
  F(cudaDevAttrComputeCapabilityMajor, 75, p.major)                                                   \
  F(cudaDevAttrComputeCapabilityMinor, 76, p.minor)                                                   \
  F(cudaDevAttrStreamPrioritiesSupported, 78, p.streamPrioritiesSupported)                            \
  F(cudaDevAttrGlobalL1CacheSupported, 79, p.globalL1CacheSupported)                                  \
  F(cudaDevAttrLocalL1CacheSupported, 80, p.localL1CacheSupported)                                    \
  F(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 81, p.sharedMemPerMultiprocessor)                    \
  F(cudaDevAttrMaxRegistersPerMultiprocessor, 82, p.regsPerMultiprocessor)                            \
  F(cudaDevAttrManagedMemory, 83, p.managedMemory)                                                    \
  F(cudaDevAttrIsMultiGpuBoard, 84, p.isMultiGpuBoard)                                                \
  F(cudaDevAttrMultiGpuBoardGroupID, 85, p.multiGpuBoardGroupID)                                      \
  F(cudaDevAttrHostNativeAtomicSupported, 86, p.hostNativeAtomicSupported)                            \
  F(cudaDevAttrSingleToDoublePrecisionPerfRatio, 87, p.singleToDoublePrecisionPerfRatio)              \
  F(cudaDevAttrPageableMemoryAccess, 88, p.pageableMemoryAccess)                                      \
  F(cudaDevAttrConcurrentManagedAccess, 89, p.concurrentManagedAccess)                                \
  F(cudaDevAttrComputePreemptionSupported, 90, p.computePreemptionSupported)                          \
  F(cudaDevAttrCanUseHostPointerForRegisteredMem, 91, p.canUseHostPointerForRegisteredMem)            \
  F(cudaDevAttrCooperativeLaunch, 95, p.cooperativeLaunch)                                            \
  F(cudaDevAttrCooperativeMultiDeviceLaunch, 96, p.cooperativeMultiDeviceLaunch)                      \
  F(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97, p.sharedMemPerBlockOptin)                            \
  F(cudaDevAttrHostRegisterSupported, 99, p.hostRegisterSupported)                                    \
  F(cudaDevAttrPageableMemoryAccessUsesHostPageTables, 100, p.pageableMemoryAccessUsesHostPageTables) \
  F(cudaDevAttrDirectManagedMemAccessFromHost, 101, p.directManagedMemAccessFromHost)                 \
  F(cudaDevAttrMaxBlocksPerMultiprocessor, 106, p.maxBlocksPerMultiProcessor)                         \
  F(cudaDevAttrMaxPersistingL2CacheSize, 108, p.persistingL2CacheMaxSize)                             \
  F(cudaDevAttrMaxAccessPolicyWindowSize, 109, p.accessPolicyMaxWindowSize)                           \
  F(cudaDevAttrReservedSharedMemoryPerBlock, 111, p.reservedSharedMemPerBlock)                        \
  F(cudaDevAttrSparseCudaArraySupported, 112, p.sparseCudaArraySupported)                             \
  F(cudaDevAttrMemoryPoolsSupported, 115, p.memoryPoolsSupported)                                     \
  F(cudaDevAttrClusterLaunch, 120, p.clusterLaunch)

#define GPUSIM_ENUMERATOR(name, number, value) name = number,
enum cudaDeviceAttr { GPUSIM_DEVICE_ATTRIBUTES(GPUSIM_ENUMERATOR) };
#undef GPUSIM_ENUMERATOR

enum cudaLimit {
  cudaLimitStackSize = 0x00,
  cudaLimitPrintfFifoSize = 0x01,
  cudaLimitMallocHeapSize = 0x02,
  cudaLimitDevRuntimeSyncDepth = 0x03,
  cudaLimitDevRuntimePendingLaunchCount = 0x04,
  cudaLimitMaxL2FetchGranularity = 0x05,
  cudaLimitPersistingL2CacheSize = 0x06
};
enum cudaDeviceP2PAttr {
  cudaDevP2PAttrPerformanceRank = 1,
  cudaDevP2PAttrAccessSupported = 2,
  cudaDevP2PAttrNativeAtomicSupported = 3,
  cudaDevP2PAttrCudaArrayAccessSupported = 4
};
