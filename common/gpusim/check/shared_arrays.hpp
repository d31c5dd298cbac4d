/// @file
/// Which arrays a kernel makes of its shared memory, from a dump of g++ (-fdump-tree-ssa): there, the offsets between them
/// are numbers, for each instance of a template.
#pragma once

#include <string>

namespace gpusim::check {

/// A line for each array of each kernel, with tabs between: kernel (mangled), variable of shared memory, name, offset in
/// the variable, bytes of an element (0: unknown), "each" if the offset is that of thread (0,0,0) and other threads have
/// others, dimensions ("32,33"; empty for a pointer).
///
/// A kernel in which the offset of an array depends on the kernel's parameters has none.
std::string shared_arrays(const std::string& dump);

}  // namespace gpusim::check
