/// @file
/// What a wrong kernel may compute instead.
#pragma once

#include <functional>
#include <string>

#include "attention/tensor.hpp"

namespace fa {

/// A problem that differs a little from another one, as if by mistake.
struct OtherProblem {
  std::string change;                    ///< "without the causal mask"
  std::function<Reference()> reference;  ///< its outputs, of the same shapes
};

}  // namespace fa
