/// @file
/// <cooperative_groups/scan.h>: running sums and the like over groups of lanes, by shuffles.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

/// op() over the values of the threads up to this one.
template <class Group, class T, class Operation = plus<T>>
GPUSIM_INLINE T inclusive_scan(const Group& group, T value, Operation&& op = {}) {
  for (unsigned distance = 1; distance < group.size(); distance *= 2) {
    const T before = group.shfl_up(value, distance);
    if (group.thread_rank() >= distance) value = op(before, value);
  }
  return value;
}
/// The same without this one's: T() for the first.
template <class Group, class T, class Operation = plus<T>>
GPUSIM_INLINE T exclusive_scan(const Group& group, T value, Operation&& op = {}) {
  const T before = group.shfl_up(inclusive_scan(group, value, op), 1);
  return group.thread_rank() == 0 ? T() : before;
}

}  // namespace cooperative_groups
