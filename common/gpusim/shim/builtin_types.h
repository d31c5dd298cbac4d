/// @file
/// <builtin_types.h>: vector types and those of the runtime API, which cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
