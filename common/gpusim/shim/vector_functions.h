/// @file
/// <vector_functions.h>: make_float4() and the like, which cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
