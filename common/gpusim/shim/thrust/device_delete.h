/// @file
/// <thrust/device_delete.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
