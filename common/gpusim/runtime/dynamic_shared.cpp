/// @file
/// Storage for all `extern __shared__` arrays of sources that check/front_end.hpp has rewritten. Programs
/// without such arrays do not link this file.
#include "gpusim/runtime/dynamic_shared.hpp"

extern "C" {
alignas(1024) thread_local unsigned char gpusim_dynamic_shared[gpusim::kMaxDynamicShared];
}

namespace {
const gpusim::DynamicShared registration([]() -> void* { return gpusim_dynamic_shared; });
}  // namespace
