/// @file
/// <thrust/random/uniform_real_distribution.h>: a part of Thrust.
#pragma once

#include "../random.h"
