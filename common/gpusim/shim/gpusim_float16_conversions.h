/// @file
/// Conversions of the 16-bit formats that round in a given direction, and those from and to integers. Part of
/// <cuda_fp16.h> and <cuda_bf16.h>.
#pragma once

namespace gpusim::float16 {

enum class Direction { kZero, kDown, kUp };

/// The next value of the format below a number, or above it, unless it is one.
template <class Format>
GPUSIM_INLINE std::uint16_t narrow_towards(double value, Direction direction) {
  const std::uint16_t nearest = narrow<Format>(value);
  const double back = Format::widen(nearest);
  const bool negative = (nearest & kSign) != 0;
  const bool down = direction == Direction::kDown || (direction == Direction::kZero && !negative);
  if (down && back > value) return std::uint16_t(negative ? nearest + 1 : nearest - 1);
  if (!down && back < value) return std::uint16_t(negative ? nearest - 1 : nearest + 1);
  return nearest;
}

/// At least 0 and at most 1; NaN becomes 0.
template <class Format>
GPUSIM_INLINE double saturate(std::uint16_t bits) {
  const double value = Format::widen(bits);
  return value > 0.0 ? (value < 1.0 ? value : 1.0) : 0.0;
}

}  // namespace gpusim::float16

/// @param word  of the functions' names: half    @param T  the type    @param F  the format
#define GPUSIM_16_BITS_FROM_INTEGER(word, T, F, name, type)                                            \
  GPUSIM_INLINE T __##name##2##word##_rn(type x) { return T(x); }                                      \
  GPUSIM_INLINE T __##name##2##word##_rz(type x) {                                                     \
    return gpusim::bit_cast<T>(gpusim::float16::narrow_towards<F>(gpusim::float16::from_integer(x),    \
                                                                  gpusim::float16::Direction::kZero)); \
  }                                                                                                    \
  GPUSIM_INLINE T __##name##2##word##_rd(type x) {                                                     \
    return gpusim::bit_cast<T>(gpusim::float16::narrow_towards<F>(gpusim::float16::from_integer(x),    \
                                                                  gpusim::float16::Direction::kDown)); \
  }                                                                                                    \
  GPUSIM_INLINE T __##name##2##word##_ru(type x) {                                                     \
    return gpusim::bit_cast<T>(gpusim::float16::narrow_towards<F>(gpusim::float16::from_integer(x),    \
                                                                  gpusim::float16::Direction::kUp));   \
  }
#define GPUSIM_16_BITS_TO_INTEGER(word, T, name, type)                                                   \
  GPUSIM_INLINE type __##word##2##name##_rn(T x) {                                                       \
    return gpusim::float16::to_integer<type>(__builtin_nearbyintf(float(x)));                            \
  }                                                                                                      \
  GPUSIM_INLINE type __##word##2##name##_rz(T x) { return gpusim::float16::to_integer<type>(float(x)); } \
  GPUSIM_INLINE type __##word##2##name##_rd(T x) {                                                       \
    return gpusim::float16::to_integer<type>(__builtin_floorf(float(x)));                                \
  }                                                                                                      \
  GPUSIM_INLINE type __##word##2##name##_ru(T x) {                                                       \
    return gpusim::float16::to_integer<type>(__builtin_ceilf(float(x)));                                 \
  }
#define GPUSIM_INTEGER_OF_16_BITS(word, T, F, name, type) \
  GPUSIM_16_BITS_FROM_INTEGER(word, T, F, name, type)     \
  GPUSIM_16_BITS_TO_INTEGER(word, T, name, type)
#define GPUSIM_CONVERSIONS(word, T, F)                                                                    \
  GPUSIM_INTEGER_OF_16_BITS(word, T, F, short, short)                                                     \
  GPUSIM_INTEGER_OF_16_BITS(word, T, F, ushort, unsigned short)                                           \
  GPUSIM_INTEGER_OF_16_BITS(word, T, F, int, int)                                                         \
  GPUSIM_INTEGER_OF_16_BITS(word, T, F, uint, unsigned)                                                   \
  GPUSIM_INTEGER_OF_16_BITS(word, T, F, ll, long long)                                                    \
  GPUSIM_INTEGER_OF_16_BITS(word, T, F, ull, unsigned long long)                                          \
  GPUSIM_INLINE signed char __##word##2##char_rz(T x) {                                                   \
    return gpusim::float16::to_integer<signed char>(float(x));                                            \
  }                                                                                                       \
  GPUSIM_INLINE unsigned char __##word##2##uchar_rz(T x) {                                                \
    return gpusim::float16::to_integer<unsigned char>(float(x));                                          \
  }                                                                                                       \
  GPUSIM_INLINE T __float2##word##_rz(float x) {                                                          \
    return gpusim::bit_cast<T>(gpusim::float16::narrow_towards<F>(x, gpusim::float16::Direction::kZero)); \
  }                                                                                                       \
  GPUSIM_INLINE T __float2##word##_rd(float x) {                                                          \
    return gpusim::bit_cast<T>(gpusim::float16::narrow_towards<F>(x, gpusim::float16::Direction::kDown)); \
  }                                                                                                       \
  GPUSIM_INLINE T __float2##word##_ru(float x) {                                                          \
    return gpusim::bit_cast<T>(gpusim::float16::narrow_towards<F>(x, gpusim::float16::Direction::kUp));   \
  }
