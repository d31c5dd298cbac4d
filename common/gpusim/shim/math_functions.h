/// @file
/// Arithmetic for kernels: CUDA's functions on numbers. The GPU's versions of many are approximations; these
/// are as exact as the C library's. Those that round in another direction than to nearest are missing, but
/// for conversions.
#pragma once

#include <math.h>    // also sqrt(float), isnan(float) and the like outside of std, as with nvcc
#include <stdlib.h>  // abs() of each type

#include <cmath>
#include <cstdint>
#include <limits>

#include "gpusim_bits.h"
#include "vector_types.h"

// ---- fast versions ----------------------------------------------------------------------------------------

// The C library declares functions of these names for its own use, hence macros.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __tanhf(x) tanhf(x)
#define __sincosf(x, sine, cosine) sincosf(x, sine, cosine)

GPUSIM_INLINE float __fdividef(float x, float y) { return x / y; }
GPUSIM_INLINE float fdividef(float x, float y) { return x / y; }
GPUSIM_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// ---- rounded to nearest -----------------------------------------------------------------------------------

GPUSIM_INLINE float __fadd_rn(float x, float y) { return x + y; }
GPUSIM_INLINE float __fsub_rn(float x, float y) { return x - y; }
/// Rounds towards +infinity: next to the nearest number if that is too small. Its error is a float (Knuth
/// 1997, 4.2.2).
GPUSIM_INLINE float __fsub_ru(float x, float y) {
  const float nearest = x - y, of_y = nearest - x, error = (x - (nearest - of_y)) + (-y - of_y);
  return error > 0.0f ? __builtin_nextafterf(nearest, __builtin_inff()) : nearest;
}
GPUSIM_INLINE float __fmul_rn(float x, float y) { return x * y; }
GPUSIM_INLINE float __fdiv_rn(float x, float y) { return x / y; }
GPUSIM_INLINE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
GPUSIM_INLINE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
GPUSIM_INLINE float __frcp_rn(float x) { return 1.0f / x; }
GPUSIM_INLINE double __dadd_rn(double x, double y) { return x + y; }
GPUSIM_INLINE double __dsub_rn(double x, double y) { return x - y; }
GPUSIM_INLINE double __dmul_rn(double x, double y) { return x * y; }
GPUSIM_INLINE double __ddiv_rn(double x, double y) { return x / y; }
GPUSIM_INLINE double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
GPUSIM_INLINE double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
GPUSIM_INLINE double __drcp_rn(double x) { return 1.0 / x; }

// ---- what the C library lacks -----------------------------------------------------------------------------

GPUSIM_INLINE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
GPUSIM_INLINE float rsqrt(float x) { return rsqrtf(x); }
GPUSIM_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
GPUSIM_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }

#define GPUSIM_OF_ONE(name, expression)                                   \
  GPUSIM_INLINE double name(double x) { return expression; }              \
  GPUSIM_INLINE float name##f(float x) { return float(name(double(x))); } \
  GPUSIM_INLINE float name(float x) { return name##f(x); }
GPUSIM_OF_ONE(rcbrt, 1.0 / cbrt(x))
GPUSIM_OF_ONE(sinpi, sin(M_PI* remainder(x, 2.0)))
GPUSIM_OF_ONE(cospi, cos(M_PI* remainder(x, 2.0)))
GPUSIM_OF_ONE(normcdf, 0.5 * erfc(-x * M_SQRT1_2))
#undef GPUSIM_OF_ONE
GPUSIM_INLINE void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}
GPUSIM_INLINE float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
GPUSIM_INLINE float norm3df(float x, float y, float z) { return hypotf(hypotf(x, y), z); }
GPUSIM_INLINE float norm4df(float x, float y, float z, float w) { return hypotf(hypotf(x, y), hypotf(z, w)); }
GPUSIM_INLINE float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }

// ---- minimum and maximum ---------------------------------------------------------------------
//
// Exactly these overloads, so that what is ambiguous for nvcc is ambiguous here.

#define GPUSIM_MIN_MAX(result, A, B)                                                           \
  GPUSIM_INLINE result min(A a, B b) { return (result)b < (result)a ? (result)b : (result)a; } \
  GPUSIM_INLINE result max(A a, B b) { return (result)a < (result)b ? (result)b : (result)a; }
#define GPUSIM_MIN_MAX_INTEGERS(type)                         \
  GPUSIM_MIN_MAX(type, type, type)                            \
  GPUSIM_MIN_MAX(unsigned type, unsigned type, unsigned type) \
  GPUSIM_MIN_MAX(unsigned type, type, unsigned type)          \
  GPUSIM_MIN_MAX(unsigned type, unsigned type, type)
GPUSIM_MIN_MAX_INTEGERS(int)
GPUSIM_MIN_MAX_INTEGERS(long)
GPUSIM_MIN_MAX_INTEGERS(long long)
#undef GPUSIM_MIN_MAX_INTEGERS
#undef GPUSIM_MIN_MAX
GPUSIM_INLINE float min(float a, float b) { return __builtin_fminf(a, b); }
GPUSIM_INLINE float max(float a, float b) { return __builtin_fmaxf(a, b); }
#define GPUSIM_MIN_MAX(A, B)                                          \
  GPUSIM_INLINE double min(A a, B b) { return __builtin_fmin(a, b); } \
  GPUSIM_INLINE double max(A a, B b) { return __builtin_fmax(a, b); }
GPUSIM_MIN_MAX(double, double)
GPUSIM_MIN_MAX(float, double)
GPUSIM_MIN_MAX(double, float)
#undef GPUSIM_MIN_MAX
GPUSIM_INLINE unsigned umin(unsigned a, unsigned b) { return min(a, b); }
GPUSIM_INLINE unsigned umax(unsigned a, unsigned b) { return max(a, b); }
GPUSIM_INLINE long long llmin(long long a, long long b) { return min(a, b); }
GPUSIM_INLINE long long llmax(long long a, long long b) { return max(a, b); }
GPUSIM_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
GPUSIM_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }

// ---- conversions ------------------------------------------------------------------------------------------

namespace gpusim::device {

/// Numbers out of range become the nearest integer of the type. NaN is 0, or 2^63 in 64 bits.
template <class T>
GPUSIM_INLINE T to_integer(double rounded) {
  using Limits = std::numeric_limits<T>;
  if (rounded != rounded) return sizeof(T) < 8 ? T(0) : T(std::uint64_t(1) << 63);
  if (rounded <= double(Limits::min())) return Limits::min();
  if (rounded >= double(Limits::max())) return Limits::max();
  return T(rounded);
}

}  // namespace gpusim::device

#define GPUSIM_TO_INTEGER(from, type, to, name)                  \
  GPUSIM_INLINE to __##from##2##name##_rn(type x) {              \
    return gpusim::device::to_integer<to>(nearbyint(double(x))); \
  }                                                              \
  GPUSIM_INLINE to __##from##2##name##_rz(type x) {              \
    return gpusim::device::to_integer<to>(trunc(double(x)));     \
  }                                                              \
  GPUSIM_INLINE to __##from##2##name##_rd(type x) {              \
    return gpusim::device::to_integer<to>(floor(double(x)));     \
  }                                                              \
  GPUSIM_INLINE to __##from##2##name##_ru(type x) { return gpusim::device::to_integer<to>(ceil(double(x))); }
#define GPUSIM_TO_INTEGERS(from, type)          \
  GPUSIM_TO_INTEGER(from, type, int, int)       \
  GPUSIM_TO_INTEGER(from, type, unsigned, uint) \
  GPUSIM_TO_INTEGER(from, type, long long, ll)  \
  GPUSIM_TO_INTEGER(from, type, unsigned long long, ull)
GPUSIM_TO_INTEGERS(float, float)
GPUSIM_TO_INTEGERS(double, double)
#undef GPUSIM_TO_INTEGERS
#undef GPUSIM_TO_INTEGER

GPUSIM_INLINE float __int2float_rn(int x) { return float(x); }
GPUSIM_INLINE float __uint2float_rn(unsigned x) { return float(x); }
GPUSIM_INLINE float __ll2float_rn(long long x) { return float(x); }
GPUSIM_INLINE float __ull2float_rn(unsigned long long x) { return float(x); }
GPUSIM_INLINE double __int2double_rn(int x) { return x; }
GPUSIM_INLINE double __uint2double_rn(unsigned x) { return x; }
GPUSIM_INLINE double __ll2double_rn(long long x) { return double(x); }
GPUSIM_INLINE double __ull2double_rn(unsigned long long x) { return double(x); }
GPUSIM_INLINE float __double2float_rn(double x) { return float(x); }

GPUSIM_INLINE int __float_as_int(float x) { return gpusim::bit_cast<int>(x); }
GPUSIM_INLINE unsigned __float_as_uint(float x) { return gpusim::bit_cast<unsigned>(x); }
GPUSIM_INLINE float __int_as_float(int x) { return gpusim::bit_cast<float>(x); }
GPUSIM_INLINE float __uint_as_float(unsigned x) { return gpusim::bit_cast<float>(x); }
GPUSIM_INLINE long long __double_as_longlong(double x) { return gpusim::bit_cast<long long>(x); }
GPUSIM_INLINE double __longlong_as_double(long long x) { return gpusim::bit_cast<double>(x); }
GPUSIM_INLINE int __double2loint(double x) { return int(gpusim::bit_cast<std::uint64_t>(x)); }
GPUSIM_INLINE int __double2hiint(double x) { return int(gpusim::bit_cast<std::uint64_t>(x) >> 32); }
GPUSIM_INLINE double __hiloint2double(int high, int low) {
  return gpusim::bit_cast<double>(std::uint64_t(unsigned(high)) << 32 | unsigned(low));
}

// ---- integers ---------------------------------------------------------------------------------------------

GPUSIM_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
GPUSIM_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
GPUSIM_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
GPUSIM_INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(std::uint64_t(x)); }
GPUSIM_INLINE int __ffs(int x) { return x == 0 ? 0 : __builtin_ctz(unsigned(x)) + 1; }
GPUSIM_INLINE int __ffsll(long long x) { return x == 0 ? 0 : __builtin_ctzll(std::uint64_t(x)) + 1; }
GPUSIM_INLINE unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= ((x >> i) & 1u) << (31 - i);
  return r;
}
GPUSIM_INLINE unsigned long long __brevll(unsigned long long x) {
  return std::uint64_t(__brev(unsigned(x))) << 32 | __brev(unsigned(x >> 32));
}
/// Four bytes of the eight in y and x, each chosen by four bits of `selector`.
GPUSIM_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}
GPUSIM_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((std::uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
GPUSIM_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((std::uint64_t(high) << 32 | low) >> (shift & 31));
}
GPUSIM_INLINE int __mulhi(int x, int y) { return int(std::int64_t(x) * y >> 32); }
GPUSIM_INLINE unsigned __umulhi(unsigned x, unsigned y) { return unsigned(std::uint64_t(x) * y >> 32); }
GPUSIM_INLINE long long __mul64hi(long long x, long long y) { return (long long)(__int128(x) * y >> 64); }
GPUSIM_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)(x)*y >> 64);
}
GPUSIM_INLINE int __mul24(int x, int y) { return int(unsigned(x << 8 >> 8) * unsigned(y << 8 >> 8)); }
GPUSIM_INLINE unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
/// The sum of four products of signed bytes, and c.
GPUSIM_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += int(std::int8_t(a >> i)) * std::int8_t(b >> i);
  return c;
}
GPUSIM_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 0xff) * (b >> i & 0xff);
  return c;
}
