/// @file
/// Code that depends on __CUDA_ARCH__, which only the device's code has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpusim::check {

/// Lines of a file, both inclusive.
struct LineRange {
  std::string file;
  int first = 0, last = 0;
};

struct Merged {
  std::string text;
  std::vector<LineRange>
      host_only;  ///< bodies that only the host runs, of functions that kernels call as well
};

/// Makes one text of a source that has been preprocessed twice, without and with __CUDA_ARCH__. Where they
/// differ, the result has the device's version of kernels and of what only it has; a function with
/// `__device__` decides when it runs which of its two bodies is meant; everything else is the host's.
Merged merge_passes(std::string_view host, std::string_view device);

/// Whether a file of the user that a preprocessed text names speaks of __CUDA_ARCH__.
bool depends_on_architecture(std::string_view preprocessed);

}  // namespace gpusim::check
