/// @file
/// The functions of a GPU's program, as g++ writes them down with -fdump-tree-ssa.
///
/// `__global__` and `__device__` are ABI tags, which are part of mangled names. Those of function templates
/// outside of all namespaces are not: g++ forgets them. Its dump shows the attributes of these too.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpusim/check/object_file.hpp"

namespace gpusim::check {

inline constexpr std::string_view kKernelTag = "B6kernel", kDeviceTag = "B6device";  ///< in mangled names

/// Mangled names.
struct GpuFunctions {
  std::set<std::string> kernels, device;
  /// Those with arrays whose size is no constant, which nvcc refuses.
  std::set<std::string> with_unknown_sizes;
};

GpuFunctions gpu_functions(const std::string& dump);

/// Where a function declares arrays whose size is no constant. @param dump  made with -fdump-tree-ssa-lineno
std::vector<SourceLine> unknown_sizes(const std::string& dump, const std::string& mangled);

}  // namespace gpusim::check
