/// @file
/// The simulator's `<cuda_fp8.h>`: e4m3, of 1 + 4 + 3 bits, and e5m2, of 1 + 5 + 2 bits, with the names and
/// the results of CUDA's. e4m3 has no infinity, and one NaN of each sign. Missing: e8m0.
#pragma once

#include "cuda_bf16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;

/// What becomes of numbers that are too large: NaN or infinity, or the largest one.
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace gpusim::float16 {

/// As a format for narrow(), whose infinity is NaN here: numbers from 464 on, the middle between the largest
/// number and the next one, become at least that.
struct E4M3 {
  static constexpr int kFractionBits = 3;
  static constexpr int kMaxExponent = 8;
  static constexpr int kMinExponent = -6;
  static constexpr std::uint16_t kInfinity = 0x7f;
  static constexpr int kLargest = 0x7e, kTooLarge = 0x7f;

  static GPUSIM_INLINE float widen(std::uint8_t bits) {
    const std::uint32_t magnitude = bits & 0x7f;
    if (magnitude == kInfinity) return __builtin_bit_cast(float, 0x7fffffffu);
    return __builtin_bit_cast(float, std::uint32_t(bits & 0x80) << 24 | magnitude << 20) * 0x1p120f;
  }
};

/// The upper half of a binary16.
struct E5M2 {
  static constexpr int kFractionBits = 2;
  static constexpr int kMaxExponent = 15;
  static constexpr int kMinExponent = -14;
  static constexpr std::uint16_t kInfinity = 0x7c;
  static constexpr int kLargest = 0x7b, kTooLarge = 0x7c;

  static GPUSIM_INLINE float widen(std::uint8_t bits) { return Binary16::widen(std::uint16_t(bits << 8)); }
};

template <class Format>
GPUSIM_INLINE std::uint8_t narrow_to_8(double x, bool saturate) {
  if (x != x) return 0x7f;
  const std::uint16_t bits = narrow<Format>(x);
  const int magnitude = bits & 0x7fff, most = saturate ? Format::kLargest : Format::kTooLarge;
  return std::uint8_t(bits >> 8 | (magnitude < most ? magnitude : most));
}

}  // namespace gpusim::float16

GPUSIM_INLINE __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
                                                        __nv_fp8_interpretation_t as) {
  return as == __NV_E4M3 ? gpusim::float16::narrow_to_8<gpusim::float16::E4M3>(x, saturate == __NV_SATFINITE)
                         : gpusim::float16::narrow_to_8<gpusim::float16::E5M2>(x, saturate == __NV_SATFINITE);
}
GPUSIM_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                       __nv_fp8_interpretation_t as) {
  return __nv_cvt_double_to_fp8(x, saturate, as);
}
GPUSIM_INLINE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate,
                                                         __nv_fp8_interpretation_t as) {
  return __nv_cvt_double_to_fp8(float(__half(x)), saturate, as);
}
GPUSIM_INLINE __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate,
                                                             __nv_fp8_interpretation_t as) {
  return __nv_cvt_double_to_fp8(float(__nv_bfloat16(x)), saturate, as);
}
#define GPUSIM_PAIR_TO_FP8(from, type)                                                                   \
  GPUSIM_INLINE __nv_fp8x2_storage_t __nv_cvt_##from##_to_fp8x2(type x, __nv_saturation_t saturate,      \
                                                                __nv_fp8_interpretation_t as) {          \
    return __nv_fp8x2_storage_t(__nv_cvt_double_to_fp8(gpusim::float16::high_of(x), saturate, as) << 8 | \
                                __nv_cvt_double_to_fp8(gpusim::float16::low_of(x), saturate, as));       \
  }
namespace gpusim::float16 {
GPUSIM_INLINE double low_of(float2 x) { return x.x; }
GPUSIM_INLINE double high_of(float2 x) { return x.y; }
GPUSIM_INLINE double low_of(double2 x) { return x.x; }
GPUSIM_INLINE double high_of(double2 x) { return x.y; }
GPUSIM_INLINE double low_of(__half2_raw x) { return Binary16::widen(x.x); }
GPUSIM_INLINE double high_of(__half2_raw x) { return Binary16::widen(x.y); }
GPUSIM_INLINE double low_of(__nv_bfloat162_raw x) { return BFloat16::widen(x.x); }
GPUSIM_INLINE double high_of(__nv_bfloat162_raw x) { return BFloat16::widen(x.y); }
}  // namespace gpusim::float16
GPUSIM_PAIR_TO_FP8(float2, float2)
GPUSIM_PAIR_TO_FP8(double2, double2)
GPUSIM_PAIR_TO_FP8(halfraw2, __half2_raw)
GPUSIM_PAIR_TO_FP8(bfloat16raw2, __nv_bfloat162_raw)
#undef GPUSIM_PAIR_TO_FP8

namespace gpusim::float16 {
GPUSIM_INLINE float widen_8(std::uint8_t x, __nv_fp8_interpretation_t as) {
  return as == __NV_E4M3 ? E4M3::widen(x) : E5M2::widen(x);
}
}  // namespace gpusim::float16

GPUSIM_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t as) {
  return __half(gpusim::float16::widen_8(x, as));
}
GPUSIM_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t as) {
  return {__nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t(x), as).x,
          __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t(x >> 8), as).x};
}

// One, two and four of a format, the first in the low bits.

#define GPUSIM_FP8(name, As)                                                                                 \
  struct __nv_fp8_##name {                                                                                   \
    __nv_fp8_storage_t __x;                                                                                  \
                                                                                                             \
    __nv_fp8_##name() = default;                                                                             \
    GPUSIM_INLINE explicit __nv_fp8_##name(double x) : __x(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, As)) {} \
    GPUSIM_INLINE explicit __nv_fp8_##name(float x) : __nv_fp8_##name(double(x)) {}                          \
    GPUSIM_INLINE explicit __nv_fp8_##name(__half x) : __nv_fp8_##name(double(float(x))) {}                  \
    GPUSIM_INLINE explicit __nv_fp8_##name(__nv_bfloat16 x) : __nv_fp8_##name(double(float(x))) {}           \
    template <gpusim::Integral T>                                                                            \
    GPUSIM_INLINE explicit __nv_fp8_##name(T x) : __nv_fp8_##name(gpusim::float16::from_integer(x)) {}       \
    GPUSIM_INLINE explicit operator float() const { return gpusim::float16::widen_8(__x, As); }              \
    GPUSIM_INLINE explicit operator double() const { return float(*this); }                                  \
    GPUSIM_INLINE explicit operator __half() const { return __half(float(*this)); }                          \
    GPUSIM_INLINE explicit operator __nv_bfloat16() const { return __nv_bfloat16(float(*this)); }            \
    GPUSIM_INLINE explicit operator bool() const { return (__x & 0x7f) != 0; }                               \
    template <gpusim::Integral T>                                                                            \
    GPUSIM_INLINE explicit operator T() const {                                                              \
      return gpusim::float16::to_integer<T>(float(*this));                                                   \
    }                                                                                                        \
  };                                                                                                         \
  struct alignas(2) __nv_fp8x2_##name {                                                                      \
    __nv_fp8x2_storage_t __x;                                                                                \
                                                                                                             \
    __nv_fp8x2_##name() = default;                                                                           \
    GPUSIM_INLINE explicit __nv_fp8x2_##name(float2 x)                                                       \
        : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, As)) {}                                            \
    GPUSIM_INLINE explicit __nv_fp8x2_##name(double2 x)                                                      \
        : __x(__nv_cvt_double2_to_fp8x2(x, __NV_SATFINITE, As)) {}                                           \
    GPUSIM_INLINE explicit __nv_fp8x2_##name(__half2 x) : __nv_fp8x2_##name(__half22float2(x)) {}            \
    GPUSIM_INLINE explicit __nv_fp8x2_##name(__nv_bfloat162 x) : __nv_fp8x2_##name(__bfloat1622float2(x)) {} \
    GPUSIM_INLINE explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, As); }          \
    GPUSIM_INLINE explicit operator float2() const { return __half22float2(__half2(*this)); }                \
  };                                                                                                         \
  struct alignas(4) __nv_fp8x4_##name {                                                                      \
    __nv_fp8x4_storage_t __x;                                                                                \
                                                                                                             \
    __nv_fp8x4_##name() = default;                                                                           \
    GPUSIM_INLINE explicit __nv_fp8x4_##name(float4 x)                                                       \
        : __x(std::uint32_t(__nv_fp8x2_##name(float2{x.z, x.w}).__x) << 16 |                                 \
              __nv_fp8x2_##name(float2{x.x, x.y}).__x) {}                                                    \
    GPUSIM_INLINE explicit __nv_fp8x4_##name(double4 x)                                                      \
        : __x(std::uint32_t(__nv_fp8x2_##name(double2{x.z, x.w}).__x) << 16 |                                \
              __nv_fp8x2_##name(double2{x.x, x.y}).__x) {}                                                   \
    GPUSIM_INLINE explicit __nv_fp8x4_##name(__half2 low, __half2 high)                                      \
        : __x(std::uint32_t(__nv_fp8x2_##name(high).__x) << 16 | __nv_fp8x2_##name(low).__x) {}              \
    GPUSIM_INLINE explicit __nv_fp8x4_##name(__nv_bfloat162 low, __nv_bfloat162 high)                        \
        : __x(std::uint32_t(__nv_fp8x2_##name(high).__x) << 16 | __nv_fp8x2_##name(low).__x) {}              \
    GPUSIM_INLINE explicit operator float4() const {                                                         \
      const auto at = [this](int i) { return gpusim::float16::widen_8(std::uint8_t(__x >> 8 * i), As); };    \
      return {at(0), at(1), at(2), at(3)};                                                                   \
    }                                                                                                        \
  };
GPUSIM_FP8(e4m3, __NV_E4M3)
GPUSIM_FP8(e5m2, __NV_E5M2)
#undef GPUSIM_FP8
