/// @file
/// The built-in functions and variables of CUDA C++, for code inside kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpusim/runtime/device.hpp"
#include "gpusim_atomics.h"
#include "gpusim_bits.h"
#include "gpusim_textures.h"
#include "math_functions.h"
#include "vector_types.h"

// ---- where am I -----------------------------------------------------------------------------------------

// Variables of the CPU thread, set before each CUDA thread's turn. Constant to the kernel, so reads need no
// hook.
extern __thread const uint3 threadIdx;
extern __thread const uint3 blockIdx;
extern __thread const uint3 blockDim;
extern __thread const uint3 gridDim;
inline constexpr int warpSize = 32;

// ---- barriers, votes, shuffles --------------------------------------------------------------------------

GPUSIM_INLINE void __syncthreads() { gpusim::device::sync_threads(); }
GPUSIM_INLINE int __syncthreads_count(int predicate) { return gpusim::device::sync_threads(predicate != 0); }
GPUSIM_INLINE int __syncthreads_or(int predicate) {
  return gpusim::device::sync_threads(predicate != 0) != 0;
}
GPUSIM_INLINE int __syncthreads_and(int predicate) {
  return gpusim::device::sync_threads(predicate == 0) == 0;
}
GPUSIM_INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
  gpusim::device::warp_rendezvous(mask, gpusim::device::WarpOp::kSync, nullptr, nullptr);
}
GPUSIM_INLINE void __threadfence() { gpusim::device::thread_fence(); }
GPUSIM_INLINE void __threadfence_system() { gpusim::device::thread_fence(); }
GPUSIM_INLINE void __threadfence_block() {}
GPUSIM_INLINE void cudaGridDependencySynchronize() { gpusim::device::depend_on_kernel_before(); }
GPUSIM_INLINE void cudaTriggerProgrammaticLaunchCompletion() { gpusim::device::let_next_kernel_begin(); }
GPUSIM_INLINE void __nanosleep(unsigned) {}
GPUSIM_INLINE void __trap() { gpusim::device::trap(); }

GPUSIM_INLINE unsigned __activemask() { return gpusim::device::active_lanes(); }
GPUSIM_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  return gpusim::device::ballot(mask, predicate != 0);
}
GPUSIM_INLINE int __any_sync(unsigned mask, int predicate) {
  return gpusim::device::ballot(mask, predicate != 0) != 0;
}
GPUSIM_INLINE int __all_sync(unsigned mask, int predicate) {
  return gpusim::device::ballot(mask, predicate == 0) == 0;
}

namespace gpusim::device {

template <class T>
GPUSIM_INLINE T shuffle_any(unsigned mask, T value, int source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "shuffles move 2, 4 or 8 bytes");
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = shuffle(mask, bits, source);
  T result;
  __builtin_memcpy(&result, &bits, sizeof(T));
  return result;
}

}  // namespace gpusim::device

template <class T>
GPUSIM_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const int lane = gpusim::device::lane();
  return gpusim::device::shuffle_any(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
GPUSIM_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = gpusim::device::lane();
  const int source = lane - int(delta);
  return gpusim::device::shuffle_any(mask, value, source >= (lane & ~(width - 1)) ? source : lane);
}
template <class T>
GPUSIM_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = gpusim::device::lane();
  const int source = lane + int(delta);
  return gpusim::device::shuffle_any(mask, value, source <= (lane | (width - 1)) ? source : lane);
}
template <class T>
GPUSIM_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
  const int lane = gpusim::device::lane();
  const int source = lane ^ lane_mask;
  return gpusim::device::shuffle_any(mask, value, source <= (lane | (width - 1)) ? source : lane);
}

#define GPUSIM_REDUCE(name, how, type)                                                     \
  GPUSIM_INLINE type __reduce_##name##_sync(unsigned mask, type value) {                   \
    return type(gpusim::device::warp_reduce(mask, value, gpusim::device::Reduction::how)); \
  }
GPUSIM_REDUCE(add, kAdd, int)
GPUSIM_REDUCE(add, kAdd, unsigned)
GPUSIM_REDUCE(min, kMin, int)
GPUSIM_REDUCE(min, kMin, unsigned)
GPUSIM_REDUCE(max, kMax, int)
GPUSIM_REDUCE(max, kMax, unsigned)
GPUSIM_REDUCE(and, kAnd, unsigned)
GPUSIM_REDUCE(or, kOr, unsigned)
GPUSIM_REDUCE(xor, kXor, unsigned)
#undef GPUSIM_REDUCE

/// The lanes of the mask whose value is the same as this lane's.
template <class T>
GPUSIM_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "__match_any_sync() compares 4 or 8 bytes");
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return gpusim::device::match(mask, bits);
}
/// The mask if all lanes in it have the same value, otherwise 0.
template <class T>
GPUSIM_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all) {
  const unsigned same = __match_any_sync(mask, value);
  *all = same == mask;
  return same == mask ? mask : 0;
}

// ---- as they were before CUDA 9: without a mask, for the lanes that are here ------------------------------

template <class T>
GPUSIM_INLINE T __shfl(T value, int source, int width = warpSize) {
  return __shfl_sync(__activemask(), value, source, width);
}
template <class T>
GPUSIM_INLINE T __shfl_up(T value, unsigned delta, int width = warpSize) {
  return __shfl_up_sync(__activemask(), value, delta, width);
}
template <class T>
GPUSIM_INLINE T __shfl_down(T value, unsigned delta, int width = warpSize) {
  return __shfl_down_sync(__activemask(), value, delta, width);
}
template <class T>
GPUSIM_INLINE T __shfl_xor(T value, int lane_mask, int width = warpSize) {
  return __shfl_xor_sync(__activemask(), value, lane_mask, width);
}
GPUSIM_INLINE unsigned __ballot(int predicate) { return __ballot_sync(__activemask(), predicate); }
GPUSIM_INLINE int __any(int predicate) { return __any_sync(__activemask(), predicate); }
GPUSIM_INLINE int __all(int predicate) { return __all_sync(__activemask(), predicate); }

// ---- time, addresses, hints -------------------------------------------------------------------------------

/// The CPU's time stamp: it grows, but says nothing about a GPU.
GPUSIM_INLINE long long clock64() { return (long long)__builtin_ia32_rdtsc(); }
GPUSIM_INLINE unsigned __isShared(const void* address) { return gpusim::device::is_shared(address); }
/// Constants and local variables are not told apart from the rest.
GPUSIM_INLINE unsigned __isConstant(const void*) { return 0; }
GPUSIM_INLINE unsigned __isLocal(const void*) { return 0; }
GPUSIM_INLINE unsigned __isGlobal(const void* address) { return !gpusim::device::is_shared(address); }
/// A debugger would stop there; without one, a GPU ends the kernel.
GPUSIM_INLINE void __brkpt() { gpusim::device::trap(); }
GPUSIM_INLINE void __prof_trigger(int) {}
#ifndef __clang__
#define __builtin_assume(condition) static_cast<void>(0)
#endif

// ---- loads and stores with a cache hint: the hint changes nothing here -----------------------------------

#define GPUSIM_LOAD(name)                  \
  template <class T>                       \
  GPUSIM_INLINE T name(const T* address) { \
    return *address;                       \
  }
GPUSIM_LOAD(__ldg)
GPUSIM_LOAD(__ldca)
GPUSIM_LOAD(__ldcg)
GPUSIM_LOAD(__ldcs)
GPUSIM_LOAD(__ldcv)
GPUSIM_LOAD(__ldlu)
#undef GPUSIM_LOAD
#define GPUSIM_STORE(name)                                                \
  template <class T>                                                      \
  GPUSIM_INLINE void name(T* address, gpusim::type_identity_t<T> value) { \
    *address = value;                                                     \
  }
GPUSIM_STORE(__stwb)
GPUSIM_STORE(__stcg)
GPUSIM_STORE(__stcs)
GPUSIM_STORE(__stwt)
#undef GPUSIM_STORE

// ---- addresses ------------------------------------------------------------------------------------------

/// In the window of shared memory. Pointers to global memory are the same everywhere.
GPUSIM_INLINE std::size_t __cvta_generic_to_shared(const void* pointer) {
  return gpusim::device::window_address(pointer);
}
GPUSIM_INLINE void* __cvta_shared_to_generic(std::size_t address) {
  return gpusim::device::pointer_of_window(std::uint32_t(address));
}
GPUSIM_INLINE std::size_t __cvta_generic_to_global(const void* pointer) { return std::size_t(pointer); }
GPUSIM_INLINE void* __cvta_global_to_generic(std::size_t address) { return reinterpret_cast<void*>(address); }
GPUSIM_INLINE std::size_t __cvta_generic_to_constant(const void* pointer) { return std::size_t(pointer); }
GPUSIM_INLINE std::size_t __cvta_generic_to_local(const void* pointer) { return std::size_t(pointer); }

// ---- memcpy() and memset() ------------------------------------------------------------------------------

/// What the compiler makes an assignment of is counted like one. Everything else goes byte by byte, as nvcc
/// compiles it.
GPUSIM_INLINE void* gpusim_memcpy(void* to, const void* from, std::size_t bytes) {
  if (__builtin_constant_p(bytes) && bytes <= 16 && (bytes & (bytes - 1)) == 0) {
    return __builtin_memcpy(to, from, bytes);
  }
  gpusim::device::copy_bytes(to, from, bytes);
  return to;
}
GPUSIM_INLINE void* gpusim_memset(void* to, int value, std::size_t bytes) {
  gpusim::device::fill_bytes(to, value, bytes);
  return to;
}
namespace std {
using ::gpusim_memcpy;
using ::gpusim_memset;
}  // namespace std
#define memcpy gpusim_memcpy  // also in std::memcpy
#define memset gpusim_memset
