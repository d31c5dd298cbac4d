/// @file
/// The head dimensions and types that the kernels of this chapter are compiled for.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch11 {

/// Each kernel runs all smaller multiples of 8 as well.
struct Padding {
  static constexpr bool kPads = true;
  static constexpr std::array kHeadDims = {64, 128};
};

/// For the steps that lead to `compressed`: what the lesson shows.
struct LessonSizes : Padding {
  static constexpr std::array kTypes = {DType::kBFloat16};
};

struct AllSizes : Padding {
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
};

}  // namespace fa::ch11
