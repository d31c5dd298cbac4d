#include "attention/half.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "attention/parallel.hpp"

namespace fa {
namespace {

constexpr std::int64_t kElementsPerRange = 1 << 16;

/// f(x) of each element, as elements of type To.
template <class To, class From, class F>
std::vector<To> each(const std::vector<From>& from, F f) {
  std::vector<To> to(from.size());
  parallel_for(std::int64_t(from.size()), kElementsPerRange, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = std::size_t(begin); i < std::size_t(end); ++i) to[i] = f(from[i]);
  });
  return to;
}

template <class Half>
std::vector<std::uint16_t> narrow_as(const std::vector<float>& values) {
  return each<std::uint16_t>(values, [](float x) { return Eigen::numext::bit_cast<std::uint16_t>(Half(x)); });
}

template <class Half>
std::vector<float> widen_as(const std::vector<std::uint16_t>& bits) {
  return each<float>(bits, [](std::uint16_t x) { return float(Eigen::numext::bit_cast<Half>(x)); });
}

/// The nearest number of e4m3: a sign, 4 bits of exponent with bias 7, 3 bits of mantissa.
std::uint8_t to_8_bits(float x) {
  constexpr float kLargest = 448, kLeastNormal = 0x1p-6f, kLeast = 0x1p-9f;
  const auto sign = std::uint8_t(std::signbit(x) ? 0x80 : 0);
  if (std::isnan(x)) return sign | 0x7F;
  const float size = std::min(std::abs(x), kLargest);
  if (size < kLeastNormal) return sign | std::uint8_t(std::nearbyint(size / kLeast));
  // fp32 has the bias 127 and 20 more bits of mantissa.
  const auto bits = std::bit_cast<std::uint32_t>(size);
  const std::uint32_t rounded = (bits + 0x7FFFF + (bits >> 20 & 1)) >> 20;
  return sign | std::uint8_t(rounded - ((127 - 7) << 3));
}

float from_8_bits(std::uint8_t bits) {
  const int exponent = bits >> 3 & 0xF, mantissa = bits & 7;
  const float size = (bits & 0x7F) == 0x7F ? std::numeric_limits<float>::quiet_NaN()
                     : exponent == 0       ? std::ldexp(float(mantissa), -9)
                                           : std::ldexp(float(8 + mantissa), exponent - 10);
  return bits & 0x80 ? -size : size;
}

[[noreturn]] void refuse_type(DType dtype) {
  throw std::invalid_argument(fmt::format("{} is not a 16-bit type", name_of(dtype)));
}

}  // namespace

std::vector<std::uint16_t> narrow(const std::vector<float>& values, DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return narrow_as<Eigen::half>(values);
    case DType::kBFloat16: return narrow_as<Eigen::bfloat16>(values);
    default: break;
  }
  refuse_type(dtype);
}

std::vector<float> widen(const std::vector<std::uint16_t>& bits, DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return widen_as<Eigen::half>(bits);
    case DType::kBFloat16: return widen_as<Eigen::bfloat16>(bits);
    default: break;
  }
  refuse_type(dtype);
}

std::vector<std::uint8_t> narrow_to_8_bits(const std::vector<float>& values) {
  return each<std::uint8_t>(values, to_8_bits);
}

std::vector<float> widen(const std::vector<std::uint8_t>& bits) { return each<float>(bits, from_8_bits); }

std::vector<float> rounded_to(DType dtype, const std::vector<float>& values) {
  if (dtype == DType::kFloat8) return widen(narrow_to_8_bits(values));
  return dtype == DType::kFloat32 ? values : widen(narrow(values, dtype), dtype);
}

}  // namespace fa
