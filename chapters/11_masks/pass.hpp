/// @file
/// What a variant does in one direction.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attention/masked_attention.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"

namespace fa::ch11 {

/// The kernels of the forward or of the backward pass, as the host sees them.
struct Pass {
  std::function<void(const MaskedAttention::Args&, cudaStream_t)> launch;
  std::function<Traffic(const MaskedShape&)> traffic;  ///< of this pass alone
  std::function<std::vector<TensorSpec>(const MaskedShape&)> workspace;
  std::function<std::size_t(const MaskedShape&)> shared_bytes;  ///< of a block
  /// Why no grid has the blocks for a shape, naming the option and a valid value; nothing if it has. Empty if
  /// one always has.
  std::function<std::optional<Refusal>(const MaskedShape&)> refuse = {};
};

}  // namespace fa::ch11
