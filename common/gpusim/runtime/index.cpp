/// @file
/// The built-in variables of a kernel, in a file of their own, because a debugger has to know their type.
#include "gpusim/runtime/device.hpp"

__thread gpusim::device::Index threadIdx;
__thread gpusim::device::Index blockIdx;
__thread gpusim::device::Index blockDim;
__thread gpusim::device::Index gridDim;
