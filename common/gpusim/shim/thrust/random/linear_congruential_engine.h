/// @file
/// <thrust/random/linear_congruential_engine.h>: a part of Thrust.
#pragma once

#include "../random.h"
