/// @file
/// What answers are tried with: the exercises are in fp32.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch08 {

struct Fp32Sizes {
  static constexpr std::array kHeadDims = {64};
  static constexpr std::array kTypes = {DType::kFloat32};
};

struct MmaSizes {
  static constexpr std::array kHeadDims = {64};
  static constexpr std::array<DType, 0> kTypes = {};
};

}  // namespace fa::ch08
