/// @file
/// <sm_20_atomic_functions.h>: functions that cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
