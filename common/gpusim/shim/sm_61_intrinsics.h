/// @file
/// <sm_61_intrinsics.h>: functions that cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
