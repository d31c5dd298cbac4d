/// @file
/// Exchanges registers between four neighbouring lanes, those that hold a row of a fragment. Taught by
/// chapter 08: convert_dq turns pairs of columns into 16 bytes of a row.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/reduce.cuh"

namespace fa {

/// Exchanges a register of this lane with one of the lane at this distance: the lower lane's `high` with the
/// upper's `low`.
__device__ __forceinline__ void exchange(std::uint32_t& low, std::uint32_t& high, int distance) {
  const bool upper = threadIdx.x & distance;
  const std::uint32_t received = __shfl_xor_sync(kAllLanes, upper ? low : high, distance);
  if (upper) {
    low = received;
  } else {
    high = received;
  }
}

/// Transposes the registers of four neighbouring lanes: lane i gets register i of all four.
__device__ __forceinline__ void transpose_in_quad(std::uint32_t (&x)[4]) {
  exchange(x[0], x[1], 1), exchange(x[2], x[3], 1);
  exchange(x[0], x[2], 2), exchange(x[1], x[3], 2);
}

}  // namespace fa
