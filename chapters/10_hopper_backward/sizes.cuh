/// @file
/// The head dimensions and types that the kernels of this chapter are compiled for.
#pragma once

#include <array>

#include "attention/tensor.hpp"

namespace fa::ch10 {

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

/// For `deterministic`.
struct DeterministicSizes {
  static constexpr std::array kHeadDims = {64, 128};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
};

}  // namespace fa::ch10
