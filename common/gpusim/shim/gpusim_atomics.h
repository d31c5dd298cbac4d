/// @file
/// Atomic operations, for code inside kernels. Part of <device_functions.h>.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpusim/runtime/device.hpp"
#include "gpusim_bits.h"
#include "vector_types.h"

namespace gpusim::device {

template <std::size_t kBytes>
using Bits = std::conditional_t<kBytes == 2, std::uint16_t,
                                std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>;

/// *address = op(*address, operand), for any type of 2, 4 or 8 bytes. Op is a lambda without captures, which
/// only C++20 can construct by name.
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

// Their scope makes a difference to the host only.
#define GPUSIM_ATOMIC_OF_SCOPE(name, type, expression, note)                                         \
  GPUSIM_INLINE type name(type* address, type operand) {                                             \
    note;                                                                                            \
    return gpusim::device::atomic(address, operand,                                                  \
                                  [](type old, [[maybe_unused]] type value) { return expression; }); \
  }
#define GPUSIM_ATOMIC(name, type, expression)                             \
  GPUSIM_ATOMIC_OF_SCOPE(atomic##name, type, expression, (void)0)         \
  GPUSIM_ATOMIC_OF_SCOPE(atomic##name##_block, type, expression, (void)0) \
  GPUSIM_ATOMIC_OF_SCOPE(atomic##name##_system, type, expression, gpusim::device::note_system_scope(address))
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

// As in CUDA, the pointer's type decides, and the values convert.
#define GPUSIM_CAS_OF_SCOPE(name, type, note)                                                \
  GPUSIM_INLINE type name(type* address, type expected, type desired) {                      \
    note;                                                                                    \
    using B = gpusim::device::Bits<sizeof(type)>;                                            \
    return static_cast<type>(                                                                \
        gpusim::device::atomic_cas(reinterpret_cast<B*>(address), B(expected), B(desired))); \
  }
#define GPUSIM_CAS(type)                              \
  GPUSIM_CAS_OF_SCOPE(atomicCAS, type, (void)0)       \
  GPUSIM_CAS_OF_SCOPE(atomicCAS_block, type, (void)0) \
  GPUSIM_CAS_OF_SCOPE(atomicCAS_system, type, gpusim::device::note_system_scope(address))
GPUSIM_CAS(int)
GPUSIM_CAS(unsigned int)
GPUSIM_CAS(unsigned long long)
GPUSIM_CAS(unsigned short)
#undef GPUSIM_CAS
#undef GPUSIM_CAS_OF_SCOPE

// ---- __nv_atomic: with a memory order and a scope. An order is the fences that it stands for ----------

#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_CONSUME 1
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4

namespace gpusim::device {

GPUSIM_INLINE void fence_before(int order) {
  if (order >= __NV_ATOMIC_RELEASE) thread_fence();
}
GPUSIM_INLINE void fence_after(int order) {
  if (order != __NV_ATOMIC_RELAXED && order != __NV_ATOMIC_RELEASE) thread_fence();
}
template <class T, class Op>
GPUSIM_INLINE T atomic_in_order(T* address, T operand, Op op, int order) {
  fence_before(order);
  const T old = atomic(address, operand, op);
  fence_after(order);
  return old;
}

}  // namespace gpusim::device

#define GPUSIM_NV_ATOMIC(name, expression)                                                            \
  template <class T>                                                                                  \
  GPUSIM_INLINE T __nv_atomic_fetch_##name(T* address, gpusim::type_identity_t<T> operand, int order, \
                                           int = __NV_THREAD_SCOPE_SYSTEM) {                          \
    return gpusim::device::atomic_in_order(                                                           \
        address, operand, [](T old, T value) -> T { return expression; }, order);                     \
  }                                                                                                   \
  template <class T>                                                                                  \
  GPUSIM_INLINE void __nv_atomic_##name(T* address, gpusim::type_identity_t<T> operand, int order,    \
                                        int = __NV_THREAD_SCOPE_SYSTEM) {                             \
    __nv_atomic_fetch_##name(address, operand, order);                                                \
  }
GPUSIM_NV_ATOMIC(add, old + value)
GPUSIM_NV_ATOMIC(sub, old - value)
GPUSIM_NV_ATOMIC(and, old& value)
GPUSIM_NV_ATOMIC(or, old | value)
GPUSIM_NV_ATOMIC(xor, old ^ value)
GPUSIM_NV_ATOMIC(min, value < old ? value : old)
GPUSIM_NV_ATOMIC(max, old < value ? value : old)
#undef GPUSIM_NV_ATOMIC

template <class T>
GPUSIM_INLINE T __nv_atomic_exchange_n(T* address, gpusim::type_identity_t<T> desired, int order,
                                       int = __NV_THREAD_SCOPE_SYSTEM) {
  return gpusim::device::atomic_in_order(
      address, desired, [](T, T value) { return value; }, order);
}
template <class T>
GPUSIM_INLINE void __nv_atomic_exchange(T* address, T* desired, T* old, int order,
                                        int = __NV_THREAD_SCOPE_SYSTEM) {
  *old = __nv_atomic_exchange_n(address, *desired, order);
}
template <class T>
GPUSIM_INLINE std::remove_const_t<T> __nv_atomic_load_n(T* address, int order,
                                                        int = __NV_THREAD_SCOPE_SYSTEM) {
  using V = std::remove_const_t<T>;
  return gpusim::device::atomic_in_order(
      const_cast<V*>(address), V(), [](V old, V) { return old; },
      order == __NV_ATOMIC_SEQ_CST ? __NV_ATOMIC_ACQUIRE : order);
}
template <class T>
GPUSIM_INLINE void __nv_atomic_load(T* address, std::remove_const_t<T>* value, int order,
                                    int = __NV_THREAD_SCOPE_SYSTEM) {
  *value = __nv_atomic_load_n(address, order);
}
template <class T>
GPUSIM_INLINE void __nv_atomic_store_n(T* address, gpusim::type_identity_t<T> value, int order,
                                       int = __NV_THREAD_SCOPE_SYSTEM) {
  __nv_atomic_exchange_n(address, value, order == __NV_ATOMIC_SEQ_CST ? __NV_ATOMIC_RELEASE : order);
}
template <class T>
GPUSIM_INLINE void __nv_atomic_store(T* address, T* value, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
  __nv_atomic_store_n(address, *value, order);
}
/// @return  whether *address was *expected, and is `desired` now; if not, *expected becomes what it is
template <class T>
GPUSIM_INLINE bool __nv_atomic_compare_exchange_n(T* address, T* expected, gpusim::type_identity_t<T> desired,
                                                  bool, int success, int, int = __NV_THREAD_SCOPE_SYSTEM) {
  using B = gpusim::device::Bits<sizeof(T)>;
  const T before = *expected;
  gpusim::device::fence_before(success);
  const T old = gpusim::bit_cast<T>(gpusim::device::atomic_cas(
      reinterpret_cast<B*>(address), gpusim::bit_cast<B>(before), gpusim::bit_cast<B>(desired)));
  gpusim::device::fence_after(success);
  const bool is_equal = gpusim::bit_cast<B>(old) == gpusim::bit_cast<B>(before);
  if (!is_equal) *expected = old;
  return is_equal;
}
template <class T>
GPUSIM_INLINE bool __nv_atomic_compare_exchange(T* address, T* expected, T* desired, bool weak, int success,
                                                int failure, int = __NV_THREAD_SCOPE_SYSTEM) {
  return __nv_atomic_compare_exchange_n(address, expected, *desired, weak, success, failure);
}
GPUSIM_INLINE void __nv_atomic_thread_fence(int order, int = __NV_THREAD_SCOPE_SYSTEM) {
  if (order != __NV_ATOMIC_RELAXED) gpusim::device::thread_fence();
}
