/// @file
/// <thrust/set_operations.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
