/// @file
/// <thrust/device_free.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
