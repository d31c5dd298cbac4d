/// @file
/// The head dimensions and types that the kernels of this chapter are compiled for.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch07 {

/// Kernels with that many columns run all smaller multiples of 8 as well.
struct Padding {
  static constexpr bool kPads = true;
};

/// For the steps that lead to `final`: what the lesson shows, and what the bundled input needs.
struct LessonSizes : Padding {
  static constexpr std::array kHeadDims = {32, 64, 128};
  static constexpr std::array kTypes = {DType::kBFloat16};
};

/// For `final`.
struct AllSizes : Padding {
  static constexpr std::array kHeadDims = {32, 64, 96, 128, 192, 256};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
};

}  // namespace fa::ch07
