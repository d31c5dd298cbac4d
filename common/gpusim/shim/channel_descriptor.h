/// @file
/// <channel_descriptor.h>: cudaCreateChannelDesc(), which cuda_runtime_api.h has.
#pragma once

#include "cuda_runtime_api.h"
