/// @file
/// How a row of `hopper` joins its sink: while the last product of its query tile is in flight.
#pragma once

#include <cuda_runtime.h>

#include "09_hopper/consumer.cuh"
#include "sinks.cuh"

namespace fa::ch11::hopper {

/// The end of a query tile's rows. The last product P V is in flight.
/// @param consumer  its state has m and l of the lane's two rows; finish_rows() computes inv_l and lse from
///                  them, and store() multiplies the rows of O by inv_l
/// @param sink  times log2 e
template <class Tile>
__device__ __forceinline__ void join_and_finish_rows(ch09::Consumer<Tile>& consumer, float sink) {
  // EXERCISE 14: Let the sink join both rows of the lane. rO may not be touched: its last product is in flight.
  float corrections[2];
#pragma unroll
  for (int row = 0; row < 2; ++row)
    corrections[row] = join_sink(consumer.state.m[row], consumer.state.l[row], sink);
  consumer.finish_rows();
#pragma unroll
  for (int row = 0; row < 2; ++row) consumer.inv_l[row] *= corrections[row];
  // END 14
}

}  // namespace fa::ch11::hopper
