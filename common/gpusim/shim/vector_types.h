/// @file
/// float2, int4, ... with CUDA's names, sizes and alignments.
#pragma once

#include <cstddef>

#ifndef GPUSIM_INLINE
/// Everything a kernel calls is inlined: the compiler's hooks miss struct operands of real calls.
#define GPUSIM_INLINE inline __attribute__((always_inline))
#endif

#define GPUSIM_VECTORS(type, name, align2, align4)                                   \
  struct name##1 {                                                                   \
    type x;                                                                          \
  };                                                                                 \
  struct alignas(align2) name##2 {                                                   \
    type x, y;                                                                       \
  };                                                                                 \
  struct name##3 {                                                                   \
    type x, y, z;                                                                    \
  };                                                                                 \
  struct alignas(align4) name##4 {                                                   \
    type x, y, z, w;                                                                 \
  };                                                                                 \
  GPUSIM_INLINE name##1 make_##name##1(type x) { return {x}; }                       \
  GPUSIM_INLINE name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  GPUSIM_INLINE name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  GPUSIM_INLINE name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

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

/// Extent of a grid or a block.
struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
