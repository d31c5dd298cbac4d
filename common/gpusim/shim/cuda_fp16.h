/// @file
/// The simulator's `<cuda_fp16.h>`: __half and __half2 with the names and the results of CUDA's.
///
/// A result is the exact one rounded once, to nearest, ties to even; subnormals are kept; a NaN result is
/// CUDA's canonical 0x7fff. The one deliberate difference: `a * b + c` rounds twice here, whereas nvcc may
/// contract it to one rounding.
///
/// Everything is always inlined: the memory hooks see a struct that is read or written by the kernel's own
/// code, not one that is an operand of a call.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "gpusim_bits.h"
#include "vector_types.h"

/// The operations that the 16-bit formats share: plain functions on bit patterns.
namespace gpusim::float16 {

inline constexpr std::uint16_t kSign = 0x8000;
inline constexpr std::uint16_t kNaN = 0x7fff;  ///< CUDA's canonical NaN, the same pattern in both formats

/// IEEE 754 binary16: 1 + 5 + 10 bits.
struct Binary16 {
  static constexpr int kFractionBits = 10;
  static constexpr int kMaxExponent = 15;
  static constexpr int kMinExponent = 1 - kMaxExponent;  ///< of numbers that are not subnormal
  static constexpr std::uint16_t kInfinity = 0x7c00;

  static GPUSIM_INLINE float widen(std::uint16_t bits) {
    const auto magnitude = std::uint32_t(bits & ~kSign);
    if (magnitude > kInfinity) return __builtin_bit_cast(float, 0x7fffffffu);
    const std::uint32_t sign = std::uint32_t(bits & kSign) << 16;
    if (magnitude == kInfinity) return __builtin_bit_cast(float, sign | 0x7f800000u);
    // Moves the fields to their places in a float; 2^112 compensates for the different exponent biases.
    return __builtin_bit_cast(float, sign | magnitude << 13) * 0x1p112f;
  }
};

/// The upper half of an IEEE 754 binary32: 1 + 8 + 7 bits.
struct BFloat16 {
  static constexpr int kFractionBits = 7;
  static constexpr int kMaxExponent = 127;
  static constexpr int kMinExponent = 1 - kMaxExponent;
  static constexpr std::uint16_t kInfinity = 0x7f80;

  static GPUSIM_INLINE float widen(std::uint16_t bits) {
    return __builtin_bit_cast(float, std::uint32_t(bits) << 16);
  }
};

/// The nearest value of the format, ties to even. Every float is a double, so this rounds floats as well.
template <class Format>
GPUSIM_INLINE std::uint16_t narrow(double value) {
  constexpr std::uint64_t kImplicitOne = std::uint64_t(1) << 52;
  constexpr int kMinExponent = Format::kMinExponent;
  const auto bits = __builtin_bit_cast(std::uint64_t, value);
  const auto sign = std::uint16_t(bits >> 48 & kSign);
  const std::uint64_t magnitude = bits << 1 >> 1;
  if (magnitude > 0x7ff0000000000000) return kNaN;
  const int exponent = int(magnitude >> 52) - 1023;
  if (exponent > Format::kMaxExponent) return std::uint16_t(sign | Format::kInfinity);

  const int below_normal = exponent < kMinExponent ? kMinExponent - exponent : 0;
  const int dropped = 52 - Format::kFractionBits + below_normal;  // bits of the significand to round away
  if (dropped > 53) return sign;                                  // less than half the smallest subnormal
  const std::uint64_t significand = (magnitude & (kImplicitOne - 1)) | kImplicitOne;
  const std::uint64_t odd = significand >> dropped & 1;
  const std::uint64_t rounded = (significand + (std::uint64_t(1) << (dropped - 1)) - 1 + odd) >> dropped;
  // `rounded` holds the implicit one at the place of the exponent, so it counts as one exponent step. A carry
  // out of the fraction is another, and the last step leads to infinity.
  const int steps = below_normal > 0 ? 0 : exponent - kMinExponent;
  return std::uint16_t(sign | ((std::uint64_t(steps) << Format::kFractionBits) + rounded));
}

/// The exact a * b + c, rounded once. The arguments are values of the format.
template <class Format>
GPUSIM_INLINE std::uint16_t fused_multiply_add(double a, double b, double c) {
  const double product = a * b;  // exact: at most 22 bits
  double sum = product + c;
  // What the addition rounded away (Knuth's TwoSum). If that is not 0, make the last bit of the sum odd: then
  // it is never a tie that the exact sum is not, and rounding it to the format is rounding the exact sum.
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  if (error > 0 || error < 0) {
    auto bits = __builtin_bit_cast(std::uint64_t, sum);
    if ((bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
    sum = __builtin_bit_cast(double, bits);
  }
  return narrow<Format>(sum);
}

/// An integer as a double that rounds to 16 bits as the integer does: beyond 2^53, one bit represents all
/// that a double cannot hold.
template <gpusim::Integral T>
GPUSIM_INLINE double from_integer(T value) {
  if constexpr (sizeof(T) < 8) {
    return double(value);
  } else {
    const bool negative = double(value) < 0;
    std::uint64_t magnitude = negative ? 0 - std::uint64_t(value) : std::uint64_t(value);
    if (magnitude >> 53 != 0) {
      const std::uint64_t lost = magnitude & 0xfff;
      magnitude = magnitude - lost + (lost != 0 && (magnitude & 0x1000) == 0 ? 0x1000 : 0);
    }
    return negative ? -double(magnitude) : double(magnitude);
  }
}

/// Towards zero; values out of range become the nearest integer of the type. NaN is 0, or 2^63 in 64 bits.
template <gpusim::Integral T>
GPUSIM_INLINE T to_integer(float value) {
  constexpr T kMin = std::numeric_limits<T>::min();
  constexpr T kMax = std::numeric_limits<T>::max();
  if (value != value) return sizeof(T) < 8 ? T(0) : T(std::uint64_t(1) << 63);
  if (double(value) <= double(kMin)) return kMin;
  if (double(value) >= double(kMax)) return kMax;
  return T(value);
}

template <class Format>
GPUSIM_INLINE bool is_nan(std::uint16_t bits) {
  return (bits & ~kSign) > Format::kInfinity;
}

/// Orders bit patterns by value; the two zeros are equal.
GPUSIM_INLINE int rank(std::uint16_t bits) {
  const int magnitude = bits & ~kSign;
  return (bits & kSign) != 0 ? -magnitude : magnitude;
}

template <class Format>
GPUSIM_INLINE bool equal(std::uint16_t a, std::uint16_t b) {
  return !is_nan<Format>(a) && !is_nan<Format>(b) && rank(a) == rank(b);
}

template <class Format>
GPUSIM_INLINE bool less(std::uint16_t a, std::uint16_t b) {
  return !is_nan<Format>(a) && !is_nan<Format>(b) && rank(a) < rank(b);
}

/// The larger value, +0 rather than -0, a number rather than a NaN.
template <class Format>
GPUSIM_INLINE std::uint16_t larger(std::uint16_t a, std::uint16_t b) {
  if (is_nan<Format>(a)) return is_nan<Format>(b) ? kNaN : b;
  if (is_nan<Format>(b) || rank(a) > rank(b)) return a;
  return rank(a) < rank(b) ? b : std::uint16_t(a & b);  // if equal, they differ at most in the sign of 0
}

/// The smaller value, -0 rather than +0, a number rather than a NaN.
template <class Format>
GPUSIM_INLINE std::uint16_t smaller(std::uint16_t a, std::uint16_t b) {
  if (is_nan<Format>(a)) return is_nan<Format>(b) ? kNaN : b;
  if (is_nan<Format>(b) || rank(a) < rank(b)) return a;
  return rank(a) > rank(b) ? b : std::uint16_t(a | b);
}

}  // namespace gpusim::float16

#include "gpusim_float16_conversions.h"

struct __nv_bfloat16;

/// Their bits alone.
struct alignas(2) __half_raw {
  unsigned short x;
};
struct alignas(4) __half2_raw {
  unsigned short x, y;
};

/// IEEE half precision. Conversions from and to numbers are implicit, as in CUDA.
struct alignas(2) __half {
  using gpusim_float16 = void;  ///< for atomicAdd()
  __half() = default;
  GPUSIM_INLINE __half(float value) : __half(double(value)) {}
  GPUSIM_INLINE __half(double value) : bits_(gpusim::float16::narrow<gpusim::float16::Binary16>(value)) {}
  template <gpusim::Integral T>
  GPUSIM_INLINE __half(T value) : __half(gpusim::float16::from_integer(value)) {}
  explicit __half(__nv_bfloat16 value);  // in cuda_bf16.h
  GPUSIM_INLINE __half(const __half_raw& raw) : bits_(raw.x) {}
  GPUSIM_INLINE operator __half_raw() const { return {bits_}; }

  GPUSIM_INLINE operator float() const { return gpusim::float16::Binary16::widen(bits_); }
  GPUSIM_INLINE operator bool() const { return (bits_ & 0x7fff) != 0; }
  template <gpusim::Integral T>
  GPUSIM_INLINE operator T() const {
    return gpusim::float16::to_integer<T>(float(*this));
  }

 private:
  std::uint16_t bits_;
};

/// Two halves in one 32-bit register or word, x in the low bits.
struct alignas(4) __half2 {
  using gpusim_float16 = void;
  __half x;
  __half y;

  __half2() = default;
  GPUSIM_INLINE __half2(const __half& low, const __half& high) : x(low), y(high) {}
  GPUSIM_INLINE __half2(__half2_raw raw) : x(__half_raw{raw.x}), y(__half_raw{raw.y}) {}
  GPUSIM_INLINE operator __half2_raw() const { return {__half_raw(x).x, __half_raw(y).x}; }
};

using half = __half;
using half2 = __half2;

// Bit patterns.

GPUSIM_INLINE unsigned short __half_as_ushort(__half a) { return __builtin_bit_cast(unsigned short, a); }
GPUSIM_INLINE short __half_as_short(__half a) { return __builtin_bit_cast(short, a); }
GPUSIM_INLINE __half __ushort_as_half(unsigned short bits) { return __builtin_bit_cast(__half, bits); }
GPUSIM_INLINE __half __short_as_half(short bits) { return __builtin_bit_cast(__half, bits); }

#define CUDART_ZERO_FP16 __ushort_as_half(0x0000)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half(0x8000)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bff)
#define CUDART_INF_FP16 __ushort_as_half(0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fff)

// Conversions.

GPUSIM_INLINE __half __float2half(float a) { return __half(a); }
GPUSIM_INLINE __half __float2half_rn(float a) { return __half(a); }
GPUSIM_INLINE __half __double2half(double a) { return __half(a); }
GPUSIM_INLINE float __half2float(__half a) { return float(a); }
GPUSIM_CONVERSIONS(half, __half, gpusim::float16::Binary16)

// Pairs: construction, access to the halves, conversion.

GPUSIM_INLINE __half2 make_half2(__half x, __half y) { return __half2(x, y); }
GPUSIM_INLINE __half2 __halves2half2(__half low, __half high) { return __half2(low, high); }
GPUSIM_INLINE __half2 __half2half2(__half a) { return __half2(a, a); }
GPUSIM_INLINE __half __low2half(__half2 a) { return a.x; }
GPUSIM_INLINE __half __high2half(__half2 a) { return a.y; }
GPUSIM_INLINE __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
GPUSIM_INLINE __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
GPUSIM_INLINE __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
GPUSIM_INLINE __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
GPUSIM_INLINE __half2 __lowhigh2highlow(__half2 a) { return __half2(a.y, a.x); }

GPUSIM_INLINE __half2 __float2half2_rn(float a) { return __half2(__half(a), __half(a)); }
GPUSIM_INLINE __half2 __floats2half2_rn(float low, float high) { return __half2(__half(low), __half(high)); }
GPUSIM_INLINE __half2 __float22half2_rn(float2 a) { return __half2(__half(a.x), __half(a.y)); }
GPUSIM_INLINE float2 __half22float2(__half2 a) { return float2{float(a.x), float(a.y)}; }
GPUSIM_INLINE float __low2float(__half2 a) { return float(a.x); }
GPUSIM_INLINE float __high2float(__half2 a) { return float(a.y); }

#define GPUSIM_HALF __half
#define GPUSIM_PAIR __half2
#define GPUSIM_FORMAT gpusim::float16::Binary16
#include "float16_operations.h"
