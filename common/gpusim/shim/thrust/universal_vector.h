/// @file
/// <thrust/universal_vector.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
