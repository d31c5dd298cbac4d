/// @file
/// The built-in functions and variables of CUDA C++, for code inside kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpusim/runtime/device.hpp"
#include "vector_types.h"

// ---- where am I -----------------------------------------------------------------------------------------

// Variables of the CPU thread, set before each CUDA thread's turn. Constant to the kernel, so reads need no hook.
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
GPUSIM_INLINE void __threadfence() {}
GPUSIM_INLINE void __threadfence_block() {}
GPUSIM_INLINE void __nanosleep(unsigned) {}

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

// ---- atomics --------------------------------------------------------------------------------------------

namespace gpusim::device {

template <std::size_t kBytes>
using Bits = std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>;

/// *address = op(*address, operand), for any 4- or 8-byte type.
template <class T, class Op>
GPUSIM_INLINE T atomic(T* address, T operand, Op) {
  using B = Bits<sizeof(T)>;
  return std::bit_cast<T>(atomic_update(
      reinterpret_cast<B*>(address), std::bit_cast<B>(operand),
      [](B a, B b) { return std::bit_cast<B>(T(Op{}(std::bit_cast<T>(a), std::bit_cast<T>(b)))); }));
}

}  // namespace gpusim::device

#define GPUSIM_ATOMIC(name, type, expression)                                                        \
  GPUSIM_INLINE type atomic##name(type* address, type operand) {                                     \
    return gpusim::device::atomic(address, operand,                                                  \
                                  [](type old, [[maybe_unused]] type value) { return expression; }); \
  }
#define GPUSIM_ATOMIC_INTEGERS(name, expression) \
  GPUSIM_ATOMIC(name, int, expression)           \
  GPUSIM_ATOMIC(name, unsigned int, expression)  \
  GPUSIM_ATOMIC(name, unsigned long long, expression)
GPUSIM_ATOMIC_INTEGERS(Add, old + value)
GPUSIM_ATOMIC(Add, float, old + value)
GPUSIM_ATOMIC(Add, double, old + value)
GPUSIM_ATOMIC(Sub, int, old - value)
GPUSIM_ATOMIC(Sub, unsigned int, old - value)
GPUSIM_ATOMIC_INTEGERS(Min, value < old ? value : old)
GPUSIM_ATOMIC_INTEGERS(Max, value > old ? value : old)
GPUSIM_ATOMIC_INTEGERS(And, old& value)
GPUSIM_ATOMIC_INTEGERS(Or, old | value)
GPUSIM_ATOMIC_INTEGERS(Xor, old ^ value)
GPUSIM_ATOMIC_INTEGERS(Exch, ((void)old, value))
GPUSIM_ATOMIC(Exch, float, ((void)old, value))
#undef GPUSIM_ATOMIC_INTEGERS
#undef GPUSIM_ATOMIC

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
  return std::bit_cast<T>(gpusim::device::atomic_cas(reinterpret_cast<B*>(address),
                                                     std::bit_cast<B>(expected), std::bit_cast<B>(desired)));
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

/// What the compiler makes an assignment of is counted like one. Everything else goes byte by byte, as nvcc compiles it.
GPUSIM_INLINE void* gpusim_memcpy(void* to, const void* from, std::size_t bytes) {
  if (__builtin_constant_p(bytes) && bytes <= 16 && std::has_single_bit(bytes)) {
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

// ---- arithmetic -----------------------------------------------------------------------------------------

// The C library declares functions of these names for its own use, hence macros. The GPU's versions are
// approximations; these are as exact as the ordinary ones.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)

GPUSIM_INLINE float __fdividef(float x, float y) { return x / y; }
GPUSIM_INLINE float __frcp_rn(float x) { return 1.0f / x; }
GPUSIM_INLINE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
GPUSIM_INLINE float __fadd_rn(float x, float y) { return x + y; }
GPUSIM_INLINE float __fsub_rn(float x, float y) { return x - y; }
/// Rounds towards +infinity: next to the nearest number if that is too small. Its error is a float (Knuth 1997, 4.2.2).
GPUSIM_INLINE float __fsub_ru(float x, float y) {
  const float nearest = x - y, of_y = nearest - x, error = (x - (nearest - of_y)) + (-y - of_y);
  return error > 0.0f ? __builtin_nextafterf(nearest, __builtin_inff()) : nearest;
}
GPUSIM_INLINE float __fmul_rn(float x, float y) { return x * y; }
GPUSIM_INLINE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
GPUSIM_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }
GPUSIM_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

GPUSIM_INLINE int __float_as_int(float x) { return std::bit_cast<int>(x); }
GPUSIM_INLINE unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
GPUSIM_INLINE float __int_as_float(int x) { return std::bit_cast<float>(x); }
GPUSIM_INLINE float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
GPUSIM_INLINE int __popc(unsigned x) { return std::popcount(x); }
GPUSIM_INLINE int __popcll(unsigned long long x) { return std::popcount(x); }
GPUSIM_INLINE int __clz(int x) { return std::countl_zero(unsigned(x)); }
GPUSIM_INLINE int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(unsigned(x)) + 1; }
GPUSIM_INLINE unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= ((x >> i) & 1u) << (31 - i);
  return r;
}

GPUSIM_INLINE int min(int a, int b) { return b < a ? b : a; }
GPUSIM_INLINE int max(int a, int b) { return a < b ? b : a; }
GPUSIM_INLINE unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
GPUSIM_INLINE unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
GPUSIM_INLINE long long min(long long a, long long b) { return b < a ? b : a; }
GPUSIM_INLINE long long max(long long a, long long b) { return a < b ? b : a; }
GPUSIM_INLINE long min(long a, long b) { return b < a ? b : a; }
GPUSIM_INLINE long max(long a, long b) { return a < b ? b : a; }
GPUSIM_INLINE unsigned long min(unsigned long a, unsigned long b) { return b < a ? b : a; }
GPUSIM_INLINE unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
GPUSIM_INLINE float min(float a, float b) { return __builtin_fminf(a, b); }
GPUSIM_INLINE float max(float a, float b) { return __builtin_fmaxf(a, b); }
