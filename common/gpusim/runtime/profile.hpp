/// @file
/// With GPUSIM_PROFILE=1: where the threads of a kernel have been, by function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

namespace gpusim {

/// How often threads have run through the basic block that begins at an address.
using BlockCounts = std::unordered_map<std::uintptr_t, std::int64_t>;

/// Whether GPUSIM_PROFILE is set, and not to 0.
bool is_profiling();

/// The sums by function, without namespace and template arguments. A block of an inlined function counts for
/// its callers as well.
std::map<std::string, std::int64_t> by_function(const BlockCounts& counts);

}  // namespace gpusim
