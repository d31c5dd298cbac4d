/// @file
/// What the compiler's check of array indices knows about the array.
#pragma once

#include <cstdint>
#include <string>

namespace gpusim {

/// An expression `rS[n][i]` in the source, and the type of what stands before its last bracket.
struct IndexedArray {
  const char* file = nullptr;
  std::uint32_t line = 0, column = 0;  ///< from 1, of either bracket; clang++: of the expression
  const char* type = nullptr;          ///< in the compiler's quotes: "'float [4]'"
};

/// "rS[n] has 4 elements, 0 to 3: float [4]". Without the name if the source file cannot be read.
std::string describe(const IndexedArray& array);

}  // namespace gpusim
