/// @file
/// The head dimensions and element types for which the gradients are compiled.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch08 {

// Each kernel runs all smaller multiples of 8 as well.
struct Fp32Sizes {
  static constexpr bool kPads = true;
  static constexpr std::array kHeadDims = {32, 64, 128, 256};
  static constexpr std::array kTypes = {DType::kFloat32};
};

struct MmaSizes {
  static constexpr bool kPads = true;
  static constexpr std::array kHeadDims = {32, 64, 128, 256};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
};

}  // namespace fa::ch08
