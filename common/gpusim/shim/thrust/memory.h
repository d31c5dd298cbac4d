/// @file
/// <thrust/memory.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
