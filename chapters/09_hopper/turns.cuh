/// @file
/// Which consumer may issue products.
#pragma once

#include <cuda_runtime.h>

#include "device/hopper.cuh"

namespace fa::ch09 {

/// The consumers alternate in issuing products. While one has its turn, the others compute
/// exponentials. Named barrier 1 + i is the turn of consumer i: its 128 threads wait there for the 128 of the
/// one before.
template <int kConsumers>
struct Turns {
  int index;  ///< of this consumer

  // EXERCISE 6: take() waits until the consumer before this one has passed the turn on. pass() does not wait.
  __device__ __forceinline__ void take() const { ptx::barrier_sync(1 + index, 256); }
  __device__ __forceinline__ void pass() const { ptx::barrier_arrive(1 + (index + 1) % kConsumers, 256); }
  // END 6

  /// Consumer 0 begins. Every consumer takes the same number of turns.
  __device__ __forceinline__ void begin() const {
    if (index == kConsumers - 1) pass();
  }
  /// The last turn passed on is that of consumer 0, which does not use it.
  __device__ __forceinline__ void end() const {
    if (index == 0) take();
  }
};

}  // namespace fa::ch09
