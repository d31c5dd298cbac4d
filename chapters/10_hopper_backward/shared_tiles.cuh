/// @file
/// The shared memory of a block that owns a key tile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward.cuh"
#include "device/declare_members.cuh"
#include "device/hopper.cuh"

namespace fa::ch10 {

/// Tiles of rows are in panels of 64 columns, swizzled, as in chapter 09. dS is transposed, as the registers
/// have it: panels of 64 queries, whose rows are keys.
template <class Tile>
struct __align__(1024) KeyTileMemory {
  using T = typename Tile::T;
  T k[Tile::Bc * Tile::kCols];            ///< keys, in the end dK
  T v[Tile::Bc * OfValues<Tile>::kCols];  ///< values, in the end dV
  T q[Tile::kStages][Tile::kQueryTile];
  T d_o[Tile::kStages][OfValues<Tile>::kQueryTile];
  T ds[Tile::kDsStages][Tile::Bc * Tile::Br];
  float log2_sum[Tile::kStages][Tile::Br];  ///< lands with q
  float delta[Tile::kStages][Tile::Br];     ///< lands with d_o
  std::uint64_t kv_full;
  RingBarriers<Tile::kStages> q_ring, do_ring;
  RingBarriers<Tile::kDsStages> ds_ring;  ///< the consumers fill it, and empty it
};

/// The same with room for dQ on its way to HBM.
template <class Tile>
struct __align__(1024) KeyTileMemoryWithDq {
  KeyTileMemory<Tile> tiles;
  alignas(128) float dq[Tile::kQueryTile];
  RingBarriers<1> dq_ring;
};

/// Initialises the barriers of the tiles. One thread calls it.
template <class Tile>
__device__ __forceinline__ void init_tiles(KeyTileMemory<Tile>& s) {
  constexpr int kWarps = 4 * Tile::kConsumers;
  init_ring(s.q_ring, kWarps);
  init_ring(s.do_ring, kWarps);
  ptx::mbarrier_init(&s.kv_full, 1);
  for (int stage = 0; stage < Tile::kDsStages; ++stage) {
    ptx::mbarrier_init(&s.ds_ring.full[stage], Tile::kDsWarps);
    ptx::mbarrier_init(&s.ds_ring.empty[stage], kWarps);
  }
}

/// Initialises all barriers of the block. Every thread calls it, once.
template <class Tile>
__device__ __forceinline__ void init_barriers(KeyTileMemory<Tile>& s) {
  if (threadIdx.x == 0) {
    declare_members(s);  // for reports of the simulator
    init_tiles(s);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}
template <class Tile>
__device__ __forceinline__ void init_barriers(KeyTileMemoryWithDq<Tile>& s) {
  if (threadIdx.x == 0) {
    declare_members(s);
    init_tiles(s.tiles);
    ptx::mbarrier_init(&s.dq_ring.full[0], 4 * Tile::kConsumers);
    ptx::mbarrier_init(&s.dq_ring.empty[0], 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

/// One lane arrives at a barrier for what all lanes of its warp have done.
__device__ __forceinline__ void warp_arrives(std::uint64_t& barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&barrier);
}

}  // namespace fa::ch10
