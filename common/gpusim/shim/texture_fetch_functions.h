/// @file
/// <texture_fetch_functions.h>: functions that cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
