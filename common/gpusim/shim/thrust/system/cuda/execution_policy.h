/// @file
/// <thrust/system/cuda/execution_policy.h>: a part of Thrust.
#pragma once

#include "../../gpusim_algorithms.h"
