/// @file
/// <cooperative_groups/scan.h>: running sums and the like over tiles of a warp, by shuffles.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

/// op() over the values of the threads up to this one.
template <unsigned kSize, class Parent, class T, class Operation = plus<T>>
GPUSIM_INLINE T inclusive_scan(const thread_block_tile<kSize, Parent>& tile, T value, Operation op = {}) {
  for (unsigned distance = 1; distance < kSize; distance *= 2) {
    const T before = tile.shfl_up(value, distance);
    if (tile.thread_rank() >= distance) value = op(before, value);
  }
  return value;
}
/// The same without this one's: T() for the first.
template <unsigned kSize, class Parent, class T, class Operation = plus<T>>
GPUSIM_INLINE T exclusive_scan(const thread_block_tile<kSize, Parent>& tile, T value, Operation op = {}) {
  const T before = tile.shfl_up(inclusive_scan(tile, value, op), 1);
  return tile.thread_rank() == 0 ? T() : before;
}

}  // namespace cooperative_groups
