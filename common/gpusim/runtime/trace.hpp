/// @file
/// Records the warp instructions that a kernel executes, for tests of what the compiler's hooks see.
#pragma once

#include <cstdint>
#include <vector>

#include "gpusim/runtime/access.hpp"

namespace gpusim {

struct TraceEntry {
  Space space;
  AccessKind kind;
  std::size_t size;        ///< bytes per lane
  std::uint32_t lanes;     ///< the lanes that took part
  std::uintptr_t address;  ///< of the lowest of them
  bool operator==(const TraceEntry&) const = default;
};

/// While set, every warp instruction is appended. Launch one block at a time: nothing locks this.
extern std::vector<TraceEntry>* trace;

}  // namespace gpusim
