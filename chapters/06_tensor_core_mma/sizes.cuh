/// @file
/// The head dimensions and types that the kernels of this chapter are compiled for.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch06 {

struct LessonSizes {
  static constexpr std::array kHeadDims = {32, 64, 128};
  static constexpr std::array kTypes = {DType::kBFloat16};
};

/// For the last variant.
struct AllSizes {
  static constexpr std::array kHeadDims = {32, 64, 128};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
};

}  // namespace fa::ch06
