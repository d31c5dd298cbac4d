/// @file
/// <cuda_pipeline.h>: asynchronous copies from global to shared memory (cp.async). They land when they are
/// waited for and not before, so that a missing wait is noticed.
#pragma once

#include "cuda_runtime.h"

GPUSIM_INLINE void __pipeline_memcpy_async(void* shared, const void* global, std::size_t bytes,
                                           std::size_t zero_fill = 0) {
  gpusim::device::copy_async(shared, global, bytes, bytes - zero_fill);
}
GPUSIM_INLINE void __pipeline_commit() { gpusim::device::copy_commit(); }
GPUSIM_INLINE void __pipeline_wait_prior(std::size_t pending) { gpusim::device::copy_wait(int(pending)); }
