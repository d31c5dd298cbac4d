/// @file
/// ldmatrix and mma, computed for all lanes of a warp at once. See device.hpp for what they do.
#pragma once

#include <cstdint>

#include "gpusim/runtime/device.hpp"

namespace gpusim {

/// The operands of a lane for ldmatrix.
struct MatrixOperand {
  const void* row;
  int matrices;
  bool transposed;
  std::uint32_t* registers;
};
void resolve_load_matrices(void* const* lanes);

/// The operand of a lane for movmatrix, and its result.
struct TransposeOperand {
  std::uint32_t pair;
};
void resolve_transpose(void* const* lanes);

/// The operands of a lane for mma: 4 registers of a, 2 of b, 4 of c and d.
struct MmaOperand {
  device::MmaType type;
  float* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
  const float* c;
};
void resolve_mma(void* const* lanes);

}  // namespace gpusim
