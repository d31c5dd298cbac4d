/// @file
/// Kernels that begin while the one before them in the stream still runs. Taught by chapter 10.
#pragma once

#include <cuda_runtime.h>

namespace fa {

/// Programmatic dependent launch: if the launch allows it, this kernel has begun while the one before it in
/// the stream still ran. Waits until that has ended, and lets the next one begin as blocks of this one end.
/// What the one before may have written is read afterwards.
/// @tparam kIsAllowed  false in kernels for GPUs before sm_90, which have no such launches
template <bool kIsAllowed = true>
__device__ __forceinline__ void begin_early() {
  if constexpr (kIsAllowed) {
#if defined(GPUSIM) || __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
  }
}

}  // namespace fa
