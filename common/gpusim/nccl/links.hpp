/// @file
/// The bytes that a rank has sent and received.
#pragma once

#include <cstdint>
#include <map>

namespace gpusim {

struct LinkCounters {
  std::int64_t sent_bytes = 0, received_bytes = 0;
};

/// What this process has exchanged with each other rank since the last call. What a rank sends to itself is not counted.
std::map<int, LinkCounters> take_links();

}  // namespace gpusim
