/// @file
/// The allowed error of an output.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

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
  /// If the tensor is divided into as many parts of equal length: in which of them NaN is right as well,
  /// whatever the reference says.
  std::vector<bool> nan_in_part = {};
};

using Tolerances = std::map<std::string, Tolerance>;  ///< by output

}  // namespace fa
