/// @file
/// <thrust/shuffle.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
