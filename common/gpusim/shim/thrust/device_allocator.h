/// @file
/// <thrust/device_allocator.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
