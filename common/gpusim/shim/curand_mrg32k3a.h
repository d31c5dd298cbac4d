/// @file
/// <curand_mrg32k3a.h>: part of <curand_kernel.h>.
#pragma once

#include "curand_kernel.h"
