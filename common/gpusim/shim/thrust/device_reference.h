/// @file
/// <thrust/device_reference.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
