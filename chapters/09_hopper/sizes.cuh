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

/// For `final`. Each kernel computes all multiples of 8 down to the next smaller one.
struct AllSizes {
  static constexpr std::array kHeadDims = {64, 96, 128, 192, 256};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
  static constexpr bool kPads = true;
};

/// For `final`, if V has another width than K: up to 128 columns.
struct NarrowValueSizes {
  static constexpr std::array kHeadDims = {192};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
  static constexpr bool kPads = true;
};

/// For `no_maximum`, which relies on the exponents of bf16, and on room for two tiles of Q.
struct BFloat16Sizes {
  static constexpr std::array kHeadDims = {64, 96, 128};
  static constexpr std::array kTypes = {DType::kBFloat16};
  static constexpr bool kPads = true;
};

}  // namespace fa::ch09
