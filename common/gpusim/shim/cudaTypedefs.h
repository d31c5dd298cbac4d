/// @file
/// The simulator's <cudaTypedefs.h>: types of the functions that cudaGetDriverEntryPointByVersion() finds.
#pragma once

#include "cuda.h"

using PFN_cuTensorMapEncodeTiled_v12000 = decltype(&cuTensorMapEncodeTiled);
using PFN_cuTensorMapEncodeTiled = PFN_cuTensorMapEncodeTiled_v12000;
