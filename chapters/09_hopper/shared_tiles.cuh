/// @file
/// What the copy engine copies, and the shared memory of a block: tiles, and the barriers that say when they
/// have landed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/declare_members.cuh"
#include "device/divisor.cuh"
#include "device/hopper.cuh"
#include "device/reduce.cuh"

namespace fa::ch09 {

/// How a tensor [batch, heads, rows, head_dim] lies in global memory, with any strides, and which boxes of it
/// are copied. Its coordinates are column, row, head in its batch, and batch.
struct TensorMap : CUtensorMap {
  Divisor heads;  ///< of a batch
};

/// One query tile of one head.
struct QueryTile {
  int head;  ///< counts through all batches; -1: there are no more tiles
  int first_query;
};

/// A ring of kStages tiles: `full` signals that a tile has landed, `empty` that no warp reads it.
template <int kStages>
struct RingBarriers {
  std::uint64_t full[kStages], empty[kStages];
};

/// A block's shared memory. A tile is divided into panels of 64 columns, one after the other, whose rows of
/// 128 bytes are swizzled: [panel][row][64].
template <class Tile>
struct __align__(1024) SharedTiles {
  using T = typename Tile::T;
  T q[Tile::kQueryBuffers][Tile::Br * Tile::kCols];  ///< queries, in the end O
  T k[Tile::kStages][Tile::Bc * Tile::kCols];
  T v[Tile::kStages][Tile::Bc * Tile::kColsV];
  RingBarriers<Tile::kQueryBuffers> q_ring;
  RingBarriers<Tile::kStages> k_ring, v_ring;
  QueryTile query_tile[Tile::kQueryBuffers];  ///< whose queries are in q
};

/// Where a warp is in a ring. Tile number n lies in stage n % kStages, and is the stage's phase n / kStages,
/// which has the parity of that number.
template <int kStages>
struct Place {
  int stage = 0, parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }

  // EXERCISE 2: full_parity(), empty_parity(): return the parity of the phase that must be complete.
  /// Consumers wait for the phase of `full` in which the tile lands.
  __device__ __forceinline__ int full_parity() const { return parity; }
  /// The producer waits for the phase of `empty` after which no warp reads the tile that was here before. A
  /// new barrier behaves as if the phase before its first, with parity 1, were complete: the first round
  /// waits for nothing.
  __device__ __forceinline__ int empty_parity() const { return parity ^ 1; }
  // END 2

  /// Consumers: the tile has landed.
  __device__ __forceinline__ void wait_full(RingBarriers<kStages>& ring) const {
    ptx::mbarrier_wait(&ring.full[stage], full_parity());
  }
  /// The producer: there is room for the tile.
  __device__ __forceinline__ void wait_empty(RingBarriers<kStages>& ring) const {
    ptx::mbarrier_wait(&ring.empty[stage], empty_parity());
  }
  /// Consumers: this warp no longer reads the tile.
  __device__ __forceinline__ void leave(RingBarriers<kStages>& ring) const {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[stage]);
  }
  /// The same, and on to the next one.
  __device__ __forceinline__ void release(RingBarriers<kStages>& ring) {
    leave(ring);
    advance();
  }
};

/// A place whose barrier can be tested ahead of time.
template <int kStages>
struct LookingPlace : Place<kStages> {
  bool landed = false;  ///< look() has found the tile

  /// Tests whether the tile has landed, without waiting. The result arrives while the warp computes something
  /// else.
  __device__ __forceinline__ void look(RingBarriers<kStages>& ring) {
    landed = ptx::mbarrier_test_wait(&ring.full[this->stage], this->full_parity());
  }
  __device__ __forceinline__ void wait_unless_landed(RingBarriers<kStages>& ring) const {
    if (!landed) this->wait_full(ring);
  }
  __device__ __forceinline__ void release(RingBarriers<kStages>& ring) {
    landed = false;
    Place<kStages>::release(ring);
  }
};

/// @param consumers  the warps that release each tile
template <int kStages>
__device__ __forceinline__ void init_ring(RingBarriers<kStages>& ring, int consumers) {
  for (int stage = 0; stage < kStages; ++stage) {
    ptx::mbarrier_init(&ring.full[stage], 1);  // the producer, which announces the bytes
    ptx::mbarrier_init(&ring.empty[stage], consumers);
  }
}

/// Initialises all barriers of the block. Every thread calls it, once.
template <class Tile>
__device__ __forceinline__ void init_barriers(SharedTiles<Tile>& s) {
  if (threadIdx.x == 0) {
    declare_members(s);  // for reports of the simulator
    init_ring(s.q_ring, 4 * Tile::kConsumers);
    init_ring(s.k_ring, 4 * Tile::kConsumers);
    init_ring(s.v_ring, 4 * Tile::kConsumers);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

/// The index of this thread's warpgroup. It is the same for the whole warp; the shuffle tells the compiler,
/// which then keeps everything that follows from it in uniform registers.
__device__ __forceinline__ int warpgroup_index() { return __shfl_sync(kAllLanes, int(threadIdx.x) / 128, 0); }

}  // namespace fa::ch09
