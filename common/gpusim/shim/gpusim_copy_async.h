/// @file
/// Copies by several threads, for <cooperative_groups/memcpy_async.h> and <cuda/pipeline>.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_runtime.h"

namespace gpusim {

/// A thread's part of a copy, in chunks that go around the threads. From global to shared memory by cp.async
/// where chunks of 4 bytes or more allow that, and otherwise by loads and stores.
GPUSIM_INLINE void copy_together(void* to, const void* from, std::size_t bytes, std::size_t rank,
                                 std::size_t threads) {
  const std::uintptr_t both = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  const std::size_t chunk = both % 16 == 0 ? 16 : both % 8 == 0 ? 8 : both % 4 == 0 ? 4 : 1;
  const std::size_t whole = chunk == 1 ? 0 : bytes / chunk * chunk;
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  if (device::is_shared(to) && !device::is_shared(from)) {
    for (std::size_t i = rank * chunk; i < whole; i += threads * chunk)
      device::copy_async(target + i, source + i, chunk, chunk);
  } else if (chunk == 16) {
    for (std::size_t i = rank * 16; i < whole; i += threads * 16)
      *reinterpret_cast<uint4*>(target + i) = *reinterpret_cast<const uint4*>(source + i);
  } else if (chunk == 8) {
    for (std::size_t i = rank * 8; i < whole; i += threads * 8)
      *reinterpret_cast<uint2*>(target + i) = *reinterpret_cast<const uint2*>(source + i);
  } else {
    for (std::size_t i = rank * 4; i < whole; i += threads * 4)
      *reinterpret_cast<unsigned*>(target + i) = *reinterpret_cast<const unsigned*>(source + i);
  }
  for (std::size_t i = whole + rank; i < bytes; i += threads) target[i] = source[i];
}

}  // namespace gpusim
