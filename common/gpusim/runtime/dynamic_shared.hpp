/// @file
/// Storage for `extern __shared__ T name[]`. gpusim_kernels() (CMake) generates one source that uses this for
/// every name it is given; do not include it by hand.
#pragma once

#include "gpusim/runtime/device.hpp"

namespace gpusim {

/// The most that a block on an sm_90 device can have.
inline constexpr int kMaxDynamicShared = 227 * 1024;

void register_dynamic_shared(void* (*address)());

struct DynamicShared {
  explicit DynamicShared(void* (*address)()) { register_dynamic_shared(address); }
};

}  // namespace gpusim
