/// @file
/// <cuComplex.h>: complex numbers. Also for C.
#pragma once

#include <math.h>

#include "vector_types.h"

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

GPUSIM_INLINE cuFloatComplex make_cuFloatComplex(float r, float i) { return make_float2(r, i); }
GPUSIM_INLINE cuComplex make_cuComplex(float r, float i) { return make_float2(r, i); }
GPUSIM_INLINE cuDoubleComplex make_cuDoubleComplex(double r, double i) { return make_double2(r, i); }
GPUSIM_INLINE cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex c) { return make_double2(c.x, c.y); }
GPUSIM_INLINE cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex c) {
  return make_float2((float)c.x, (float)c.y);
}

#define GPUSIM_COMPLEX(C, T, f, make, root)                                                          \
  GPUSIM_INLINE T cuCreal##f(C c) { return c.x; }                                                    \
  GPUSIM_INLINE T cuCimag##f(C c) { return c.y; }                                                    \
  GPUSIM_INLINE C cuConj##f(C c) { return make(c.x, -c.y); }                                         \
  GPUSIM_INLINE C cuCadd##f(C a, C b) { return make(a.x + b.x, a.y + b.y); }                         \
  GPUSIM_INLINE C cuCsub##f(C a, C b) { return make(a.x - b.x, a.y - b.y); }                         \
  GPUSIM_INLINE C cuCmul##f(C a, C b) { return make(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); } \
  GPUSIM_INLINE C cuCfma##f(C a, C b, C c) { return cuCadd##f(cuCmul##f(a, b), c); }                 \
  /* Divides by the larger component first, so that no square overflows. */                          \
  GPUSIM_INLINE C cuCdiv##f(C a, C b) {                                                              \
    const T scale = (T)1 / ((T)fabs(b.x) + (T)fabs(b.y));                                            \
    const T ar = a.x * scale, ai = a.y * scale, br = b.x * scale, bi = b.y * scale;                  \
    const T inverse = (T)1 / (br * br + bi * bi);                                                    \
    return make((ar * br + ai * bi) * inverse, (ai * br - ar * bi) * inverse);                       \
  }                                                                                                  \
  GPUSIM_INLINE T cuCabs##f(C c) { return root(c.x, c.y); }
GPUSIM_COMPLEX(cuFloatComplex, float, f, make_float2, hypotf)
GPUSIM_COMPLEX(cuDoubleComplex, double, , make_double2, hypot)
#undef GPUSIM_COMPLEX
