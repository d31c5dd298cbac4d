/// @file
/// What the kernels are compiled for where answers are tried: the sizes of mutants.toml, which is quicker.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa {

struct LessonSizes {
  static constexpr std::array kHeadDims = {32};
  static constexpr std::array kTypes = {DType::kBFloat16};
};

/// With 128, where Q is not kept in registers.
struct AllSizes {
  static constexpr std::array kHeadDims = {32, 128};
  static constexpr std::array kTypes = {DType::kBFloat16};
};

}  // namespace fa
