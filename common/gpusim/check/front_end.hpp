/// @file
/// Makes C++ of CUDA C++, after the preprocessor: launches with <<< >>>, dynamic shared arrays, and what g++
/// does not accept where nvcc does.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpusim::check {

/// What all `extern __shared__` arrays are: runtime/dynamic_shared.cpp defines it.
inline constexpr const char* kDynamicSymbol = "gpusim_dynamic_shared";

struct Rewritten {
  std::string text;
  std::set<std::string> constexpr_functions;  ///< names of the user's
  std::set<std::string> dynamic_arrays;       ///< names of `extern __shared__` arrays
  bool has_asm = false;             ///< there are asm statements with PTX: they need <gpusim_inline_ptx.h>
  std::vector<std::string> errors;  ///< "kernel.cu:48: error: .."
};

/// Rewrites the user's part of a preprocessed text, line by line. The simulator's <cuda_runtime.h> has
/// expanded CUDA's qualifiers to attributes, by which they are found.
///
///   kernel<<<grid, block>>>(x)             pushes the configuration and calls the kernel
///   __global__ void kernel(int x) {..}     launches itself if the host calls it: overloads, templates and
///                                          default arguments are the compiler's business
///   extern __shared__ float tile[];        gets the one symbol that the runtime library has for such arrays
///   extern "C" __global__                  becomes C++: functions of C have no ABI tags
///   asm volatile("..." : ..);              becomes C++: see inline_ptx.hpp
///   [=] __device__ (int i) {..}            loses its attribute, which g++ does not accept there
Rewritten rewrite_cuda(std::string_view preprocessed);

}  // namespace gpusim::check
