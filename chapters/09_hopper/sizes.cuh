/// @file
/// The head dimensions and types that the kernels of this chapter are compiled for.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch09 {

/// For the steps that lead to `final`.
struct LessonSizes {
  static constexpr std::array kHeadDims = {64, 128};
  static constexpr std::array kTypes = {DType::kBFloat16};
};

/// For `final`.
struct AllSizes {
  static constexpr std::array kHeadDims = {64, 128, 256};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
};

/// For `no_maximum`, which relies on the exponents of bf16.
using BFloat16Sizes = LessonSizes;

}  // namespace fa::ch09
