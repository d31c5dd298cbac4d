/// @file
/// <thrust/random/uniform_int_distribution.h>: a part of Thrust.
#pragma once

#include "../random.h"
