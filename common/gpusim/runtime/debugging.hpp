/// @file
/// For debuggers: with GPUSIM_DEBUG=1, the simulator stops at each defect in a function that a breakpoint can
/// be set on.
#pragma once

#include <set>

#include "gpusim/runtime/defects.hpp"

/// Called once for each report, on the stack of the simulated thread that has the defect: above it are the
/// simulator's frames and then the kernel's. Does nothing: `break gpusim_defect` in gdb.
extern "C" void gpusim_defect();

namespace gpusim {

/// Whether GPUSIM_DEBUG is set, and not to 0. Then one CPU thread runs the blocks in order, and a race is
/// found at the second of its two accesses, not at the next barrier.
bool is_debugging();

/// Prints each finding on standard error when it is made, and calls gpusim_defect().
class Announcer {
 public:
  /// The first time only for each pair of instructions. Call it outside of the kernel.
  void announce(const FindingKey& key, const Example& example);

 private:
  static std::set<FindingKey> announced_;  // one thread of the program runs at a time
};

}  // namespace gpusim
