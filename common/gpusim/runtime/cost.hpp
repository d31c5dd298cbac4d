/// @file
/// The cost of one warp instruction: sectors of global memory, wavefronts of shared memory.
#pragma once

#include <cstdint>

#include "gpusim/runtime/access.hpp"

namespace gpusim {

struct GlobalCost {
  std::int64_t bytes = 0;    ///< distinct bytes
  std::int64_t sectors = 0;  ///< distinct aligned groups of 32 bytes
};

/// @param size  bytes per lane
GlobalCost global_cost(const LaneAddresses& addresses, std::uint32_t lanes, std::size_t size);

struct SharedCost {
  std::int64_t wavefronts = 0;
  std::int64_t ideal = 0;  ///< wavefronts that the same bytes would take without bank conflicts
};

/// Shared memory has 32 banks of 4 bytes; a wavefront serves each bank with one word, to any number of lanes.
/// Accesses of 8 (16) bytes are served for half (a quarter) of the warp at a time, or for twice as many lanes
/// if each lane reads the same as its neighbour (lane ^ 1), or each the same as lane ^ 2. Measured on an
/// H100: docs/results/shared_wavefronts.json.
SharedCost shared_cost(const LaneAddresses& addresses, std::uint32_t lanes, std::size_t size);

}  // namespace gpusim
