/// @file
/// float2, int4, ... with CUDA's names, sizes and alignments. Also for C.
#pragma once

#include <stddef.h>

#ifndef GPUSIM_INLINE
/// Everything a kernel calls is inlined: the compiler's hooks miss struct operands of real calls.
#ifdef __cplusplus
#define GPUSIM_INLINE inline __attribute__((always_inline))
#else
#define GPUSIM_INLINE static inline __attribute__((always_inline, unused))
#endif
#endif

#ifdef __cplusplus
#define GPUSIM_VECTOR_STRUCT(alignment, name, ...) \
  struct alignment name {                          \
    __VA_ARGS__;                                   \
  };
#define GPUSIM_ALIGNED(n) alignas(n)
#define GPUSIM_MAKE(name, ...) \
  return { __VA_ARGS__ }
#else
#define GPUSIM_VECTOR_STRUCT(alignment, name, ...) \
  typedef struct alignment name {                  \
    __VA_ARGS__;                                   \
  } name;
#define GPUSIM_ALIGNED(n) __attribute__((aligned(n)))
#define GPUSIM_MAKE(name, ...)       \
  const name result = {__VA_ARGS__}; \
  return result
#endif

#define GPUSIM_VECTORS(type, name, align2, align4)                                                \
  GPUSIM_VECTOR_STRUCT(, name##1, type x)                                                         \
  GPUSIM_VECTOR_STRUCT(GPUSIM_ALIGNED(align2), name##2, type x, y)                                \
  GPUSIM_VECTOR_STRUCT(, name##3, type x, y, z)                                                   \
  GPUSIM_VECTOR_STRUCT(GPUSIM_ALIGNED(align4), name##4, type x, y, z, w)                          \
  GPUSIM_INLINE name##1 make_##name##1(type x) { GPUSIM_MAKE(name##1, x); }                       \
  GPUSIM_INLINE name##2 make_##name##2(type x, type y) { GPUSIM_MAKE(name##2, x, y); }            \
  GPUSIM_INLINE name##3 make_##name##3(type x, type y, type z) { GPUSIM_MAKE(name##3, x, y, z); } \
  GPUSIM_INLINE name##4 make_##name##4(type x, type y, type z, type w) { GPUSIM_MAKE(name##4, x, y, z, w); }

GPUSIM_VECTORS(signed char, char, 2, 4)
GPUSIM_VECTORS(unsigned char, uchar, 2, 4)
GPUSIM_VECTORS(short, short, 4, 8)
GPUSIM_VECTORS(unsigned short, ushort, 4, 8)
GPUSIM_VECTORS(int, int, 8, 16)
GPUSIM_VECTORS(unsigned int, uint, 8, 16)
GPUSIM_VECTORS(long, long, 16, 16)
GPUSIM_VECTORS(unsigned long, ulong, 16, 16)
GPUSIM_VECTORS(long long, longlong, 16, 16)
GPUSIM_VECTORS(unsigned long long, ulonglong, 16, 16)
GPUSIM_VECTORS(float, float, 8, 16)
GPUSIM_VECTORS(double, double, 16, 16)
#undef GPUSIM_VECTORS
#undef GPUSIM_VECTOR_STRUCT
#undef GPUSIM_ALIGNED
#undef GPUSIM_MAKE

/// Extent of a grid or a block.
#ifdef __cplusplus
struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
#else
typedef struct dim3 {
  unsigned int x, y, z;
} dim3;
#endif
