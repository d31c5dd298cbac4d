#pragma once
#include <cstdint>
#include "cuda_runtime.h"
#include "gpusim/runtime/device_hopper.hpp"
namespace gpusim::ptx {
GPUSIM_INLINE std::uint32_t shared_address(const void* s) { return device::shared_address(s); }
GPUSIM_INLINE void fence_proxy_async() { device::fence_proxy_async(); }
}  // namespace gpusim::ptx
#include "gpusim_wgmma.h"
