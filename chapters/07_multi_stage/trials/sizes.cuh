/// @file
/// What the kernels are compiled for where answers are tried: the sizes of mutants.toml, which is quicker.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch07 {

struct LessonSizes {
  static constexpr std::array kHeadDims = {32};
  static constexpr std::array kTypes = {DType::kBFloat16};
};
using AllSizes = LessonSizes;

}  // namespace fa::ch07
