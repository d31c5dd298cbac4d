/// @file
/// A GPU for each rank, and what its links have carried.
#pragma once

#include <cstdint>
#include <optional>

#include "ranks.hpp"

namespace fa::ch13 {

/// Makes the GPU with the rank's number on its host the current device.
std::optional<Error> take_gpu(Ranks& ranks);

/// Bytes that the NVLinks of this GPU have sent since the machine was started, in steps of 1024; nothing if
/// nothing counts them. A call takes a tenth of a second.
std::optional<std::int64_t> nvlink_sent_bytes();

/// From now on, nvlink_sent_bytes() returns nothing.
void ignore_nvlink();

}  // namespace fa::ch13
