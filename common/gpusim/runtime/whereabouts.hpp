/// @file
/// Where the threads are that should be at a barrier, and how a report says it.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpusim/runtime/symbols.hpp"

namespace gpusim {

/// What a thread does that has to come to a barrier or to an operation of its warp.
struct Whereabouts {
  enum class State : std::uint8_t {
    kWaits,     ///< at a barrier or in an operation of its warp
    kRuns,      ///< has accessed memory for long without coming to any of them
    kReturned,  ///< before it came there
    kPassed,    ///< has gone on without it, and then returned
    kExecuted,  ///< has executed the operation, which does not wait
  };
  State state = State::kReturned;
  std::uintptr_t pc =
      0;  ///< kWaits, kExecuted: of the call; kRuns: of the basic block; kPassed: of its latest access
  unsigned mask = 0;  ///< of the operation of a warp

  auto operator<=>(const Whereabouts&) const = default;
};

/// Threads in the same place, by number, in order.
struct Group {
  Whereabouts where;
  std::vector<int> members;
  std::string of = {};  ///< " of block (1,0,0)" if the report is about several blocks
};

/// {0, 1, 2, 5} -> "0 to 2 and 5". Of many ranges, only the first are listed.
std::string list(const std::vector<int>& members, const std::function<std::string(int)>& name_of);

/// A line for each place:
///
///     lanes 0 to 7 wait there
///     lanes 8 to 31 wait in __shfl_xor_sync() at kernel.cuh:52
///
/// @param groups   those that have arrived, and then the others
/// @param what     "thread" or "lane"
/// @param name_of  of a member: "5" or "(5,0,0)"
std::string describe(const std::vector<Group>& groups, const std::string& what,
                     const std::function<std::string(int)>& name_of,
                     const std::function<SourceLine(std::uintptr_t)>& line_of);

/// "__syncthreads()", and where
std::string call_at(const SourceLine& line);

}  // namespace gpusim
