/// @file
/// <thrust/device_malloc.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
