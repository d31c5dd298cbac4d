/// @file
/// The simulator's `<cuda_fp8.h>`: e4m3, of 1 + 4 + 3 bits, with the names and the results of CUDA's. It has
/// no infinity, and one NaN of each sign. Missing: e5m2 and e8m0, and conversions from and to integers.
#pragma once

#include "cuda_bf16.h"

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned int;

/// What becomes of numbers that are too large: NaN, or the largest one.
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3 };

namespace gpusim::float16 {

/// As a format for narrow(), whose infinity is NaN here: numbers from 464 on, the middle between the largest
/// number and the next one, become at least that.
struct E4M3 {
  static constexpr int kFractionBits = 3;
  static constexpr int kMaxExponent = 8;
  static constexpr int kMinExponent = -6;
  static constexpr std::uint16_t kInfinity = 0x7f;

  static GPUSIM_INLINE float widen(std::uint8_t bits) {
    const std::uint32_t magnitude = bits & 0x7f;
    if (magnitude == kInfinity) return __builtin_bit_cast(float, 0x7fffffffu);
    return __builtin_bit_cast(float, std::uint32_t(bits & 0x80) << 24 | magnitude << 20) * 0x1p120f;
  }
};

}  // namespace gpusim::float16

GPUSIM_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                       __nv_fp8_interpretation_t) {
  using gpusim::float16::E4M3;
  if (x != x) return 0x7f;
  const std::uint16_t bits = gpusim::float16::narrow<E4M3>(x);
  const int magnitude = bits & 0x7fff,
            most = saturate == __NV_SATFINITE ? E4M3::kInfinity - 1 : E4M3::kInfinity;
  return __nv_fp8_storage_t(bits >> 8 | (magnitude < most ? magnitude : most));
}
GPUSIM_INLINE __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturate,
                                                            __nv_fp8_interpretation_t as) {
  return __nv_fp8x2_storage_t(__nv_cvt_float_to_fp8(x.y, saturate, as) << 8 |
                              __nv_cvt_float_to_fp8(x.x, saturate, as));
}
GPUSIM_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t) {
  return __half(gpusim::float16::E4M3::widen(x));
}
GPUSIM_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t as) {
  return {__nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t(x), as).x,
          __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t(x >> 8), as).x};
}

struct __nv_fp8_e4m3 {
  __nv_fp8_storage_t __x;

  __nv_fp8_e4m3() = default;
  GPUSIM_INLINE explicit __nv_fp8_e4m3(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)) {}
  GPUSIM_INLINE explicit __nv_fp8_e4m3(__half x) : __nv_fp8_e4m3(float(x)) {}
  GPUSIM_INLINE explicit __nv_fp8_e4m3(__nv_bfloat16 x) : __nv_fp8_e4m3(float(x)) {}
  GPUSIM_INLINE explicit operator float() const { return gpusim::float16::E4M3::widen(__x); }
  GPUSIM_INLINE explicit operator __half() const { return __half(float(*this)); }
  GPUSIM_INLINE explicit operator __nv_bfloat16() const { return __nv_bfloat16(float(*this)); }
};

/// Two of them, the first in the low bits.
struct __nv_fp8x2_e4m3 {
  __nv_fp8x2_storage_t __x;

  __nv_fp8x2_e4m3() = default;
  GPUSIM_INLINE explicit __nv_fp8x2_e4m3(float2 x)
      : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, __NV_E4M3)) {}
  GPUSIM_INLINE explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, __NV_E4M3); }
  GPUSIM_INLINE explicit operator float2() const { return __half22float2(__half2(*this)); }
};

/// Four of them.
struct __nv_fp8x4_e4m3 {
  __nv_fp8x4_storage_t __x;

  __nv_fp8x4_e4m3() = default;
  GPUSIM_INLINE explicit __nv_fp8x4_e4m3(float4 x)
      : __x(std::uint32_t(__nv_fp8x2_e4m3(float2{x.z, x.w}).__x) << 16 |
            __nv_fp8x2_e4m3(float2{x.x, x.y}).__x) {}
  GPUSIM_INLINE explicit operator float4() const {
    using gpusim::float16::E4M3;
    return {E4M3::widen(std::uint8_t(__x)), E4M3::widen(std::uint8_t(__x >> 8)),
            E4M3::widen(std::uint8_t(__x >> 16)), E4M3::widen(std::uint8_t(__x >> 24))};
  }
};
