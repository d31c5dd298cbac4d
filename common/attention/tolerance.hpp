/// @file
/// The allowed error of an output.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace fa {

/// The error of a tensor as one number.
enum class Measure {
  kRelL2,   ///< |got - expected| / |expected|, Euclidean norms over all elements
  kMaxAbs,  ///< the largest |got - expected| of all elements
};

/// "rel_l2" or "max_abs".
constexpr std::string_view name_of(Measure measure) {
  return measure == Measure::kRelL2 ? "rel_l2" : "max_abs";
}

/// The largest error that an output may have.
struct Tolerance {
  Measure measure;
  double limit;
};

using Tolerances = std::map<std::string, Tolerance>;  ///< by output

}  // namespace fa
