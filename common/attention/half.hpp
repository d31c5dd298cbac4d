/// @file
/// fp32 on the host, fp16 or bf16 on the device: the conversion between the two.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/tensor.hpp"

namespace fa {

/// The bit patterns of the nearest numbers of a 16-bit type, ties to even; what is too large becomes infinity.
///
/// @param dtype  kFloat16 or kBFloat16
/// @throws std::invalid_argument  if it is fp32
std::vector<std::uint16_t> narrow(const std::vector<float>& values, DType dtype);

/// The numbers of bit patterns; exact.
std::vector<float> widen(const std::vector<std::uint16_t>& bits, DType dtype);

/// What becomes of values that go through a type: themselves for fp32, else the nearest that it has.
std::vector<float> rounded_to(DType dtype, const std::vector<float>& values);

}  // namespace fa
