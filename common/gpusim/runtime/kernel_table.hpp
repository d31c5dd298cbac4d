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
  /// Whether launches of this kernel with as many blocks and threads have taken long, and all of them have
  /// been looked through: from now on, races are not looked for there, unless GPUSIM_CHECK_ALL is set. The
  /// answer is the same on every machine.
  bool is_repetition(const device::Launch& launch) const;
  /// The launch has ended.
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
