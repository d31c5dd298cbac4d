/// @file
/// <thrust/iterator/zip_iterator.h>: a part of Thrust.
#pragma once

#include "../gpusim_algorithms.h"
