/// @file
/// Instructions that this chapter adds, with the names of PTX.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "device/hopper.cuh"

#ifndef GPUSIM

namespace fa::ptx {

/// A cache policy: these lines are the first that L2 gives up. For data that is read once.
__device__ __forceinline__ std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// tma_load() in five dimensions, with a cache policy.
__device__ __forceinline__ void tma_load(void* s, const CUtensorMap* map, std::uint64_t* barrier, int x,
                                         int y, int z, int w, int v, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(shared_address(s)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "l"(policy)
      : "memory");
}

/// Two e4m3 numbers, the first in the lower byte, as two __half in a register.
__device__ __forceinline__ std::uint32_t half2_from_e4m3x2(std::uint16_t pair) {
  std::uint32_t r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(pair));
  return r;
}

}  // namespace fa::ptx

#endif
