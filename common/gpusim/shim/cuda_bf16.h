/// @file
/// The simulator's `<cuda_bf16.h>`: __nv_bfloat16 and __nv_bfloat162 with the names and the results of
/// CUDA's. What cuda_fp16.h says about rounding, NaN and inlining applies here too.
#pragma once

#include "cuda_fp16.h"

/// Their bits alone.
struct alignas(2) __nv_bfloat16_raw {
  unsigned short x;
};
struct alignas(4) __nv_bfloat162_raw {
  unsigned short x, y;
};

/// The upper half of a float: its range with 8 bits of precision. Conversions from and to numbers are
/// implicit, as in CUDA.
struct alignas(2) __nv_bfloat16 {
  using gpusim_float16 = void;  ///< for atomicAdd()
  __nv_bfloat16() = default;
  GPUSIM_INLINE __nv_bfloat16(float value) : __nv_bfloat16(double(value)) {}
  GPUSIM_INLINE __nv_bfloat16(double value)
      : bits_(gpusim::float16::narrow<gpusim::float16::BFloat16>(value)) {}
  template <gpusim::Integral T>
  GPUSIM_INLINE __nv_bfloat16(T value) : __nv_bfloat16(gpusim::float16::from_integer(value)) {}
  GPUSIM_INLINE explicit __nv_bfloat16(__half value) : __nv_bfloat16(float(value)) {}
  GPUSIM_INLINE __nv_bfloat16(const __nv_bfloat16_raw& raw) : bits_(raw.x) {}
  GPUSIM_INLINE operator __nv_bfloat16_raw() const { return {bits_}; }

  GPUSIM_INLINE operator float() const { return gpusim::float16::BFloat16::widen(bits_); }
  GPUSIM_INLINE operator bool() const { return (bits_ & 0x7fff) != 0; }
  template <gpusim::Integral T>
  GPUSIM_INLINE operator T() const {
    return gpusim::float16::to_integer<T>(float(*this));
  }

 private:
  std::uint16_t bits_;
};

GPUSIM_INLINE __half::__half(__nv_bfloat16 value) : __half(float(value)) {}

/// Two of them in one 32-bit register or word, x in the low bits.
struct alignas(4) __nv_bfloat162 {
  using gpusim_float16 = void;
  __nv_bfloat16 x;
  __nv_bfloat16 y;

  __nv_bfloat162() = default;
  GPUSIM_INLINE __nv_bfloat162(const __nv_bfloat16& low, const __nv_bfloat16& high) : x(low), y(high) {}
  GPUSIM_INLINE __nv_bfloat162(__nv_bfloat162_raw raw)
      : x(__nv_bfloat16_raw{raw.x}), y(__nv_bfloat16_raw{raw.y}) {}
  GPUSIM_INLINE operator __nv_bfloat162_raw() const {
    return {__nv_bfloat16_raw(x).x, __nv_bfloat16_raw(y).x};
  }
};

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

// Bit patterns.

GPUSIM_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) {
  return __builtin_bit_cast(unsigned short, a);
}
GPUSIM_INLINE short __bfloat16_as_short(__nv_bfloat16 a) { return __builtin_bit_cast(short, a); }
GPUSIM_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return __builtin_bit_cast(__nv_bfloat16, bits);
}
GPUSIM_INLINE __nv_bfloat16 __short_as_bfloat16(short bits) {
  return __builtin_bit_cast(__nv_bfloat16, bits);
}

#define CUDART_ZERO_BF16 __ushort_as_bfloat16(0x0000)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16(0x8000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16(0x3f80)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16(0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(0x7f7f)
#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fff)

// Conversions.

GPUSIM_INLINE __nv_bfloat16 __float2bfloat16(float a) { return __nv_bfloat16(a); }
GPUSIM_INLINE __nv_bfloat16 __float2bfloat16_rn(float a) { return __nv_bfloat16(a); }
GPUSIM_INLINE __nv_bfloat16 __double2bfloat16(double a) { return __nv_bfloat16(a); }
GPUSIM_INLINE float __bfloat162float(__nv_bfloat16 a) { return float(a); }
GPUSIM_CONVERSIONS(bfloat16, __nv_bfloat16, gpusim::float16::BFloat16)

// Pairs: construction, access to the halves, conversion.

GPUSIM_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
GPUSIM_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) {
  return __nv_bfloat162(low, high);
}
GPUSIM_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
GPUSIM_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
GPUSIM_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
GPUSIM_INLINE __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.x, a.x); }
GPUSIM_INLINE __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.y); }
GPUSIM_INLINE __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(a.x, b.x);
}
GPUSIM_INLINE __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(a.y, b.y);
}
GPUSIM_INLINE __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.x); }

GPUSIM_INLINE __nv_bfloat162 __float2bfloat162_rn(float a) {
  return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(a));
}
GPUSIM_INLINE __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return __nv_bfloat162(__nv_bfloat16(low), __nv_bfloat16(high));
}
GPUSIM_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 a) {
  return __nv_bfloat162(__nv_bfloat16(a.x), __nv_bfloat16(a.y));
}
GPUSIM_INLINE float2 __bfloat1622float2(__nv_bfloat162 a) { return float2{float(a.x), float(a.y)}; }
GPUSIM_INLINE float __low2float(__nv_bfloat162 a) { return float(a.x); }
GPUSIM_INLINE float __high2float(__nv_bfloat162 a) { return float(a.y); }

#define GPUSIM_HALF __nv_bfloat16
#define GPUSIM_PAIR __nv_bfloat162
#define GPUSIM_FORMAT gpusim::float16::BFloat16
#include "float16_operations.h"
