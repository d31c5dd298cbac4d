/// @file
/// What inline PTX is translated to: see check/inline_ptx.hpp. The front end includes it in sources with asm
/// statements.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_fp8.h"
#include "cuda_runtime.h"
#include "gpusim/runtime/device_groups.hpp"
#include "gpusim/runtime/device_hopper.hpp"
#include "gpusim/runtime/device_ptx.hpp"
#include "gpusim/runtime/device_wgmma.hpp"

namespace gpusim::inl {

// --- operands --------------------------------------------------------------------------------------------

using U8 = std::uint8_t;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using S8 = std::int8_t;
using S16 = std::int16_t;
using S32 = std::int32_t;
using S64 = std::int64_t;

/// A value in a register of another type: the same bits, or an integer cut off or extended.
template <class T, class V>
GPUSIM_INLINE constexpr T as(const V& value) {
  if constexpr (std::is_same<T, V>::value) {
    return value;
  } else if constexpr (sizeof(T) == sizeof(V)) {
    return __builtin_bit_cast(T, value);
  } else if constexpr (std::is_integral<V>::value && std::is_integral<T>::value) {
    return T(value);
  } else if constexpr (std::is_enum<V>::value) {
    return T(value);
  } else if constexpr (sizeof(T) < sizeof(V)) {
    T result;
    __builtin_memcpy(&result, &value, sizeof(T));
    return result;
  } else {
    T result{};
    __builtin_memcpy(&result, &value, sizeof(V));
    return result;
  }
}
/// An operand of an asm statement. @tparam T  what its constraint says
template <class T, class V>
GPUSIM_INLINE T input(const V& value) {
  if constexpr (std::is_floating_point<T>::value && std::is_arithmetic<V>::value) {
    return T(value);
  } else {
    return as<T>(value);
  }
}
template <class T>
GPUSIM_INLINE T input(std::nullptr_t) {
  return T(0);
}
template <class D, class V>
GPUSIM_INLINE void set(D& to, const V& value) {
  to = as<D>(value);
}
template <class D>
GPUSIM_INLINE void set(D& to, bool value) {
  to = D(value);
}

template <class T>
using Unsigned =
    std::conditional_t<sizeof(T) == 1, U8,
                       std::conditional_t<sizeof(T) == 2, U16, std::conditional_t<sizeof(T) == 4, U32, U64>>>;
template <class T>
inline constexpr bool kIsInteger = std::is_integral<T>::value;
template <class T>
inline constexpr int kBits = int(sizeof(T)) * 8;

// --- 16-bit numbers --------------------------------------------------------------------------------------

template <class Format>
struct Small {
  U16 bits;
  Small() = default;
  GPUSIM_INLINE Small(double value) : bits(float16::narrow<Format>(value)) {}
  GPUSIM_INLINE operator double() const { return double(Format::widen(bits)); }
};
using Half = Small<float16::Binary16>;
using Bfloat = Small<float16::BFloat16>;
template <class T>
struct Two {
  T low, high;
};
using Half2 = Two<Half>;
using Bfloat2 = Two<Bfloat>;

template <class T>
struct IsTwo : std::false_type {};
template <class T>
struct IsTwo<Two<T>> : std::true_type {};
template <class T, class F>
GPUSIM_INLINE T each(T a, T b, F f) {
  if constexpr (IsTwo<T>::value) {
    return {f(a.low, b.low), f(a.high, b.high)};
  } else {
    return f(a, b);
  }
}

// --- arithmetic ------------------------------------------------------------------------------------------

template <class T>
GPUSIM_INLINE T add(T a, T b) {
  if constexpr (kIsInteger<T>)
    return T(Unsigned<T>(Unsigned<T>(a) + Unsigned<T>(b)));
  else if constexpr (IsTwo<T>::value)
    return {add(a.low, b.low), add(a.high, b.high)};
  else
    return T(a + b);
}
template <class T>
GPUSIM_INLINE T sub(T a, T b) {
  if constexpr (kIsInteger<T>)
    return T(Unsigned<T>(Unsigned<T>(a) - Unsigned<T>(b)));
  else if constexpr (IsTwo<T>::value)
    return {sub(a.low, b.low), sub(a.high, b.high)};
  else
    return T(a - b);
}
template <class T>
GPUSIM_INLINE T mul(T a, T b) {
  if constexpr (kIsInteger<T>)
    return T(Unsigned<T>(U64(a) * U64(b)));
  else if constexpr (IsTwo<T>::value)
    return {mul(a.low, b.low), mul(a.high, b.high)};
  else
    return T(a * b);
}
template <class T>
GPUSIM_INLINE T mul_hi(T a, T b) {
  using Wide = std::conditional_t<std::is_signed<T>::value, __int128, unsigned __int128>;
  return T((Wide(a) * Wide(b)) >> kBits<T>);
}
template <class W, class T>
GPUSIM_INLINE W mul_wide(T a, T b) {
  return W(W(a) * W(b));
}
template <class T>
GPUSIM_INLINE T fma(T a, T b, T c) {
  if constexpr (std::is_same<T, float>::value)
    return __builtin_fmaf(a, b, c);
  else if constexpr (std::is_same<T, double>::value)
    return __builtin_fma(a, b, c);
  else if constexpr (IsTwo<T>::value)
    return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
  else
    return T(__builtin_fma(double(a), double(b), double(c)));
}
template <class T>
GPUSIM_INLINE T divide(T a, T b) {
  if constexpr (kIsInteger<T>)
    return b == 0 ? T(-1) : T(a / b);
  else
    return T(a / b);
}
template <class T>
GPUSIM_INLINE T rem(T a, T b) {
  return b == 0 ? a : T(a % b);
}
template <class T>
GPUSIM_INLINE T least(T a, T b) {
  if constexpr (kIsInteger<T>)
    return b < a ? b : a;
  else
    return each(a, b, [](auto x, auto y) -> decltype(x) { return x != x ? y : y != y ? x : y < x ? y : x; });
}
template <class T>
GPUSIM_INLINE T most(T a, T b) {
  if constexpr (kIsInteger<T>)
    return a < b ? b : a;
  else
    return each(a, b, [](auto x, auto y) -> decltype(x) { return x != x ? y : y != y ? x : x < y ? y : x; });
}
template <class T>
GPUSIM_INLINE T negative(T a) {
  if constexpr (kIsInteger<T>)
    return sub(T(0), a);
  else if constexpr (IsTwo<T>::value)
    return {negative(a.low), negative(a.high)};
  else
    return T(-a);
}
template <class T>
GPUSIM_INLINE T absolute(T a) {
  if constexpr (kIsInteger<T>)
    return a < 0 ? negative(a) : a;
  else if constexpr (IsTwo<T>::value)
    return {absolute(a.low), absolute(a.high)};
  else
    return T(std::fabs(double(a)));
}
template <class T>
GPUSIM_INLINE T saturate(T a) {
  if constexpr (IsTwo<T>::value)
    return {saturate(a.low), saturate(a.high)};
  else
    return a != a || a < 0 ? T(0) : a > 1 ? T(1) : a;
}
template <class T>
GPUSIM_INLINE T without_negative(T a) {
  if constexpr (IsTwo<T>::value)
    return {without_negative(a.low), without_negative(a.high)};
  else
    return a < 0 ? T(0) : a;
}
#define GPUSIM_UNARY(name, expression)                                  \
  template <class T>                                                    \
  GPUSIM_INLINE T name(T a) {                                           \
    if constexpr (IsTwo<T>::value)                                      \
      return {name(a.low), name(a.high)};                               \
    else if constexpr (std::is_same<T, float>::value)                   \
      return [](float x) { return float(expression); }(a);              \
    else                                                                \
      return T([](double x) { return double(expression); }(double(a))); \
  }
GPUSIM_UNARY(exp2, std::exp2(x))
GPUSIM_UNARY(log2, std::log2(x))
GPUSIM_UNARY(reciprocal, 1 / x)
GPUSIM_UNARY(square_root, std::sqrt(x))
GPUSIM_UNARY(reciprocal_root, 1 / std::sqrt(x))
GPUSIM_UNARY(sine, std::sin(x))
GPUSIM_UNARY(cosine, std::cos(x))
GPUSIM_UNARY(tangent_h, std::tanh(x))
#undef GPUSIM_UNARY

/// a + b + carry and a - b - borrow. @param flag  the carry, in and out
template <class T>
GPUSIM_INLINE T add_with(T a, T b, bool in, bool& flag) {
  using Wide = unsigned __int128;
  const Wide sum = Wide(Unsigned<T>(a)) + Unsigned<T>(b) + in;
  flag = (sum >> kBits<T>) != 0;
  return T(Unsigned<T>(sum));
}
template <class T>
GPUSIM_INLINE T sub_with(T a, T b, bool in, bool& flag) {
  using Wide = unsigned __int128;
  const Wide difference = Wide(Unsigned<T>(a)) - Unsigned<T>(b) - in;
  flag = (difference >> kBits<T>) != 0;
  return T(Unsigned<T>(difference));
}

// --- bits ------------------------------------------------------------------------------------------------

template <class T>
GPUSIM_INLINE T shift_left(T a, U32 by) {
  return by >= U32(kBits<T>) ? T(0) : T(Unsigned<T>(a) << by);
}
template <class T>
GPUSIM_INLINE T shift_right(T a, U32 by) {
  if (by >= U32(kBits<T>)) return T(a < 0 ? -1 : 0);
  return T(a >> by);
}
GPUSIM_INLINE U32 funnel_left(U32 low, U32 high, U32 by, bool wraps) {
  by = wraps ? by & 31 : by > 32 ? 32 : by;
  return U32(((U64(high) << 32 | low) << by) >> 32);
}
GPUSIM_INLINE U32 funnel_right(U32 low, U32 high, U32 by, bool wraps) {
  by = wraps ? by & 31 : by > 32 ? 32 : by;
  return U32((U64(high) << 32 | low) >> by);
}
template <class T>
GPUSIM_INLINE T lookup3(T a, T b, T c, U32 table) {
  T result = 0;
  for (U32 i = 0; i < 8; ++i) {
    if ((table >> i & 1) == 0) continue;
    result = T(result | ((i & 4 ? a : T(~a)) & (i & 2 ? b : T(~b)) & (i & 1 ? c : T(~c))));
  }
  return result;
}
template <class T>
GPUSIM_INLINE T extract_field(T a, U32 position, U32 length) {
  position &= 0xff;
  length &= 0xff;
  if (length == 0) return 0;
  const U32 last = position + length - 1 < U32(kBits<T>) ? position + length - 1 : U32(kBits<T> - 1);
  const bool sign = std::is_signed<T>::value && (Unsigned<T>(a) >> last & 1) != 0;
  Unsigned<T> result = 0;
  for (U32 i = 0; i < U32(kBits<T>); ++i) {
    const bool bit =
        i < length && position + i < U32(kBits<T>) ? (Unsigned<T>(a) >> (position + i) & 1) != 0 : sign;
    result = Unsigned<T>(result | Unsigned<T>(Unsigned<T>(bit) << i));
  }
  return T(result);
}
template <class T>
GPUSIM_INLINE T insert_field(T a, T b, U32 position, U32 length) {
  position &= 0xff;
  length &= 0xff;
  for (U32 i = 0; i < length && position + i < U32(kBits<T>); ++i) {
    b = T((b & ~(T(1) << (position + i))) | ((a >> i & 1) << (position + i)));
  }
  return b;
}
template <class T>
GPUSIM_INLINE U32 find_leading(T a, bool as_shift) {
  Unsigned<T> bits = std::is_signed<T>::value && a < 0 ? Unsigned<T>(~a) : Unsigned<T>(a);
  if (bits == 0) return 0xffffffffu;
  U32 place = 0;
  while (bits >>= 1) ++place;
  return as_shift ? U32(kBits<T> - 1) - place : place;
}
template <class T>
GPUSIM_INLINE U32 leading_zeros(T a) {
  return a == 0 ? U32(kBits<T>) : find_leading(Unsigned<T>(a), true);
}
template <class T>
GPUSIM_INLINE U32 count_ones(T a) {
  return U32(__builtin_popcountll(Unsigned<T>(a)));
}
template <class T>
GPUSIM_INLINE T reverse_bits(T a) {
  Unsigned<T> result = 0;
  for (int i = 0; i < kBits<T>; ++i) result = Unsigned<T>(result << 1 | (Unsigned<T>(a) >> i & 1));
  return T(result);
}
GPUSIM_INLINE U32 permute(U32 a, U32 b, U32 selector) {
  const U64 bytes = U64(b) << 32 | a;
  U32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const U32 choice = selector >> 4 * i;
    U32 byte = U32(bytes >> 8 * (choice & 7)) & 0xff;
    if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}
template <class T>
GPUSIM_INLINE T absolute_difference(T a, T b, T c) {
  return add(c, a < b ? sub(b, a) : sub(a, b));
}
template <class A, class B, class C>
GPUSIM_INLINE C dot4(U32 a, U32 b, C c) {
  for (int i = 0; i < 4; ++i) c = add(c, C(C(A(a >> 8 * i)) * C(B(b >> 8 * i))));
  return c;
}

// --- conversions -----------------------------------------------------------------------------------------

enum class Round { kNone, kNearest, kZero, kDown, kUp, kAway };

template <class T>
GPUSIM_INLINE double rounded(T value, Round how) {
  const double x = double(value);
  switch (how) {
    case Round::kNearest: return std::nearbyint(x);
    case Round::kDown: return std::floor(x);
    case Round::kUp: return std::ceil(x);
    case Round::kZero:
    case Round::kNone:
    case Round::kAway: break;
  }
  return std::trunc(x);
}
/// A float from an exact value, with directed rounding.
GPUSIM_INLINE float to_float(double x, Round how) {
  float result = float(x);
  if (how == Round::kZero && std::fabs(double(result)) > std::fabs(x)) result = std::nextafterf(result, 0.0f);
  if (how == Round::kDown && double(result) > x) result = std::nextafterf(result, -INFINITY);
  if (how == Round::kUp && double(result) < x) result = std::nextafterf(result, INFINITY);
  return result;
}
template <class To, class From>
GPUSIM_INLINE To convert(From value, Round how, bool saturates) {
  if constexpr (kIsInteger<To> && kIsInteger<From>) {
    if (saturates) {
      const __int128 wide = value, low = std::is_signed<To>::value ? -(__int128(1) << (kBits<To> - 1)) : 0;
      const __int128 high = (__int128(1) << (kBits<To> - (std::is_signed<To>::value ? 1 : 0))) - 1;
      return To(wide < low ? low : wide > high ? high : wide);
    }
    return To(value);
  } else if constexpr (kIsInteger<To>) {
    const double x = rounded(value, how);
    if (x != x) return sizeof(To) == 8 ? To(U64(1) << 63) : To(0);
    const double high =
        std::is_signed<To>::value ? std::ldexp(1.0, kBits<To> - 1) : std::ldexp(1.0, kBits<To>);
    const double low = std::is_signed<To>::value ? -high : 0.0;
    if (x >= high)
      return std::is_signed<To>::value ? To(~(Unsigned<To>(1) << (kBits<To> - 1))) : To(~Unsigned<To>(0));
    if (x <= low) return To(std::is_signed<To>::value ? Unsigned<To>(1) << (kBits<To> - 1) : 0);
    return To(x);
  } else if constexpr (kIsInteger<From>) {
    if constexpr (std::is_same<To, float>::value) {
      return how == Round::kNearest || how == Round::kNone ? float(value) : to_float(double(value), how);
    } else {
      return To(double(value));
    }
  } else {
    double x = double(value);
    if (saturates) x = x != x || x < 0 ? 0 : x > 1 ? 1 : x;
    if constexpr (std::is_same<To, float>::value)
      return to_float(x, how);
    else
      return To(x);
  }
}
/// To a whole number of the same type: cvt.rni.f32.f32.
template <class T>
GPUSIM_INLINE T whole(T value, Round how) {
  return T(rounded(value, how));
}
GPUSIM_INLINE U32 to_tf32(float value) {
  const U32 bits = as<U32>(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}
template <class T>
GPUSIM_INLINE U32 pack(double high, double low, bool relu) {
  if (relu) {
    high = high < 0 ? 0 : high;
    low = low < 0 ? 0 : low;
  }
  return U32(T(high).bits) << 16 | T(low).bits;
}

/// Two floats as 8-bit numbers, and two of these as halves.
GPUSIM_INLINE U16 floats_to_fp8(float high, float low, __nv_fp8_interpretation_t kind) {
  return U16(__nv_cvt_float_to_fp8(high, __NV_SATFINITE, kind) << 8 |
             __nv_cvt_float_to_fp8(low, __NV_SATFINITE, kind));
}
GPUSIM_INLINE U32 fp8_to_halves(U16 pair, __nv_fp8_interpretation_t kind) {
  return U32(__nv_cvt_fp8_to_halfraw(U8(pair >> 8), kind).x) << 16 |
         __nv_cvt_fp8_to_halfraw(U8(pair), kind).x;
}

// --- memory ----------------------------------------------------------------------------------------------

/// The pointer for an operand that is an address in shared memory: in its window, or a pointer already.
template <class T>
GPUSIM_INLINE char* shared(T address, S64 offset = 0) {
  const U64 wide = U64(address);
  if (wide >> 32 != 0) return reinterpret_cast<char*>(wide) + offset;
  return static_cast<char*>(device::pointer_of_window(U32(wide + U64(offset))));
}
GPUSIM_INLINE char* generic(U64 address, S64 offset = 0) { return reinterpret_cast<char*>(address) + offset; }

template <std::size_t kBytes>
using Access = std::conditional_t<
    kBytes == 1, U8,
    std::conditional_t<kBytes == 2, U16,
                       std::conditional_t<kBytes == 4, U32, std::conditional_t<kBytes == 8, uint2, uint4>>>>;
template <class T, int kCount>
struct Vector {
  T x[kCount];
};
template <class T, int kCount>
GPUSIM_INLINE Vector<T, kCount> load(const char* from) {
  constexpr std::size_t kBytes = sizeof(T) * kCount;
  Vector<T, kCount> result;
  if constexpr (kBytes == 32) {
    const uint4 low = *reinterpret_cast<const uint4*>(from),
                high = *reinterpret_cast<const uint4*>(from + 16);
    __builtin_memcpy(&result, &low, 16);
    __builtin_memcpy(reinterpret_cast<char*>(&result) + 16, &high, 16);
  } else if constexpr (sizeof(T) == 8 && kCount == 1) {
    const U64 value = *reinterpret_cast<const U64*>(from);
    __builtin_memcpy(&result, &value, 8);
  } else {
    const Access<kBytes> value = *reinterpret_cast<const Access<kBytes>*>(from);
    __builtin_memcpy(&result, &value, kBytes);
  }
  return result;
}
template <class T, int kCount>
GPUSIM_INLINE void store(char* to, const Vector<T, kCount>& values) {
  constexpr std::size_t kBytes = sizeof(T) * kCount;
  if constexpr (kBytes == 32) {
    uint4 low, high;
    __builtin_memcpy(&low, &values, 16);
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&values) + 16, 16);
    *reinterpret_cast<uint4*>(to) = low;
    *reinterpret_cast<uint4*>(to + 16) = high;
  } else if constexpr (sizeof(T) == 8 && kCount == 1) {
    U64 value;
    __builtin_memcpy(&value, &values, 8);
    *reinterpret_cast<U64*>(to) = value;
  } else {
    Access<kBytes> value;
    __builtin_memcpy(&value, &values, kBytes);
    *reinterpret_cast<Access<kBytes>*>(to) = value;
  }
}

template <class T>
GPUSIM_INLINE T load_volatile(const char* from) {
  return as<T>(*reinterpret_cast<const volatile Unsigned<T>*>(from));
}
template <class T>
GPUSIM_INLINE void store_volatile(char* to, T value) {
  *reinterpret_cast<volatile Unsigned<T>*>(to) = as<Unsigned<T>>(value);
}

/// What an access releases and acquires.
enum class Sem { kRelaxed, kAcquire, kRelease, kBoth };

GPUSIM_INLINE void fence_before(Sem sem) {
  if (sem == Sem::kRelease || sem == Sem::kBoth) device::thread_fence();
}
GPUSIM_INLINE void fence_after(Sem sem) {
  if (sem == Sem::kAcquire || sem == Sem::kBoth) device::thread_fence();
}
template <class T, class Op>
GPUSIM_INLINE T atomic(Sem sem, char* at, T operand, Op op) {
  fence_before(sem);
  const T old = device::atomic(reinterpret_cast<T*>(at), operand, op);
  fence_after(sem);
  return old;
}
#define GPUSIM_ATOMIC_OP(name, expression)                              \
  struct name {                                                         \
    template <class T>                                                  \
    GPUSIM_INLINE T operator()(T old, [[maybe_unused]] T value) const { \
      return expression;                                                \
    }                                                                   \
  };
GPUSIM_ATOMIC_OP(OpAdd, add(old, value))
GPUSIM_ATOMIC_OP(OpMin, least(old, value))
GPUSIM_ATOMIC_OP(OpMax, most(old, value))
GPUSIM_ATOMIC_OP(OpAnd, T(old& value))
GPUSIM_ATOMIC_OP(OpOr, T(old | value))
GPUSIM_ATOMIC_OP(OpXor, T(old ^ value))
GPUSIM_ATOMIC_OP(OpExch, ((void)old, value))
GPUSIM_ATOMIC_OP(OpKeep, old)
GPUSIM_ATOMIC_OP(OpInc, T(old >= value ? 0 : old + 1))
GPUSIM_ATOMIC_OP(OpDec, T(old == 0 || old > value ? value : old - 1))
#undef GPUSIM_ATOMIC_OP
template <class T>
GPUSIM_INLINE T compare_and_swap(Sem sem, char* at, T expected, T desired) {
  using B = Unsigned<T>;
  fence_before(sem);
  const T old = as<T>(device::atomic_cas(reinterpret_cast<B*>(at), as<B>(expected), as<B>(desired)));
  fence_after(sem);
  return old;
}

// --- the thread ------------------------------------------------------------------------------------------

GPUSIM_INLINE U32 lane() { return U32(device::lane()); }
GPUSIM_INLINE U32 thread_in_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
GPUSIM_INLINE U32 threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }

/// shfl.sync. @param how  u, d, b or i
GPUSIM_INLINE U32 shuffle(char how, U32 value, U32 b, U32 c, U32 mask, bool& in_range) {
  const int self = int(lane());
  const int clamp = int(c & 31), segment = int(c >> 8 & 31), by = int(b & 31);
  const int most = (self & segment) | (clamp & ~segment), least = self & segment;
  int source = self;
  if (how == 'u') source = self - by;
  if (how == 'd') source = self + by;
  if (how == 'b') source = self ^ by;
  if (how == 'i') source = least | (by & ~segment);
  in_range = how == 'u' ? source >= most : source <= most;
  return U32(device::shuffle(mask, value, in_range ? source : self));
}

/// bar.sync
GPUSIM_INLINE void barrier(U32 id) {
  if (id == 0) return __syncthreads();
  device::barrier_sync(int(id), int((threads_of_block() + 31) / 32 * 32));
}
GPUSIM_INLINE void barrier(U32 id, U32 threads) {
  if (id == 0 && threads == threads_of_block()) return __syncthreads();
  device::barrier_sync(int(id), int(threads));
}

// --- barriers in shared memory, and copies ---------------------------------------------------------------

GPUSIM_INLINE U64* mbarrier(char* at) { return reinterpret_cast<U64*>(at); }
GPUSIM_INLINE U64 arrive(char* at, U32 count) {
  const U64 state = U64(device::mbarrier_parity(mbarrier(at)));
  for (; count > 0; --count) device::mbarrier_arrive(mbarrier(at));
  return state;
}
GPUSIM_INLINE U64 arrive_expect(char* at, U32 bytes) {
  const U64 state = U64(device::mbarrier_parity(mbarrier(at)));
  device::mbarrier_arrive_expect_tx(mbarrier(at), int(bytes));
  return state;
}
/// Of any block of the cluster.
GPUSIM_INLINE void arrive_remote(char* at, U32 count, bool relaxed) {
  for (; count > 0; --count) {
    if (device::has_cluster()) {
      device::mbarrier_arrive_cluster(mbarrier(at), relaxed);
    } else {
      device::mbarrier_arrive(mbarrier(at));
    }
  }
}
GPUSIM_INLINE void cluster_arrive(bool relaxed) {
  if (device::has_cluster()) device::cluster_arrive(relaxed);
}
GPUSIM_INLINE void cluster_wait() {
  if (device::has_cluster()) return device::cluster_wait();
  __syncthreads();
}
GPUSIM_INLINE U64 map_rank(const void* at, U32 rank) {
  if (!device::has_cluster() && rank == 0) return U64(at);
  return U64(device::map_shared_rank(at, int(rank)));
}

}  // namespace gpusim::inl
