/// @file
/// Reads that only guess what a compare-and-swap will find.
#pragma once

#include <string>

namespace gpusim {

/// Whether a read is the first step of a loop with a compare-and-swap, as the CUDA programming guide writes
/// it:
///
///     int old = *address, assumed;
///     do {
///       assumed = old;
///       old = atomicCAS(address, assumed, combine(assumed, value));
///     } while (assumed != old);
///
/// Others may change the word meanwhile: then the swap fails, and gives the value to try next. The sources
/// tell: an atomicCAS() of what the line reads is on one of the lines after it, or on the same.
///
/// @param place  of the read: "/path/kernel.cu:48"
bool is_guess_for_swap(const std::string& place);

}  // namespace gpusim
