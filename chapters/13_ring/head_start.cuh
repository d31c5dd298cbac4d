/// @file
/// A transfer begins before the kernels beside it.
#pragma once

#include <cuda_runtime.h>

#include "device/launch.cuh"
#include "rank.hpp"

namespace fa::ch13 {

/// Does nothing for `microseconds`, roughly.
///
///   grid    1
///   block   1
///   HBM     nothing
__global__ void idle(int microseconds) {
  for (int i = 0; i < microseconds; ++i) __nanosleep(1000);
}

/// Holds up what is enqueued from now on for some microseconds, so that the transfer of this step begins
/// first.
///
/// NCCL's blocks need room on multiprocessors. Chapter 09's blocks take all of them and stay to the last
/// tile, so the transfer would begin when attention ends. Both become ready at the same time, and who comes
/// first is a matter of microseconds.
inline void let_transfer_begin(const Rank& r) {
  if (r.head_start_us > 0) launch(idle, 1, 1, 0, r.compute, r.head_start_us);
}

}  // namespace fa::ch13
