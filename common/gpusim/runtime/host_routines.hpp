/// @file
/// What shim/gpusim_host_algorithms.h needs of the runtime.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace gpusim::host {

/// A routine of a library begins, in a stream.
void begin(CUstream_st* stream, const char* routine);
/// Counts and checks a range that it reads or writes.
/// @param may_be_of_host  it may be in memory of the host, of which nothing is known
void account(const void* pointer, std::size_t bytes, bool writes, bool may_be_of_host, const char* routine);
/// Whether all ranges since begin() were inside of allocations.
bool all_right();
/// The host's code that follows may use the memory of the device: it belongs to the routine.
void enter();
void leave();

}  // namespace gpusim::host
