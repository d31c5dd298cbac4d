/// @file
/// A loop on all cores, for work on the host: references, inputs, logits.
#pragma once

#include <cstdint>
#include <functional>

namespace fa {

/// Calls `body(begin, end)` for ranges that cover [0, count) once, on all cores; returns when all are done.
///
/// The ranges are `grain` long (the last may be shorter) whatever the number of cores, so results that
/// depend on how the work is divided are the same on every machine. Cores take the next range when they are
/// free. The first exception that a body throws is thrown again here; ranges that have not started are then
/// skipped.
///
/// @param count  number of items; nothing is called for 0 or less
/// @param grain  items in a range, at least 1
void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace fa
