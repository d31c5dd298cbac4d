/// @file
/// <thrust/device_new.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
