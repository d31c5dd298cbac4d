/// @file
/// Which arrays a kernel makes of its shared memory, from a dump of g++ (-fdump-tree-ssa): there, the offsets
/// between them are numbers, for each instance of a template.
#pragma once

#include <string>

namespace gpusim::check {

/// A line for each array of each kernel, with tabs between:
///
///   kernel (mangled)
///   variable of shared memory
///   name
///   offset in the variable, of threadIdx, blockDim and the kernel's parameters: $3 is the fourth
///   (runtime/expression.hpp) bytes of an element; 0: unknown dimensions: "32,33"; empty for a pointer where
///   element (r, c) lies, counted in elements: "r 33 * c +"; empty without declare_rows()
///
/// A kernel in which the offset of an array depends on the members of a parameter has none.
std::string shared_arrays(const std::string& dump);

}  // namespace gpusim::check
