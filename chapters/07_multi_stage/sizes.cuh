/// @file
/// What the kernels of this chapter are compiled for.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch07 {

/// Of the steps on the way: what the lesson shows, and the bundled input.
struct LessonSizes {
  static constexpr std::array kHeadDims = {32, 64, 128};
  static constexpr std::array kTypes = {DType::kBFloat16};
};

/// Of the last variant.
struct AllSizes {
  static constexpr std::array kHeadDims = {32, 64, 128, 256};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
};

}  // namespace fa::ch07
