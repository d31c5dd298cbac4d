/// @file
/// <thrust/system/system_error.h>: a part of Thrust.
#pragma once

#include "../gpusim_algorithms.h"
