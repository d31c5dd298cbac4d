/// @file
/// Which worker multiplies a tile: a warp, or a warpgroup.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "columns.cuh"
#include "device/hopper.cuh"
#include "fp8.cuh"
#include "tiles.cuh"
#include "warpgroup.cuh"

namespace fa::ch14 {

template <class Tile>
struct WorkerOf {
  using Type = std::conditional_t<std::is_same_v<typename Tile::Element, Fp8>, Fp8Warp<Tile>, Warp<Tile>>;
};
template <class T, int d>
struct WorkerOf<WarpgroupTile<T, d>> {
  using Type = Warpgroup<WarpgroupTile<T, d>>;
};
template <class Tile>
using Worker = typename WorkerOf<Tile>::Type;

/// The index of this thread's worker in the block; the compiler keeps it in a uniform register.
template <class Tile>
__device__ __forceinline__ int worker_index() {
  return __shfl_sync(kAllLanes, int(threadIdx.x) / Tile::kWorkerThreads, 0);
}

/// Waits for all threads of the worker.
template <class Tile>
__device__ __forceinline__ void sync_worker() {
  if constexpr (Tile::kWorkerThreads == 32) {
    __syncwarp();
  } else {
    ptx::barrier_sync(1 + worker_index<Tile>(), Tile::kWorkerThreads);
  }
}

}  // namespace fa::ch14
