/// @file
/// <thrust/for_each.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
