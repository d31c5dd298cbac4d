/// @file
/// Arithmetic for kernels: CUDA's functions on numbers. The GPU's versions of many are approximations; these
/// are as exact as the C library's.
#pragma once

#include <math.h>    // also sqrt(float), isnan(float) and the like outside of std, as with nvcc
#include <stdlib.h>  // abs() of each type

#include <cmath>
#include <cstdint>
#include <limits>

#include "gpusim_bits.h"
#include "gpusim_integers.h"
#include "gpusim_rounding.h"
#include "gpusim_simd.h"
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
#define __sincosf(x, sine, cosine) gpusim_sincosf(x, sine, cosine)

// What the C library's sincos() writes has no hooks.
GPUSIM_INLINE void gpusim_sincosf(float x, float* sine, float* cosine) {
  *sine = __builtin_sinf(x);
  *cosine = __builtin_cosf(x);
}
GPUSIM_INLINE void gpusim_sincos(double x, double* sine, double* cosine) {
  *sine = __builtin_sin(x);
  *cosine = __builtin_cos(x);
}
#define sincosf gpusim_sincosf
#define sincos gpusim_sincos

/// 0 if the divisor is so large that the GPU's approximation of its reciprocal is 0.
GPUSIM_INLINE float __fdividef(float x, float y) {
  const float magnitude = __builtin_fabsf(y);
  if (magnitude > 0x1p126f && magnitude < __builtin_inff()) return x * 0.0f;
  return x / y;
}
GPUSIM_INLINE float fdividef(float x, float y) { return x / y; }
GPUSIM_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// ---- what the C library lacks -----------------------------------------------------------------------------

GPUSIM_INLINE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
GPUSIM_INLINE float rsqrt(float x) { return rsqrtf(x); }
GPUSIM_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }

namespace gpusim::device {

/// In [-1/2, 1/2], with the same sine of its product with pi. @param x  in [-1, 1]
GPUSIM_INLINE double nearest_quarter(double x) { return x > 0.5 ? 1.0 - x : x < -0.5 ? -(1.0 + x) : x; }

}  // namespace gpusim::device

#define GPUSIM_OF_ONE(name, expression)                                   \
  GPUSIM_INLINE double name(double x) { return expression; }              \
  GPUSIM_INLINE float name##f(float x) { return float(name(double(x))); } \
  GPUSIM_INLINE float name(float x) { return name##f(x); }
GPUSIM_OF_ONE(rcbrt, 1.0 / cbrt(x))
GPUSIM_OF_ONE(sinpi, sin(M_PI* gpusim::device::nearest_quarter(remainder(x, 2.0))))
GPUSIM_OF_ONE(cospi, sin(M_PI*(0.5 - fabs(remainder(x, 2.0)))))
GPUSIM_OF_ONE(normcdf, 0.5 * erfc(-x * M_SQRT1_2))
#undef GPUSIM_OF_ONE
GPUSIM_INLINE void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}
GPUSIM_INLINE void sincospi(double x, double* sine, double* cosine) {
  *sine = sinpi(x);
  *cosine = cospi(x);
}

namespace gpusim::device {

double inverse_erf(double x);
double inverse_erfc(double x);
/// exp(x^2) * erfc(x)
double scaled_erfc(double x);
double bessel_i(int order, double x);

/// The square root of the sum of the squares.
template <class T>
GPUSIM_INLINE double norm_of(int count, const T* p) {
  double result = 0;
  for (int i = 0; i < count; ++i) result = hypot(result, double(p[i]));
  return result;
}

}  // namespace gpusim::device

#define GPUSIM_OF_ONE(name, expression)                                   \
  GPUSIM_INLINE double name(double x) { return expression; }              \
  GPUSIM_INLINE float name##f(float x) { return float(name(double(x))); } \
  GPUSIM_INLINE float name(float x) { return name##f(x); }
GPUSIM_OF_ONE(erfinv, gpusim::device::inverse_erf(x))
GPUSIM_OF_ONE(erfcinv, gpusim::device::inverse_erfc(x))
GPUSIM_OF_ONE(erfcx, gpusim::device::scaled_erfc(x))
GPUSIM_OF_ONE(normcdfinv, -M_SQRT2* gpusim::device::inverse_erfc(2.0 * x))
GPUSIM_OF_ONE(cyl_bessel_i0, gpusim::device::bessel_i(0, x))
GPUSIM_OF_ONE(cyl_bessel_i1, gpusim::device::bessel_i(1, x))
#undef GPUSIM_OF_ONE

GPUSIM_INLINE double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
GPUSIM_INLINE float rhypotf(float x, float y) { return float(1.0 / hypot(double(x), double(y))); }
GPUSIM_INLINE double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
GPUSIM_INLINE double norm4d(double x, double y, double z, double w) {
  return hypot(hypot(x, y), hypot(z, w));
}
GPUSIM_INLINE double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
GPUSIM_INLINE double rnorm4d(double x, double y, double z, double w) { return 1.0 / norm4d(x, y, z, w); }
GPUSIM_INLINE float norm3df(float x, float y, float z) { return float(norm3d(x, y, z)); }
GPUSIM_INLINE float norm4df(float x, float y, float z, float w) { return float(norm4d(x, y, z, w)); }
GPUSIM_INLINE float rnorm3df(float x, float y, float z) { return float(rnorm3d(x, y, z)); }
GPUSIM_INLINE float rnorm4df(float x, float y, float z, float w) { return float(rnorm4d(x, y, z, w)); }
GPUSIM_INLINE double norm(int count, const double* p) { return gpusim::device::norm_of(count, p); }
GPUSIM_INLINE double rnorm(int count, const double* p) { return 1.0 / gpusim::device::norm_of(count, p); }
GPUSIM_INLINE float normf(int count, const float* p) { return float(gpusim::device::norm_of(count, p)); }
GPUSIM_INLINE float rnormf(int count, const float* p) {
  return float(1.0 / gpusim::device::norm_of(count, p));
}

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
