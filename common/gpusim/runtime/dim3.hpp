/// @file
/// Sizes and indices of blocks and grids.
#pragma once

#include <cstdint>
#include <string>

namespace gpusim {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  std::uint64_t volume() const { return std::uint64_t(x) * y * z; }
  /// The index with the number `linear` in a box of this size, x fastest.
  Dim3 at(std::uint64_t linear) const {
    return {unsigned(linear % x), unsigned(linear / x % y), unsigned(linear / x / y)};
  }
};

/// "(5,0,0)"
std::string triple(const Dim3& d);

}  // namespace gpusim
