/// @file
/// The simulator's `<cuda_bf16.h>`: __nv_bfloat16 and __nv_bfloat162 with the names and the results of
/// CUDA's. What cuda_fp16.h says of rounding, NaN and inlining holds here too.
#pragma once

#include "cuda_fp16.h"

/// The upper half of a float: its range with 8 bits of precision. Numbers convert to it and it converts to
/// numbers unasked, as in CUDA.
struct alignas(2) __nv_bfloat16 {
  __nv_bfloat16() = default;
  GPUSIM_INLINE __nv_bfloat16(float value) : __nv_bfloat16(double(value)) {}
  GPUSIM_INLINE __nv_bfloat16(double value)
      : bits_(gpusim::float16::narrow<gpusim::float16::BFloat16>(value)) {}
  template <std::integral T>
  GPUSIM_INLINE __nv_bfloat16(T value) : __nv_bfloat16(gpusim::float16::from_integer(value)) {}
  GPUSIM_INLINE explicit __nv_bfloat16(__half value) : __nv_bfloat16(float(value)) {}

  GPUSIM_INLINE operator float() const { return gpusim::float16::BFloat16::widen(bits_); }
  GPUSIM_INLINE operator bool() const { return (bits_ & 0x7fff) != 0; }
  template <std::integral T>
  GPUSIM_INLINE operator T() const {
    return gpusim::float16::to_integer<T>(float(*this));
  }

 private:
  std::uint16_t bits_;
};

GPUSIM_INLINE __half::__half(__nv_bfloat16 value) : __half(float(value)) {}

/// Two of them in one 32-bit register or word, x in the low bits.
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x;
  __nv_bfloat16 y;

  __nv_bfloat162() = default;
  GPUSIM_INLINE __nv_bfloat162(const __nv_bfloat16& low, const __nv_bfloat16& high) : x(low), y(high) {}
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

// Pairs: made, taken apart, converted.

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

// Arithmetic. Computed in double and then rounded to 16 bits, which gives what one rounding of the exact
// result would give: 53 bits are more than twice the 8 of a bfloat16.

GPUSIM_INLINE __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat16(double(float(a)) + double(float(b)));
}
GPUSIM_INLINE __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat16(double(float(a)) - double(float(b)));
}
GPUSIM_INLINE __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat16(double(float(a)) * double(float(b)));
}
GPUSIM_INLINE __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat16(double(float(a)) / double(float(b)));
}
GPUSIM_INLINE __nv_bfloat16 __hadd_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd(a, b); }
GPUSIM_INLINE __nv_bfloat16 __hsub_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hsub(a, b); }
GPUSIM_INLINE __nv_bfloat16 __hmul_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmul(a, b); }
GPUSIM_INLINE __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __ushort_as_bfloat16(
      gpusim::float16::fused_multiply_add<gpusim::float16::BFloat16>(float(a), float(b), float(c)));
}

GPUSIM_INLINE bool __hisnan(__nv_bfloat16 a) { return (__bfloat16_as_ushort(a) & 0x7fff) > 0x7f80; }

/// With the other sign; NaN becomes the canonical one, whose sign is clear.
GPUSIM_INLINE __nv_bfloat16 __hneg(__nv_bfloat16 a) {
  return __ushort_as_bfloat16(__hisnan(a) ? gpusim::float16::kNaN
                                          : static_cast<unsigned short>(__bfloat16_as_ushort(a) ^ 0x8000));
}
GPUSIM_INLINE __nv_bfloat16 __habs(__nv_bfloat16 a) {
  return __ushort_as_bfloat16(__hisnan(a) ? gpusim::float16::kNaN
                                          : static_cast<unsigned short>(__bfloat16_as_ushort(a) & 0x7fff));
}

// Comparisons: false where an operand is NaN; those whose name ends in u are true there.

GPUSIM_INLINE bool __heq(__nv_bfloat16 a, __nv_bfloat16 b) {
  return gpusim::float16::equal<gpusim::float16::BFloat16>(__bfloat16_as_ushort(a), __bfloat16_as_ushort(b));
}
GPUSIM_INLINE bool __hlt(__nv_bfloat16 a, __nv_bfloat16 b) {
  return gpusim::float16::less<gpusim::float16::BFloat16>(__bfloat16_as_ushort(a), __bfloat16_as_ushort(b));
}
GPUSIM_INLINE bool __hgt(__nv_bfloat16 a, __nv_bfloat16 b) { return __hlt(b, a); }
GPUSIM_INLINE bool __hle(__nv_bfloat16 a, __nv_bfloat16 b) { return __hlt(a, b) || __heq(a, b); }
GPUSIM_INLINE bool __hge(__nv_bfloat16 a, __nv_bfloat16 b) { return __hgt(a, b) || __heq(a, b); }
GPUSIM_INLINE bool __hne(__nv_bfloat16 a, __nv_bfloat16 b) { return __hlt(a, b) || __hgt(a, b); }
GPUSIM_INLINE bool __hequ(__nv_bfloat16 a, __nv_bfloat16 b) { return !__hne(a, b); }
GPUSIM_INLINE bool __hneu(__nv_bfloat16 a, __nv_bfloat16 b) { return !__heq(a, b); }
GPUSIM_INLINE bool __hltu(__nv_bfloat16 a, __nv_bfloat16 b) { return !__hge(a, b); }
GPUSIM_INLINE bool __hleu(__nv_bfloat16 a, __nv_bfloat16 b) { return !__hgt(a, b); }
GPUSIM_INLINE bool __hgtu(__nv_bfloat16 a, __nv_bfloat16 b) { return !__hle(a, b); }
GPUSIM_INLINE bool __hgeu(__nv_bfloat16 a, __nv_bfloat16 b) { return !__hlt(a, b); }

/// 1 for +inf, -1 for -inf, else 0.
GPUSIM_INLINE int __hisinf(__nv_bfloat16 a) {
  const unsigned short bits = __bfloat16_as_ushort(a);
  return bits == 0x7f80 ? 1 : bits == 0xff80 ? -1 : 0;
}

// Of a number and a NaN the number; +0 is larger than -0. Those whose name ends in _nan: NaN.
GPUSIM_INLINE __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __ushort_as_bfloat16(
      gpusim::float16::larger<gpusim::float16::BFloat16>(__bfloat16_as_ushort(a), __bfloat16_as_ushort(b)));
}
GPUSIM_INLINE __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __ushort_as_bfloat16(
      gpusim::float16::smaller<gpusim::float16::BFloat16>(__bfloat16_as_ushort(a), __bfloat16_as_ushort(b)));
}
GPUSIM_INLINE __nv_bfloat16 __hmax_nan(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __hisnan(a) || __hisnan(b) ? CUDART_NAN_BF16 : __hmax(a, b);
}
GPUSIM_INLINE __nv_bfloat16 __hmin_nan(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __hisnan(a) || __hisnan(b) ? CUDART_NAN_BF16 : __hmin(a, b);
}

// The same on pairs, each member by itself.

GPUSIM_INLINE __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hadd(a.x, b.x), __hadd(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hsub(a.x, b.x), __hsub(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hmul(a.x, b.x), __hmul(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __h2div(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hdiv(a.x, b.x), __hdiv(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hadd2_rn(__nv_bfloat162 a, __nv_bfloat162 b) { return __hadd2(a, b); }
GPUSIM_INLINE __nv_bfloat162 __hsub2_rn(__nv_bfloat162 a, __nv_bfloat162 b) { return __hsub2(a, b); }
GPUSIM_INLINE __nv_bfloat162 __hmul2_rn(__nv_bfloat162 a, __nv_bfloat162 b) { return __hmul2(a, b); }
GPUSIM_INLINE __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
GPUSIM_INLINE __nv_bfloat162 __hneg2(__nv_bfloat162 a) { return __nv_bfloat162(__hneg(a.x), __hneg(a.y)); }
GPUSIM_INLINE __nv_bfloat162 __habs2(__nv_bfloat162 a) { return __nv_bfloat162(__habs(a.x), __habs(a.y)); }
GPUSIM_INLINE __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hmax(a.x, b.x), __hmax(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hmin2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hmin(a.x, b.x), __hmin(a.y, b.y));
}

// 1.0 where the comparison holds, else 0.0.
GPUSIM_INLINE __nv_bfloat162 __heq2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__heq(a.x, b.x), __heq(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hne2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hne(a.x, b.x), __hne(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hlt2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hlt(a.x, b.x), __hlt(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hle2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hle(a.x, b.x), __hle(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hgt2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hgt(a.x, b.x), __hgt(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hge2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162(__hge(a.x, b.x), __hge(a.y, b.y));
}
GPUSIM_INLINE __nv_bfloat162 __hisnan2(__nv_bfloat162 a) {
  return __nv_bfloat162(__hisnan(a.x), __hisnan(a.y));
}

// True where the comparison holds for both members.
GPUSIM_INLINE bool __hbeq2(__nv_bfloat162 a, __nv_bfloat162 b) { return __heq(a.x, b.x) && __heq(a.y, b.y); }
GPUSIM_INLINE bool __hbne2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hne(a.x, b.x) && __hne(a.y, b.y); }
GPUSIM_INLINE bool __hbneu2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __hneu(a.x, b.x) && __hneu(a.y, b.y);
}
GPUSIM_INLINE bool __hblt2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hlt(a.x, b.x) && __hlt(a.y, b.y); }
GPUSIM_INLINE bool __hble2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hle(a.x, b.x) && __hle(a.y, b.y); }
GPUSIM_INLINE bool __hbgt2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hgt(a.x, b.x) && __hgt(a.y, b.y); }
GPUSIM_INLINE bool __hbge2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hge(a.x, b.x) && __hge(a.y, b.y); }

// Operators.

GPUSIM_INLINE __nv_bfloat16 operator+(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hadd(a, b); }
GPUSIM_INLINE __nv_bfloat16 operator-(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hsub(a, b); }
GPUSIM_INLINE __nv_bfloat16 operator*(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hmul(a, b); }
GPUSIM_INLINE __nv_bfloat16 operator/(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hdiv(a, b); }
GPUSIM_INLINE __nv_bfloat16 operator+(const __nv_bfloat16& a) { return a; }
GPUSIM_INLINE __nv_bfloat16 operator-(const __nv_bfloat16& a) { return __hneg(a); }
GPUSIM_INLINE __nv_bfloat16& operator+=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = __hadd(a, b); }
GPUSIM_INLINE __nv_bfloat16& operator-=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = __hsub(a, b); }
GPUSIM_INLINE __nv_bfloat16& operator*=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = __hmul(a, b); }
GPUSIM_INLINE __nv_bfloat16& operator/=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = __hdiv(a, b); }
GPUSIM_INLINE __nv_bfloat16& operator++(__nv_bfloat16& a) { return a += CUDART_ONE_BF16; }
GPUSIM_INLINE __nv_bfloat16& operator--(__nv_bfloat16& a) { return a -= CUDART_ONE_BF16; }
GPUSIM_INLINE __nv_bfloat16 operator++(__nv_bfloat16& a, int) {
  const __nv_bfloat16 before = a;
  ++a;
  return before;
}
GPUSIM_INLINE __nv_bfloat16 operator--(__nv_bfloat16& a, int) {
  const __nv_bfloat16 before = a;
  --a;
  return before;
}
GPUSIM_INLINE bool operator==(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __heq(a, b); }
GPUSIM_INLINE bool operator!=(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hneu(a, b); }
GPUSIM_INLINE bool operator<(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hlt(a, b); }
GPUSIM_INLINE bool operator<=(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hle(a, b); }
GPUSIM_INLINE bool operator>(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hgt(a, b); }
GPUSIM_INLINE bool operator>=(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hge(a, b); }

// On pairs. A comparison holds when it holds for both members, != as well.
GPUSIM_INLINE __nv_bfloat162 operator+(const __nv_bfloat162& a, const __nv_bfloat162& b) {
  return __hadd2(a, b);
}
GPUSIM_INLINE __nv_bfloat162 operator-(const __nv_bfloat162& a, const __nv_bfloat162& b) {
  return __hsub2(a, b);
}
GPUSIM_INLINE __nv_bfloat162 operator*(const __nv_bfloat162& a, const __nv_bfloat162& b) {
  return __hmul2(a, b);
}
GPUSIM_INLINE __nv_bfloat162 operator/(const __nv_bfloat162& a, const __nv_bfloat162& b) {
  return __h2div(a, b);
}
GPUSIM_INLINE __nv_bfloat162 operator+(const __nv_bfloat162& a) { return a; }
GPUSIM_INLINE __nv_bfloat162 operator-(const __nv_bfloat162& a) { return __hneg2(a); }
GPUSIM_INLINE __nv_bfloat162& operator+=(__nv_bfloat162& a, const __nv_bfloat162& b) {
  return a = __hadd2(a, b);
}
GPUSIM_INLINE __nv_bfloat162& operator-=(__nv_bfloat162& a, const __nv_bfloat162& b) {
  return a = __hsub2(a, b);
}
GPUSIM_INLINE __nv_bfloat162& operator*=(__nv_bfloat162& a, const __nv_bfloat162& b) {
  return a = __hmul2(a, b);
}
GPUSIM_INLINE __nv_bfloat162& operator/=(__nv_bfloat162& a, const __nv_bfloat162& b) {
  return a = __h2div(a, b);
}
GPUSIM_INLINE bool operator==(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __hbeq2(a, b); }
GPUSIM_INLINE bool operator!=(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __hbneu2(a, b); }
GPUSIM_INLINE bool operator<(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __hblt2(a, b); }
GPUSIM_INLINE bool operator<=(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __hble2(a, b); }
GPUSIM_INLINE bool operator>(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __hbgt2(a, b); }
GPUSIM_INLINE bool operator>=(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __hbge2(a, b); }
