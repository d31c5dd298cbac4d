/// @file
/// Floats that a block hands to blocks with higher numbers, while the kernel runs. Taught by chapter 11.
///
/// Before the launch, mark_missing() fills the memory with a bit pattern that no result has. A value is then
/// its own flag: whoever reads something else has the value, and needs no fence. No copy or load of four
/// aligned bytes brings a part of a float.
///
/// A block may wait for blocks with lower numbers only: GPUs start blocks in the order of their numbers (x,
/// then y, then z), so those that it waits for run already, or have ended. CUDA does not promise that order.
/// If it were another one, waiting blocks could keep those that they wait for from starting.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "device/cp_async.cuh"
#include "device/ptx.cuh"

namespace fa {

/// A NaN that no computation results in: GPUs compute 0x7fffffff.
inline constexpr std::uint32_t kMissing = 0xffffffff;

/// Marks floats as missing.
///
///   grid    ceil(count / 256)
///   block   256
///   HBM     writes count floats
inline __global__ void __launch_bounds__(256) mark_missing(float* x, std::size_t count) {
  const std::size_t n = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n < count) x[n] = __uint_as_float(kMissing);
}

/// Stores a value for blocks with higher numbers.
__device__ __forceinline__ void publish(float* to, float x) {
  const std::uint32_t bits = __float_as_uint(x);
  ptx::publish(reinterpret_cast<std::uint32_t*>(to), bits == kMissing ? kMissing >> 1 : bits);
}

/// Starts a copy of a value, which may be missing yet, if `inside` is true; of 0 otherwise.
__device__ __forceinline__ void copy_published_async(float* s, const float* g, bool inside) {
  if (inside) {
    ptx::copy_published_async(s, g);
  } else {
    cp_async_4_or_zero(s, g, false);
  }
}

/// Replaces what copy_published_async() has brought once it is there, if it was missing. The thread has
/// waited for its copy.
__device__ __forceinline__ void await_published(float* s, const float* g) {
  if (__float_as_uint(*s) == kMissing)
    *s = __uint_as_float(ptx::await_published(reinterpret_cast<const std::uint32_t*>(g)));
}

}  // namespace fa
