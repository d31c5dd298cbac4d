/// @file
/// <helper_math.h> of CUDA's samples, as programs use it: arithmetic on vectors, element by element.
#pragma once

#include <cmath>

#include "cuda_runtime.h"

#ifndef __CUDACC__
#include <cstdlib>
#endif

// @param V  float, int or uint: float3    @param T  of an element
#define GPUSIM_VECTOR_OPERATOR(V, T, op)                                                                   \
  GPUSIM_INLINE V##2 operator op(V##2 a, V##2 b) { return {T(a.x op b.x), T(a.y op b.y)}; }                \
  GPUSIM_INLINE V##2 operator op(V##2 a, T b) { return {T(a.x op b), T(a.y op b)}; }                       \
  GPUSIM_INLINE V##2 operator op(T a, V##2 b) { return {T(a op b.x), T(a op b.y)}; }                       \
  GPUSIM_INLINE V##3 operator op(V##3 a, V##3 b) { return {T(a.x op b.x), T(a.y op b.y), T(a.z op b.z)}; } \
  GPUSIM_INLINE V##3 operator op(V##3 a, T b) { return {T(a.x op b), T(a.y op b), T(a.z op b)}; }          \
  GPUSIM_INLINE V##3 operator op(T a, V##3 b) { return {T(a op b.x), T(a op b.y), T(a op b.z)}; }          \
  GPUSIM_INLINE V##4 operator op(V##4 a, V##4 b) {                                                         \
    return {T(a.x op b.x), T(a.y op b.y), T(a.z op b.z), T(a.w op b.w)};                                   \
  }                                                                                                        \
  GPUSIM_INLINE V##4 operator op(V##4 a, T b) {                                                            \
    return {T(a.x op b), T(a.y op b), T(a.z op b), T(a.w op b)};                                           \
  }                                                                                                        \
  GPUSIM_INLINE V##4 operator op(T a, V##4 b) {                                                            \
    return {T(a op b.x), T(a op b.y), T(a op b.z), T(a op b.w)};                                           \
  }                                                                                                        \
  GPUSIM_INLINE void operator op##=(V##2 & a, V##2 b) { a = a op b; }                                      \
  GPUSIM_INLINE void operator op##=(V##2 & a, T b) { a = a op b; }                                         \
  GPUSIM_INLINE void operator op##=(V##3 & a, V##3 b) { a = a op b; }                                      \
  GPUSIM_INLINE void operator op##=(V##3 & a, T b) { a = a op b; }                                         \
  GPUSIM_INLINE void operator op##=(V##4 & a, V##4 b) { a = a op b; }                                      \
  GPUSIM_INLINE void operator op##=(V##4 & a, T b) { a = a op b; }
#define GPUSIM_VECTOR_FUNCTION_1(V, name, f)                           \
  GPUSIM_INLINE V##2 name(V##2 a) { return {f(a.x), f(a.y)}; }         \
  GPUSIM_INLINE V##3 name(V##3 a) { return {f(a.x), f(a.y), f(a.z)}; } \
  GPUSIM_INLINE V##4 name(V##4 a) { return {f(a.x), f(a.y), f(a.z), f(a.w)}; }
#define GPUSIM_VECTOR_FUNCTION_2(V, name, f)                                                  \
  GPUSIM_INLINE V##2 name(V##2 a, V##2 b) { return {f(a.x, b.x), f(a.y, b.y)}; }              \
  GPUSIM_INLINE V##3 name(V##3 a, V##3 b) { return {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z)}; } \
  GPUSIM_INLINE V##4 name(V##4 a, V##4 b) { return {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)}; }
#define GPUSIM_VECTORS(V, T)                                                                    \
  GPUSIM_VECTOR_OPERATOR(V, T, +)                                                               \
  GPUSIM_VECTOR_OPERATOR(V, T, -)                                                               \
  GPUSIM_VECTOR_OPERATOR(V, T, *)                                                               \
  GPUSIM_VECTOR_FUNCTION_2(V, min, min)                                                         \
  GPUSIM_VECTOR_FUNCTION_2(V, max, max)                                                         \
  GPUSIM_INLINE T clamp(T x, T a, T b) { return max(a, min(x, b)); }                            \
  GPUSIM_INLINE V##2 clamp(V##2 x, V##2 a, V##2 b) { return max(a, min(x, b)); }                \
  GPUSIM_INLINE V##3 clamp(V##3 x, V##3 a, V##3 b) { return max(a, min(x, b)); }                \
  GPUSIM_INLINE V##4 clamp(V##4 x, V##4 a, V##4 b) { return max(a, min(x, b)); }                \
  GPUSIM_INLINE V##2 clamp(V##2 x, T a, T b) { return {clamp(x.x, a, b), clamp(x.y, a, b)}; }   \
  GPUSIM_INLINE V##3 clamp(V##3 x, T a, T b) {                                                  \
    return {clamp(x.x, a, b), clamp(x.y, a, b), clamp(x.z, a, b)};                              \
  }                                                                                             \
  GPUSIM_INLINE V##4 clamp(V##4 x, T a, T b) {                                                  \
    return {clamp(x.x, a, b), clamp(x.y, a, b), clamp(x.z, a, b), clamp(x.w, a, b)};            \
  }                                                                                             \
  GPUSIM_INLINE T dot(V##2 a, V##2 b) { return a.x * b.x + a.y * b.y; }                         \
  GPUSIM_INLINE T dot(V##3 a, V##3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }             \
  GPUSIM_INLINE T dot(V##4 a, V##4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; } \
  GPUSIM_INLINE V##2 make_##V##2(T s) { return {s, s}; }                                        \
  GPUSIM_INLINE V##2 make_##V##2(V##3 a) { return {a.x, a.y}; }                                 \
  GPUSIM_INLINE V##2 make_##V##2(V##4 a) { return {a.x, a.y}; }                                 \
  GPUSIM_INLINE V##3 make_##V##3(T s) { return {s, s, s}; }                                     \
  GPUSIM_INLINE V##3 make_##V##3(V##2 a) { return {a.x, a.y, T(0)}; }                           \
  GPUSIM_INLINE V##3 make_##V##3(V##2 a, T s) { return {a.x, a.y, s}; }                         \
  GPUSIM_INLINE V##3 make_##V##3(V##4 a) { return {a.x, a.y, a.z}; }                            \
  GPUSIM_INLINE V##4 make_##V##4(T s) { return {s, s, s, s}; }                                  \
  GPUSIM_INLINE V##4 make_##V##4(V##3 a) { return {a.x, a.y, a.z, T(0)}; }                      \
  GPUSIM_INLINE V##4 make_##V##4(V##3 a, T w) { return {a.x, a.y, a.z, w}; }
GPUSIM_VECTORS(float, float)
GPUSIM_VECTORS(int, int)
GPUSIM_VECTORS(uint, unsigned)
#undef GPUSIM_VECTORS
GPUSIM_VECTOR_OPERATOR(float, float, /)

#define GPUSIM_VECTOR_SIGNED(V)                                       \
  GPUSIM_INLINE V##2 operator-(V##2 a) { return {-a.x, -a.y}; }       \
  GPUSIM_INLINE V##3 operator-(V##3 a) { return {-a.x, -a.y, -a.z}; } \
  GPUSIM_INLINE V##4 operator-(V##4 a) { return {-a.x, -a.y, -a.z, -a.w}; }
GPUSIM_VECTOR_SIGNED(float)
GPUSIM_VECTOR_SIGNED(int)
#undef GPUSIM_VECTOR_SIGNED

#define GPUSIM_VECTOR_CAST(To, T, From)                                            \
  GPUSIM_INLINE To##2 make_##To##2(From##2 a) { return {T(a.x), T(a.y)}; }         \
  GPUSIM_INLINE To##3 make_##To##3(From##3 a) { return {T(a.x), T(a.y), T(a.z)}; } \
  GPUSIM_INLINE To##4 make_##To##4(From##4 a) { return {T(a.x), T(a.y), T(a.z), T(a.w)}; }
GPUSIM_VECTOR_CAST(float, float, int)
GPUSIM_VECTOR_CAST(float, float, uint)
GPUSIM_VECTOR_CAST(int, int, float)
GPUSIM_VECTOR_CAST(int, int, uint)
GPUSIM_VECTOR_CAST(uint, unsigned, int)
#undef GPUSIM_VECTOR_CAST

GPUSIM_INLINE float fracf(float x) { return x - floorf(x); }
GPUSIM_INLINE float frac(float x) { return fracf(x); }
GPUSIM_VECTOR_FUNCTION_1(float, floorf, ::floorf)
GPUSIM_VECTOR_FUNCTION_1(float, frac, fracf)
GPUSIM_VECTOR_FUNCTION_1(float, fabs, fabsf)
GPUSIM_VECTOR_FUNCTION_1(int, abs, ::abs)
GPUSIM_VECTOR_FUNCTION_2(float, fminf, ::fminf)
GPUSIM_VECTOR_FUNCTION_2(float, fmaxf, ::fmaxf)
GPUSIM_VECTOR_FUNCTION_2(float, fmodf, ::fmodf)
#undef GPUSIM_VECTOR_FUNCTION_1
#undef GPUSIM_VECTOR_FUNCTION_2
#undef GPUSIM_VECTOR_OPERATOR

#if __cplusplus < 202002L  // <math.h> has it since
GPUSIM_INLINE float lerp(float a, float b, float t) { return a + t * (b - a); }
#endif
GPUSIM_INLINE float smoothstep(float a, float b, float x) {
  const float y = clamp((x - a) / (b - a), 0.0f, 1.0f);
  return y * y * (3.0f - 2.0f * y);
}
#define GPUSIM_GEOMETRY(V)                                            \
  GPUSIM_INLINE V lerp(V a, V b, float t) { return a + t * (b - a); } \
  GPUSIM_INLINE float length(V v) { return sqrtf(dot(v, v)); }        \
  GPUSIM_INLINE V normalize(V v) { return v * rsqrtf(dot(v, v)); }    \
  GPUSIM_INLINE V smoothstep(V a, V b, V x) {                         \
    const V y = clamp((x - a) / (b - a), 0.0f, 1.0f);                 \
    return y * y * (3.0f - 2.0f * y);                                 \
  }
GPUSIM_GEOMETRY(float2)
GPUSIM_GEOMETRY(float3)
GPUSIM_GEOMETRY(float4)
#undef GPUSIM_GEOMETRY
GPUSIM_INLINE float3 reflect(float3 i, float3 n) { return i - 2.0f * n * dot(n, i); }
GPUSIM_INLINE float3 cross(float3 a, float3 b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
