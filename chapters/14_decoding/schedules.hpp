/// @file
/// Which schedule is faster for which lengths. No launch calls this: lengths are in the memory of the device.
#pragma once

#include <algorithm>

#include "plan.cuh"

namespace fa::ch14 {

/// Whether `balanced` ends before `in_flight` with `splits` parts of each head. Both have `splits` blocks for
/// each head, all blocks run at the same time, and one takes as long as it has granules.
///
/// @param of    the granules; `blocks` is not used
/// @param plan  what a block of `balanced` needs to find its share, as the granules that take as long
inline bool equal_shares_are_faster(const Granules& of, int splits, int plan) {
  // EXERCISE 8: Which of the two schedules ends first? Compare their longest blocks; if both end together, equal shares are not faster.
  int longest = 0, all = 0;  // granules of a head, of all heads
  for (int batch = 0; batch < of.batch; ++batch) {
    const int granules = of.of_length(of.length(batch));
    longest = std::max(longest, granules);
    all += of.heads * granules;
  }
  const int blocks = splits * of.batch * of.heads;
  const int longest_part = (longest + splits - 1) / splits;
  const int longest_share = (all + blocks - 1) / blocks;
  return plan + longest_share < longest_part;
  // END 8
}

}  // namespace fa::ch14
