/// @file
/// Copies from global to shared memory that run while the thread continues: cp.async. Taught by chapter 07.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

namespace fa {

/// Starts a copy of 16 aligned bytes, which bypasses the registers and the L1 cache.
__device__ __forceinline__ void cp_async_16(void* s, const void* g) { __pipeline_memcpy_async(s, g, 16); }

/// The same if `inside` is true; otherwise nothing is read, and the 16 bytes become zeros.
__device__ __forceinline__ void cp_async_16_or_zero(void* s, const void* g, bool inside) {
  __pipeline_memcpy_async(s, g, 16, inside ? 0 : 16);
}

/// Copies 4 aligned bytes if `inside` is true, and writes zeros otherwise.
__device__ __forceinline__ void cp_async_4_or_zero(void* s, const void* g, bool inside) {
  __pipeline_memcpy_async(s, g, 4, inside ? 0 : 4);
}

/// Closes a group: the copies that this thread has started since its last group. It may be empty.
__device__ __forceinline__ void cp_async_commit() { __pipeline_commit(); }

/// Waits until at most the newest kPending groups of this thread are still in flight. Other threads may read
/// what has landed only after a barrier.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  __pipeline_wait_prior(kPending);
}

}  // namespace fa
