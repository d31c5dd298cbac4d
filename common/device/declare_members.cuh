/// @file
/// What the parts of a struct in shared memory are called. This is for reports of the simulator; a GPU does
/// nothing with it.
#pragma once

#include <cuda_runtime.h>

#ifdef GPUSIM
#include <gpusim_members.h>

namespace fa {
using gpusim::declare_members;
}
#else

namespace fa {

/// Declares that an object lies in shared memory. The simulator then reports "s.k_ring.full[1]" instead of
/// "byte 90136 of s".
template <class Object>
__device__ __forceinline__ void declare_members(const Object&) {}

}  // namespace fa

#endif
