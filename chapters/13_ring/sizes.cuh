/// @file
/// The head dimensions and types that the kernels of earlier chapters are compiled for here.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch13 {

/// Each kernel computes all smaller multiples of 8 as well.
struct Sizes {
  static constexpr std::array kHeadDims = {64, 128};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
  static constexpr bool kPads = true;
};

}  // namespace fa::ch13
