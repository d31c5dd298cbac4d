/// @file
/// <thrust/inner_product.h>: a part of Thrust.
#pragma once

#include "gpusim_algorithms.h"
