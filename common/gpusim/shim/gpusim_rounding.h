/// @file
/// Arithmetic and conversions that round in a given direction: to nearest (rn), towards zero (rz), down (rd),
/// up (ru). Part of <math_functions.h>.
#pragma once

#include "vector_types.h"

namespace gpusim::device {

/// As the processor numbers them, in two bits of its control register.
enum class Rounding : unsigned { kNearest = 0, kDown = 1, kUp = 2, kZero = 3 };

float add_rounded(float x, float y, Rounding how);
float multiply_rounded(float x, float y, Rounding how);
float divide_rounded(float x, float y, Rounding how);
float fma_rounded(float x, float y, float z, Rounding how);
float sqrt_rounded(float x, Rounding how);
double add_rounded(double x, double y, Rounding how);
double multiply_rounded(double x, double y, Rounding how);
double divide_rounded(double x, double y, Rounding how);
double fma_rounded(double x, double y, double z, Rounding how);
double sqrt_rounded(double x, Rounding how);
float to_float_rounded(double x, Rounding how);
float to_float_rounded(long long x, Rounding how);
float to_float_rounded(unsigned long long x, Rounding how);
double to_double_rounded(long long x, Rounding how);
double to_double_rounded(unsigned long long x, Rounding how);

}  // namespace gpusim::device

#define GPUSIM_DIRECTED(suffix, how)                                                                         \
  GPUSIM_INLINE float __fadd_##suffix(float x, float y) { return gpusim::device::add_rounded(x, y, how); }   \
  GPUSIM_INLINE float __fsub_##suffix(float x, float y) { return gpusim::device::add_rounded(x, -y, how); }  \
  GPUSIM_INLINE float __fmul_##suffix(float x, float y) {                                                    \
    return gpusim::device::multiply_rounded(x, y, how);                                                      \
  }                                                                                                          \
  GPUSIM_INLINE float __fdiv_##suffix(float x, float y) {                                                    \
    return gpusim::device::divide_rounded(x, y, how);                                                        \
  }                                                                                                          \
  GPUSIM_INLINE float __frcp_##suffix(float x) { return gpusim::device::divide_rounded(1.0f, x, how); }      \
  GPUSIM_INLINE float __fsqrt_##suffix(float x) { return gpusim::device::sqrt_rounded(x, how); }             \
  GPUSIM_INLINE float __fmaf_##suffix(float x, float y, float z) {                                           \
    return gpusim::device::fma_rounded(x, y, z, how);                                                        \
  }                                                                                                          \
  GPUSIM_INLINE double __dadd_##suffix(double x, double y) {                                                 \
    return gpusim::device::add_rounded(x, y, how);                                                           \
  }                                                                                                          \
  GPUSIM_INLINE double __dsub_##suffix(double x, double y) {                                                 \
    return gpusim::device::add_rounded(x, -y, how);                                                          \
  }                                                                                                          \
  GPUSIM_INLINE double __dmul_##suffix(double x, double y) {                                                 \
    return gpusim::device::multiply_rounded(x, y, how);                                                      \
  }                                                                                                          \
  GPUSIM_INLINE double __ddiv_##suffix(double x, double y) {                                                 \
    return gpusim::device::divide_rounded(x, y, how);                                                        \
  }                                                                                                          \
  GPUSIM_INLINE double __drcp_##suffix(double x) { return gpusim::device::divide_rounded(1.0, x, how); }     \
  GPUSIM_INLINE double __dsqrt_##suffix(double x) { return gpusim::device::sqrt_rounded(x, how); }           \
  GPUSIM_INLINE double __fma_##suffix(double x, double y, double z) {                                        \
    return gpusim::device::fma_rounded(x, y, z, how);                                                        \
  }                                                                                                          \
  GPUSIM_INLINE float __double2float_##suffix(double x) { return gpusim::device::to_float_rounded(x, how); } \
  GPUSIM_INLINE float __int2float_##suffix(int x) {                                                          \
    return gpusim::device::to_float_rounded(double(x), how);                                                 \
  }                                                                                                          \
  GPUSIM_INLINE float __uint2float_##suffix(unsigned x) {                                                    \
    return gpusim::device::to_float_rounded(double(x), how);                                                 \
  }                                                                                                          \
  GPUSIM_INLINE float __ll2float_##suffix(long long x) { return gpusim::device::to_float_rounded(x, how); }  \
  GPUSIM_INLINE float __ull2float_##suffix(unsigned long long x) {                                           \
    return gpusim::device::to_float_rounded(x, how);                                                         \
  }                                                                                                          \
  GPUSIM_INLINE double __ll2double_##suffix(long long x) {                                                   \
    return gpusim::device::to_double_rounded(x, how);                                                        \
  }                                                                                                          \
  GPUSIM_INLINE double __ull2double_##suffix(unsigned long long x) {                                         \
    return gpusim::device::to_double_rounded(x, how);                                                        \
  }
GPUSIM_DIRECTED(rz, gpusim::device::Rounding::kZero)
GPUSIM_DIRECTED(rd, gpusim::device::Rounding::kDown)
GPUSIM_DIRECTED(ru, gpusim::device::Rounding::kUp)
#undef GPUSIM_DIRECTED

GPUSIM_INLINE float __fadd_rn(float x, float y) { return x + y; }
GPUSIM_INLINE float __fsub_rn(float x, float y) { return x - y; }
GPUSIM_INLINE float __fmul_rn(float x, float y) { return x * y; }
GPUSIM_INLINE float __fdiv_rn(float x, float y) { return x / y; }
GPUSIM_INLINE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
GPUSIM_INLINE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
GPUSIM_INLINE float __frcp_rn(float x) { return 1.0f / x; }
/// From the double whose own error, of 2^-53 or so, decides one case in 2^29 wrongly.
GPUSIM_INLINE float __frsqrt_rn(float x) { return float(1.0 / __builtin_sqrt(double(x))); }
GPUSIM_INLINE double __dadd_rn(double x, double y) { return x + y; }
GPUSIM_INLINE double __dsub_rn(double x, double y) { return x - y; }
GPUSIM_INLINE double __dmul_rn(double x, double y) { return x * y; }
GPUSIM_INLINE double __ddiv_rn(double x, double y) { return x / y; }
GPUSIM_INLINE double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
GPUSIM_INLINE double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
GPUSIM_INLINE double __drcp_rn(double x) { return 1.0 / x; }

GPUSIM_INLINE float __int2float_rn(int x) { return float(x); }
GPUSIM_INLINE float __uint2float_rn(unsigned x) { return float(x); }
GPUSIM_INLINE float __ll2float_rn(long long x) { return float(x); }
GPUSIM_INLINE float __ull2float_rn(unsigned long long x) { return float(x); }
GPUSIM_INLINE double __int2double_rn(int x) { return x; }
GPUSIM_INLINE double __uint2double_rn(unsigned x) { return x; }
GPUSIM_INLINE double __ll2double_rn(long long x) { return double(x); }
GPUSIM_INLINE double __ull2double_rn(unsigned long long x) { return double(x); }
GPUSIM_INLINE float __double2float_rn(double x) { return float(x); }
