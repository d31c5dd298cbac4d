/// @file
/// The built-in functions and variables of CUDA C++, for code inside kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpusim/runtime/device.hpp"
#include "gpusim_bits.h"
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

// ---- atomics --------------------------------------------------------------------------------------------

namespace gpusim::device {

template <std::size_t kBytes>
using Bits = std::conditional_t<kBytes == 2, std::uint16_t,
                                std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>;

/// *address = op(*address, operand), for any type of 2, 4 or 8 bytes. Op is a lambda without captures, which only C++20
/// can construct by name.
template <class T, class Op>
GPUSIM_INLINE T atomic(T* address, T operand, Op) {
  using B = Bits<sizeof(T)>;
  return gpusim::bit_cast<T>(
      atomic_update(reinterpret_cast<B*>(address), gpusim::bit_cast<B>(operand), [](B a, B b) {
        return gpusim::bit_cast<B>(
            T(gpusim::bit_cast<Op>(char(0))(gpusim::bit_cast<T>(a), gpusim::bit_cast<T>(b))));
      }));
}

}  // namespace gpusim::device

// Their scope makes no difference here.
#define GPUSIM_ATOMIC_OF_SCOPE(name, type, expression)                                               \
  GPUSIM_INLINE type name(type* address, type operand) {                                             \
    return gpusim::device::atomic(address, operand,                                                  \
                                  [](type old, [[maybe_unused]] type value) { return expression; }); \
  }
#define GPUSIM_ATOMIC(name, type, expression)                    \
  GPUSIM_ATOMIC_OF_SCOPE(atomic##name, type, expression)         \
  GPUSIM_ATOMIC_OF_SCOPE(atomic##name##_block, type, expression) \
  GPUSIM_ATOMIC_OF_SCOPE(atomic##name##_system, type, expression)
#define GPUSIM_ATOMIC_INTEGERS(name, expression) \
  GPUSIM_ATOMIC(name, int, expression)           \
  GPUSIM_ATOMIC(name, unsigned int, expression)  \
  GPUSIM_ATOMIC(name, unsigned long long, expression)
GPUSIM_ATOMIC_INTEGERS(Add, old + value)
GPUSIM_ATOMIC(Add, float, old + value)
GPUSIM_ATOMIC(Add, double, old + value)
GPUSIM_ATOMIC(Sub, int, old - value)
GPUSIM_ATOMIC(Sub, unsigned int, old - value)
GPUSIM_ATOMIC(Inc, unsigned int, old >= value ? 0 : old + 1)
GPUSIM_ATOMIC(Dec, unsigned int, old == 0 || old > value ? value : old - 1)
GPUSIM_ATOMIC_INTEGERS(Min, value < old ? value : old)
GPUSIM_ATOMIC(Min, long long, value < old ? value : old)
GPUSIM_ATOMIC_INTEGERS(Max, value > old ? value : old)
GPUSIM_ATOMIC(Max, long long, value > old ? value : old)
GPUSIM_ATOMIC_INTEGERS(And, old& value)
GPUSIM_ATOMIC(And, long long, old& value)
GPUSIM_ATOMIC_INTEGERS(Or, old | value)
GPUSIM_ATOMIC(Or, long long, old | value)
GPUSIM_ATOMIC_INTEGERS(Xor, old ^ value)
GPUSIM_ATOMIC(Xor, long long, old ^ value)
GPUSIM_ATOMIC_INTEGERS(Exch, ((void)old, value))
GPUSIM_ATOMIC(Exch, float, ((void)old, value))
#undef GPUSIM_ATOMIC_INTEGERS
#undef GPUSIM_ATOMIC
#undef GPUSIM_ATOMIC_OF_SCOPE

/// __half, __half2 and their like of the other format; pairs are added together, which a GPU does not
/// promise.
template <class T>
requires requires { typename T::gpusim_float16; }
GPUSIM_INLINE T atomicAdd(T* address, gpusim::type_identity_t<T> operand) {
  return gpusim::device::atomic(address, operand, [](T old, T value) { return old + value; });
}

GPUSIM_INLINE float2 atomicAdd(float2* address, float2 operand) {
  gpusim::device::atomic_add_vector(&address->x, &operand.x, 2);
  return operand;
}
GPUSIM_INLINE float4 atomicAdd(float4* address, float4 operand) {
  gpusim::device::atomic_add_vector(&address->x, &operand.x, 4);
  return operand;
}

template <class T>
GPUSIM_INLINE T atomicCAS(T* address, T expected, T desired) {
  using B = gpusim::device::Bits<sizeof(T)>;
  return gpusim::bit_cast<T>(gpusim::device::atomic_cas(
      reinterpret_cast<B*>(address), gpusim::bit_cast<B>(expected), gpusim::bit_cast<B>(desired)));
}
template <class T>
GPUSIM_INLINE T atomicCAS_block(T* address, T expected, T desired) {
  return atomicCAS(address, expected, desired);
}
template <class T>
GPUSIM_INLINE T atomicCAS_system(T* address, T expected, T desired) {
  return atomicCAS(address, expected, desired);
}

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
#define GPUSIM_STORE(name)                       \
  template <class T>                             \
  GPUSIM_INLINE void name(T* address, T value) { \
    *address = value;                            \
  }
GPUSIM_STORE(__stwb)
GPUSIM_STORE(__stcg)
GPUSIM_STORE(__stcs)
GPUSIM_STORE(__stwt)
#undef GPUSIM_STORE

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
