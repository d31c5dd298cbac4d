/// @file
/// <driver_types.h>: the types of the runtime API, which cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
