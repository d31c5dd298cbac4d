/// @file
/// Conversion between fp32 on the host and fp16, bf16 or fp8 on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/tensor.hpp"

namespace fa {

/// The bit patterns of the nearest numbers of a 16-bit type, ties to even; numbers that are too large become
/// infinite.
///
/// @param dtype  kFloat16 or kBFloat16
/// @throws std::invalid_argument  if it is fp32
std::vector<std::uint16_t> narrow(const std::vector<float>& values, DType dtype);

/// The numbers that bit patterns represent; exact.
std::vector<float> widen(const std::vector<std::uint16_t>& bits, DType dtype);

/// The bit patterns of the nearest numbers of e4m3 (a sign, 4 bits of exponent, 3 of mantissa), ties to even;
/// numbers that are too large become the largest, 448, because the type has no infinity.
std::vector<std::uint8_t> narrow_to_8_bits(const std::vector<float>& values);

/// The numbers that they represent; exact.
std::vector<float> widen(const std::vector<std::uint8_t>& bits);

/// Values after a conversion to a floating-point type and back: unchanged for fp32, otherwise the nearest
/// values of the type.
std::vector<float> rounded_to(DType dtype, const std::vector<float>& values);

}  // namespace fa
