/// @file
/// <thrust/device_ptr.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
