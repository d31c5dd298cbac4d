/// @file
/// <crt/host_defines.h>: functions that cuda_runtime.h has.
#pragma once

#include "cuda_runtime.h"
