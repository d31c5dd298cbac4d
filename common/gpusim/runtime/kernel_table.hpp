/// @file
/// What each kernel has done, in a file for programs: GPUSIM_KERNELS=FILE.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/device.hpp"

namespace gpusim {

/// Is asked for around each launch. Does nothing without GPUSIM_KERNELS.
class KernelTable {
 public:
  KernelTable();
  /// The launch has ended. @param launch  what began when this object was made
  /// @param static_bytes  of the static shared variables that a block has used
  void end(const device::Launch& launch, std::size_t static_bytes);

 private:
  Report before_;
  std::chrono::steady_clock::time_point began_;
};

/// "scale<float>", of the address of a kernel.
std::string name_of_kernel(const void* address);

/// Writes the file: JSON with an object for each kernel, in the order of their first launches, and the
/// defects of the report.
bool write_kernel_table(const Report& report);

}  // namespace gpusim
