/// @file
/// <curand_poisson.h>: part of <curand_kernel.h>.
#pragma once

#include "curand_kernel.h"
