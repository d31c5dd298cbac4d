/// @file
/// A source in CUDA C++, as nvcc reads it: preprocessed for the host and for the device, and rewritten for
/// g++.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpusim/check/device_pass.hpp"

namespace gpusim::check {

/// What is known of a source that has been rewritten.
struct CudaSource {
  std::set<std::string>
      constexpr_functions;               ///< names of the user's, which kernels may call if nvcc is told so
  std::set<std::string> dynamic_arrays;  ///< names of `extern __shared__` arrays
  std::vector<LineRange> host_only;      ///< see Merged
};

/// Preprocesses and rewrites the source of a command that compiles, and makes the command compile the result,
/// object + ".ii".
///
/// @param architecture  __CUDA_ARCH__
/// @return  nothing if there are errors, which have been printed
std::optional<CudaSource> rewrite_source(std::vector<std::string>& words, const std::string& object,
                                         const std::string& architecture);

}  // namespace gpusim::check
