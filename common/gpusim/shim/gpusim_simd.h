/// @file
/// Arithmetic on the bytes or the halves of a word: CUDA's SIMD functions, and those for dynamic programming.
/// Part of <math_functions.h>.
#pragma once

#include <cstdint>
#include <limits>

#include "vector_types.h"

namespace gpusim::device {

/// f(a, b) of each element of type T, as a long long. The result keeps its low bits.
template <class T, class F>
GPUSIM_INLINE unsigned each_element(unsigned a, unsigned b, F f) {
  constexpr int kBits = 8 * int(sizeof(T));
  constexpr unsigned kMask = (1u << kBits) - 1;
  unsigned result = 0;
  for (int i = 0; i < 32; i += kBits)
    result |= (unsigned(f((long long)T(a >> i), (long long)T(b >> i))) & kMask) << i;
  return result;
}
template <class T>
GPUSIM_INLINE long long saturated(long long x) {
  constexpr long long kMin = std::numeric_limits<T>::min(), kMax = std::numeric_limits<T>::max();
  return x < kMin ? kMin : x > kMax ? kMax : x;
}
template <class T>
GPUSIM_INLINE unsigned sum_of_differences(unsigned a, unsigned b) {
  unsigned sum = 0;
  for (int i = 0; i < 32; i += 8 * int(sizeof(T))) {
    const long long d = (long long)T(a >> i) - (long long)T(b >> i);
    sum += unsigned(d < 0 ? -d : d);
  }
  return sum;
}

}  // namespace gpusim::device

#define GPUSIM_SIMD_1(name, T, expression)                                                                  \
  GPUSIM_INLINE unsigned name(unsigned a) {                                                                 \
    return gpusim::device::each_element<T>(a, 0,                                                            \
                                           [](long long x, long long) { return (long long)(expression); }); \
  }
#define GPUSIM_SIMD_2(name, T, expression)                                       \
  GPUSIM_INLINE unsigned name(unsigned a, unsigned b) {                          \
    return gpusim::device::each_element<T>(                                      \
        a, b, [](long long x, long long y) { return (long long)(expression); }); \
  }
#define GPUSIM_COMPARE(suffix, n, T, comparison)               \
  GPUSIM_SIMD_2(__vcmp##suffix##n, T, x comparison y ? -1 : 0) \
  GPUSIM_SIMD_2(__vset##suffix##n, T, x comparison y ? 1 : 0)
#define GPUSIM_SIMD(n, S, U)                                                  \
  GPUSIM_SIMD_1(__vabs##n, S, x < 0 ? -x : x)                                 \
  GPUSIM_SIMD_1(__vabsss##n, S, gpusim::device::saturated<S>(x < 0 ? -x : x)) \
  GPUSIM_SIMD_1(__vneg##n, S, -x)                                             \
  GPUSIM_SIMD_1(__vnegss##n, S, gpusim::device::saturated<S>(-x))             \
  GPUSIM_SIMD_2(__vadd##n, U, x + y)                                          \
  GPUSIM_SIMD_2(__vaddss##n, S, gpusim::device::saturated<S>(x + y))          \
  GPUSIM_SIMD_2(__vaddus##n, U, gpusim::device::saturated<U>(x + y))          \
  GPUSIM_SIMD_2(__vsub##n, U, x - y)                                          \
  GPUSIM_SIMD_2(__vsubss##n, S, gpusim::device::saturated<S>(x - y))          \
  GPUSIM_SIMD_2(__vsubus##n, U, gpusim::device::saturated<U>(x - y))          \
  GPUSIM_SIMD_2(__vavgs##n, S, (x + y + (x + y >= 0)) >> 1)                   \
  GPUSIM_SIMD_2(__vavgu##n, U, (x + y + 1) >> 1)                              \
  GPUSIM_SIMD_2(__vhaddu##n, U, (x + y) >> 1)                                 \
  GPUSIM_SIMD_2(__vabsdiffs##n, S, x > y ? x - y : y - x)                     \
  GPUSIM_SIMD_2(__vabsdiffu##n, U, x > y ? x - y : y - x)                     \
  GPUSIM_SIMD_2(__vmaxs##n, S, x > y ? x : y)                                 \
  GPUSIM_SIMD_2(__vmaxu##n, U, x > y ? x : y)                                 \
  GPUSIM_SIMD_2(__vmins##n, S, x < y ? x : y)                                 \
  GPUSIM_SIMD_2(__vminu##n, U, x < y ? x : y)                                 \
  GPUSIM_COMPARE(eq, n, U, ==)                                                \
  GPUSIM_COMPARE(ne, n, U, !=)                                                \
  GPUSIM_COMPARE(ges, n, S, >=)                                               \
  GPUSIM_COMPARE(geu, n, U, >=)                                               \
  GPUSIM_COMPARE(gts, n, S, >)                                                \
  GPUSIM_COMPARE(gtu, n, U, >)                                                \
  GPUSIM_COMPARE(les, n, S, <=)                                               \
  GPUSIM_COMPARE(leu, n, U, <=)                                               \
  GPUSIM_COMPARE(lts, n, S, <)                                                \
  GPUSIM_COMPARE(ltu, n, U, <)                                                \
  GPUSIM_INLINE unsigned __vsads##n(unsigned a, unsigned b) {                 \
    return gpusim::device::sum_of_differences<S>(a, b);                       \
  }                                                                           \
  GPUSIM_INLINE unsigned __vsadu##n(unsigned a, unsigned b) {                 \
    return gpusim::device::sum_of_differences<U>(a, b);                       \
  }
GPUSIM_SIMD(2, std::int16_t, std::uint16_t)
GPUSIM_SIMD(4, std::int8_t, std::uint8_t)
#undef GPUSIM_SIMD
#undef GPUSIM_COMPARE
#undef GPUSIM_SIMD_2
#undef GPUSIM_SIMD_1

// ---- dynamic programming: a sum, then a maximum or minimum, then possibly at least 0 -------------------

#define GPUSIM_DPX(suffix, T, is_larger)                                                                   \
  GPUSIM_INLINE T __vimax_##suffix(T a, T b) { return a is_larger b ? a : b; }                             \
  GPUSIM_INLINE T __vimin_##suffix(T a, T b) { return b is_larger a ? a : b; }                             \
  GPUSIM_INLINE T __vimax3_##suffix(T a, T b, T c) { return __vimax_##suffix(__vimax_##suffix(a, b), c); } \
  GPUSIM_INLINE T __vimin3_##suffix(T a, T b, T c) { return __vimin_##suffix(__vimin_##suffix(a, b), c); } \
  GPUSIM_INLINE T __viaddmax_##suffix(T a, T b, T c) {                                                     \
    return __vimax_##suffix(T(unsigned(a) + unsigned(b)), c);                                              \
  }                                                                                                        \
  GPUSIM_INLINE T __viaddmin_##suffix(T a, T b, T c) {                                                     \
    return __vimin_##suffix(T(unsigned(a) + unsigned(b)), c);                                              \
  }                                                                                                        \
  /** @param is_first  whether the result is a */                                                          \
  GPUSIM_INLINE T __vibmax_##suffix(T a, T b, bool* is_first) {                                            \
    *is_first = !(b is_larger a);                                                                          \
    return __vimax_##suffix(a, b);                                                                         \
  }                                                                                                        \
  GPUSIM_INLINE T __vibmin_##suffix(T a, T b, bool* is_first) {                                            \
    *is_first = !(a is_larger b);                                                                          \
    return __vimin_##suffix(a, b);                                                                         \
  }
GPUSIM_DPX(s32, int, >)
GPUSIM_DPX(u32, unsigned, >)
#undef GPUSIM_DPX
#define GPUSIM_DPX_RELU(name) \
  GPUSIM_INLINE int name##_s32_relu(int a, int b, int c) { return __vimax_s32(name##_s32(a, b, c), 0); }
GPUSIM_DPX_RELU(__vimax3)
GPUSIM_DPX_RELU(__vimin3)
GPUSIM_DPX_RELU(__viaddmax)
GPUSIM_DPX_RELU(__viaddmin)
#undef GPUSIM_DPX_RELU
GPUSIM_INLINE int __vimax_s32_relu(int a, int b) { return __vimax3_s32(a, b, 0); }
GPUSIM_INLINE int __vimin_s32_relu(int a, int b) { return __vimax_s32(__vimin_s32(a, b), 0); }

#define GPUSIM_DPX_HALVES(name, expression)                                                          \
  GPUSIM_INLINE unsigned name##_s16x2(unsigned a, unsigned b, unsigned c) { return expression(s2); } \
  GPUSIM_INLINE unsigned name##_s16x2_relu(unsigned a, unsigned b, unsigned c) {                     \
    return __vmaxs2(expression(s2), 0u);                                                             \
  }                                                                                                  \
  GPUSIM_INLINE unsigned name##_u16x2(unsigned a, unsigned b, unsigned c) { return expression(u2); }
#define GPUSIM_MAX3(suffix) __vmax##suffix(__vmax##suffix(a, b), c)
#define GPUSIM_MIN3(suffix) __vmin##suffix(__vmin##suffix(a, b), c)
#define GPUSIM_ADD_MAX(suffix) __vmax##suffix(__vadd2(a, b), c)
#define GPUSIM_ADD_MIN(suffix) __vmin##suffix(__vadd2(a, b), c)
GPUSIM_DPX_HALVES(__vimax3, GPUSIM_MAX3)
GPUSIM_DPX_HALVES(__vimin3, GPUSIM_MIN3)
GPUSIM_DPX_HALVES(__viaddmax, GPUSIM_ADD_MAX)
GPUSIM_DPX_HALVES(__viaddmin, GPUSIM_ADD_MIN)
#undef GPUSIM_ADD_MIN
#undef GPUSIM_ADD_MAX
#undef GPUSIM_MIN3
#undef GPUSIM_MAX3
#undef GPUSIM_DPX_HALVES
GPUSIM_INLINE unsigned __vimax_s16x2_relu(unsigned a, unsigned b) { return __vmaxs2(__vmaxs2(a, b), 0u); }
GPUSIM_INLINE unsigned __vimin_s16x2_relu(unsigned a, unsigned b) { return __vmaxs2(__vmins2(a, b), 0u); }
