/// @file
/// <sm_35_intrinsics.h>: functions that cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
