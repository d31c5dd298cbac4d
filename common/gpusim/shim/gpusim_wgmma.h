/// @file
/// The products of a warpgroup, and the registers that its threads give back or take. Included by
/// gpusim_hopper.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include "gpusim/runtime/device_wgmma.hpp"

namespace gpusim::ptx {

// --- registers -----------------------------------------------------------------------------------------

/// setmaxnreg.dec
template <int kRegisters>
GPUSIM_INLINE void setmaxnreg_dec() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0, "24, 32, .. 256");
  device::setmaxnreg_dec(kRegisters);
}
/// setmaxnreg.inc
template <int kRegisters>
GPUSIM_INLINE void setmaxnreg_inc() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0, "24, 32, .. 256");
  device::setmaxnreg_inc(kRegisters);
}

// --- wgmma ---------------------------------------------------------------------------------------------

/// wgmma.fence
GPUSIM_INLINE void wgmma_fence() { device::wgmma_fence(); }
/// wgmma.commit_group
GPUSIM_INLINE void wgmma_commit() { device::wgmma_commit(); }
/// Nothing moves here, but an access after it is an access after a wait that has named these registers.
template <int kSize>
GPUSIM_INLINE void keep_in_place(float (&registers)[kSize]) {
  device::keep_in_place(registers, kSize);
}
/// wgmma.wait_group
template <int kPending, int... kSizes>
GPUSIM_INLINE void wgmma_wait(float (&... finished)[kSizes]) {
  static_assert(kPending >= 0 && kPending <= 7, "at most 7 groups");
  device::wgmma_wait(kPending);
  int argument = 0;
  (device::wgmma_finished(finished, kSizes, argument++), ...);
}

template <class T, bool kTransposedA, bool kTransposedB>
inline constexpr device::ProductShape kProduct = {
    std::is_same_v<T, __half> ? device::MmaType::kFloat16 : device::MmaType::kBFloat16, kTransposedA,
    kTransposedB};

/// wgmma.mma_async.sync.aligned.m64n{2 * kSize}k16, A in shared memory: d = a * b, or d += a * b
template <class T, bool kAdd, bool kTransposedA, bool kTransposedB, int kSize>
GPUSIM_INLINE void wgmma(float (&d)[kSize], std::uint64_t a, std::uint64_t b) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  static_assert(kSize % 4 == 0 && kSize <= 128, "n is 8, 16, .. 256");
  device::wgmma(kProduct<T, kTransposedA, kTransposedB>, d, kSize, a, b, kAdd);
}
/// The same, A in registers
template <class T, bool kAdd, bool kTransposedB, int kSize>
GPUSIM_INLINE void wgmma(float (&d)[kSize], const std::uint32_t (&a)[4], std::uint64_t b) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  static_assert(kSize % 4 == 0 && kSize <= 128, "n is 8, 16, .. 256");
  device::wgmma(kProduct<T, false, kTransposedB>, d, kSize, a, b, kAdd);
}

}  // namespace gpusim::ptx
