/// @file
/// <thrust/zip_function.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
