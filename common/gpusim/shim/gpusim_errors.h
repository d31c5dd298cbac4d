/// @file
/// The error codes of the runtime API: F(name, number, text of cudaGetErrorString()).
#pragma once

#define GPUSIM_ERRORS(F)                                                                                    \
  F(cudaSuccess, 0, "no error")                                                                             \
  F(cudaErrorInvalidValue, 1, "invalid argument")                                                           \
  F(cudaErrorMemoryAllocation, 2, "out of memory")                                                          \
  F(cudaErrorInitializationError, 3, "initialization error")                                                \
  F(cudaErrorCudartUnloading, 4, "driver shutting down")                                                    \
  F(cudaErrorProfilerDisabled, 5, "profiler disabled")                                                      \
  F(cudaErrorProfilerNotInitialized, 6, "profiler not initialized")                                         \
  F(cudaErrorProfilerAlreadyStarted, 7, "profiler already started")                                         \
  F(cudaErrorProfilerAlreadyStopped, 8, "profiler already stopped")                                         \
  F(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                     \
  F(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                               \
  F(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                                    \
  F(cudaErrorInvalidHostPointer, 16, "invalid host pointer")                                                \
  F(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                            \
  F(cudaErrorInvalidTexture, 18, "invalid texture reference")                                               \
  F(cudaErrorInvalidTextureBinding, 19, "texture is not bound to a pointer")                                \
  F(cudaErrorInvalidChannelDescriptor, 20, "invalid channel descriptor")                                    \
  F(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                               \
  F(cudaErrorAddressOfConstant, 22, "address of a constant")                                                \
  F(cudaErrorTextureFetchFailed, 23, "texture fetch failed")                                                \
  F(cudaErrorTextureNotBound, 24, "texture not bound")                                                      \
  F(cudaErrorSynchronizationError, 25, "synchronization failed")                                            \
  F(cudaErrorInvalidFilterSetting, 26, "invalid filter setting")                                            \
  F(cudaErrorInvalidNormSetting, 27, "invalid normalization setting")                                       \
  F(cudaErrorMixedDeviceExecution, 28, "device and emulated code mixed")                                    \
  F(cudaErrorNotYetImplemented, 31, "not yet implemented")                                                  \
  F(cudaErrorMemoryValueTooLarge, 32, "memory size too large")                                              \
  F(cudaErrorStubLibrary, 34, "the CUDA driver is a stub library")                                          \
  F(cudaErrorInsufficientDriver, 35, "the driver is too old for this runtime")                              \
  F(cudaErrorCallRequiresNewerDriver, 36, "the call requires a newer driver")                               \
  F(cudaErrorInvalidSurface, 37, "invalid surface reference")                                               \
  F(cudaErrorDuplicateVariableName, 43, "duplicate name of a global variable")                              \
  F(cudaErrorDuplicateTextureName, 44, "duplicate name of a texture")                                       \
  F(cudaErrorDuplicateSurfaceName, 45, "duplicate name of a surface")                                       \
  F(cudaErrorDevicesUnavailable, 46, "all devices are busy or unavailable")                                 \
  F(cudaErrorIncompatibleDriverContext, 49, "incompatible driver context")                                  \
  F(cudaErrorMissingConfiguration, 52, "the launch has no configuration")                                   \
  F(cudaErrorPriorLaunchFailure, 53, "an earlier launch failed")                                            \
  F(cudaErrorLaunchMaxDepthExceeded, 65, "launches are nested too deeply")                                  \
  F(cudaErrorLaunchFileScopedTex, 66, "a nested launch uses a texture of file scope")                       \
  F(cudaErrorLaunchFileScopedSurf, 67, "a nested launch uses a surface of file scope")                      \
  F(cudaErrorSyncDepthExceeded, 68, "synchronization is nested too deeply")                                 \
  F(cudaErrorLaunchPendingCountExceeded, 69, "too many launches are pending")                               \
  F(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                          \
  F(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                           \
  F(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                  \
  F(cudaErrorDeviceNotLicensed, 102, "the device has no licence")                                           \
  F(cudaErrorSoftwareValidityNotEstablished, 103, "integrity checks failed")                                \
  F(cudaErrorStartupFailure, 127, "startup failure")                                                        \
  F(cudaErrorInvalidKernelImage, 200, "device kernel image is invalid")                                     \
  F(cudaErrorDeviceUninitialized, 201, "invalid device context")                                            \
  F(cudaErrorMapBufferObjectFailed, 205, "mapping of a buffer object failed")                               \
  F(cudaErrorUnmapBufferObjectFailed, 206, "unmapping of a buffer object failed")                           \
  F(cudaErrorArrayIsMapped, 207, "array is mapped")                                                         \
  F(cudaErrorAlreadyMapped, 208, "resource already mapped")                                                 \
  F(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device")       \
  F(cudaErrorAlreadyAcquired, 210, "resource already acquired")                                             \
  F(cudaErrorNotMapped, 211, "resource not mapped")                                                         \
  F(cudaErrorNotMappedAsArray, 212, "resource not mapped as array")                                         \
  F(cudaErrorNotMappedAsPointer, 213, "resource not mapped as pointer")                                     \
  F(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")                                  \
  F(cudaErrorUnsupportedLimit, 215, "limit is not supported on this architecture")                          \
  F(cudaErrorDeviceAlreadyInUse, 216, "the device is in use by another thread")                             \
  F(cudaErrorPeerAccessUnsupported, 217, "peer access is not supported between these two devices")          \
  F(cudaErrorInvalidPtx, 218, "a PTX JIT compilation failed")                                               \
  F(cudaErrorInvalidGraphicsContext, 219, "invalid OpenGL or DirectX context")                              \
  F(cudaErrorNvlinkUncorrectable, 220, "uncorrectable NVLink error")                                        \
  F(cudaErrorJitCompilerNotFound, 221, "PTX JIT compiler library not found")                                \
  F(cudaErrorUnsupportedPtxVersion, 222, "the PTX version is not supported")                                \
  F(cudaErrorJitCompilationDisabled, 223, "PTX JIT compilation is disabled")                                \
  F(cudaErrorUnsupportedExecAffinity, 224, "execution affinity is not supported")                           \
  F(cudaErrorUnsupportedDevSideSync, 225, "cudaDeviceSynchronize in a kernel is not supported")             \
  F(cudaErrorContained, 226, "a contained error happened")                                                  \
  F(cudaErrorInvalidSource, 300, "device kernel image is invalid")                                          \
  F(cudaErrorFileNotFound, 301, "file not found")                                                           \
  F(cudaErrorSharedObjectSymbolNotFound, 302, "shared object symbol not found")                             \
  F(cudaErrorSharedObjectInitFailed, 303, "shared object initialization failed")                            \
  F(cudaErrorOperatingSystem, 304, "OS call failed")                                                        \
  F(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                         \
  F(cudaErrorIllegalState, 401, "the resource is in a state that does not allow this")                      \
  F(cudaErrorLossyQuery, 402, "the query would lose information")                                           \
  F(cudaErrorSymbolNotFound, 500, "named symbol not found")                                                 \
  F(cudaErrorNotReady, 600, "device not ready")                                                             \
  F(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                               \
  F(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                          \
  F(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                                 \
  F(cudaErrorLaunchIncompatibleTexturing, 703, "launch uses incompatible texturing mode")                   \
  F(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")                               \
  F(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                                 \
  F(cudaErrorSetOnActiveProcess, 708, "cannot set while device is active in this process")                  \
  F(cudaErrorContextIsDestroyed, 709, "context is destroyed")                                               \
  F(cudaErrorAssert, 710, "device-side assert triggered")                                                   \
  F(cudaErrorTooManyPeers, 711, "too many peers")                                                           \
  F(cudaErrorHostMemoryAlreadyRegistered, 712,                                                              \
    "part or all of the requested memory range is already mapped")                                          \
  F(cudaErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region")     \
  F(cudaErrorHardwareStackError, 714, "hardware stack error")                                               \
  F(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")                             \
  F(cudaErrorMisalignedAddress, 716, "misaligned address")                                                  \
  F(cudaErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space")            \
  F(cudaErrorInvalidPc, 718, "invalid program counter")                                                     \
  F(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                              \
  F(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")                       \
  F(cudaErrorTensorMemoryLeak, 721, "tensor memory not completely freed")                                   \
  F(cudaErrorNotPermitted, 800, "operation not permitted")                                                  \
  F(cudaErrorNotSupported, 801, "operation not supported")                                                  \
  F(cudaErrorSystemNotReady, 802, "system not yet initialized")                                             \
  F(cudaErrorSystemDriverMismatch, 803, "system has unsupported display driver / cuda driver combination")  \
  F(cudaErrorCompatNotSupportedOnDevice, 804, "forward compatibility is not possible on this device")       \
  F(cudaErrorMpsConnectionFailed, 805, "MPS client failed to connect")                                      \
  F(cudaErrorMpsRpcFailure, 806, "MPS remote procedure call failed")                                        \
  F(cudaErrorMpsServerNotReady, 807, "MPS server is not ready")                                             \
  F(cudaErrorMpsMaxClientsReached, 808, "MPS has no more clients")                                          \
  F(cudaErrorMpsMaxConnectionsReached, 809, "MPS has no more connections")                                  \
  F(cudaErrorMpsClientTerminated, 810, "MPS client was terminated")                                         \
  F(cudaErrorCdpNotSupported, 811, "launches from kernels are not supported")                               \
  F(cudaErrorCdpVersionMismatch, 812, "versions of launches from kernels do not match")                     \
  F(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")             \
  F(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture")      \
  F(cudaErrorStreamCaptureMerge, 902, "operation would result in a merge of separate capture sequences")    \
  F(cudaErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began")           \
  F(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                              \
  F(cudaErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream")        \
  F(cudaErrorStreamCaptureImplicit, 906,                                                                    \
    "operation would make the legacy stream depend on a capturing blocking stream")                         \
  F(cudaErrorCapturedEvent, 907, "operation not permitted on an event last recorded in a capturing stream") \
  F(cudaErrorStreamCaptureWrongThread, 908, "capture was ended by another thread than began it")            \
  F(cudaErrorTimeout, 909, "wait operation timed out")                                                      \
  F(cudaErrorGraphExecUpdateFailure, 910, "the graph update was not performed")                             \
  F(cudaErrorExternalDevice, 911, "an external device failed")                                              \
  F(cudaErrorInvalidClusterSize, 912, "cluster misconfiguration")                                           \
  F(cudaErrorFunctionNotLoaded, 913, "function not loaded")                                                 \
  F(cudaErrorInvalidResourceType, 914, "invalid resource type")                                             \
  F(cudaErrorInvalidResourceConfiguration, 915, "invalid resource configuration")                           \
  F(cudaErrorUnknown, 999, "unknown error")                                                                 \
  F(cudaErrorApiFailureBase, 10000, "unknown error")
