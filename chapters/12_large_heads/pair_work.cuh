/// @file
/// What the pairs of blocks have in common: their work, their places in the ring of slots, and the exchange
/// of numbers between warpgroups with the same queries.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "device/attention.cuh"
#include "device/clusters.cuh"
#include "device/hopper.cuh"
#include "device/reduce.cuh"
#include "pair_tiles.cuh"

namespace fa::ch12 {

// --- which queries and keys --------------------------------------------------------------------------------

/// The queries of a block or a pair of blocks, and the key tiles that they need.
struct PairWork {
  int head;  ///< counts through all batches
  int first_query;
  int tiles;         ///< at least one: rows that see no key get O = 0 from a tile whose keys are all masked
  int first_masked;  ///< from this tile on, some row does not see some key
};

/// Query tile n. Under a causal mask, the longest come first, and heads are divided into groups whose K and V
/// fit into 32 MiB of the L2 cache together.
template <class Tile, class T>
__device__ __forceinline__ PairWork work_of_pair(int n, const Attention<T>& a) {
  const int heads = a.batch * a.heads, tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  int head = n / tiles, tile = n % tiles;
  if (a.causal) {
    const size_t bytes = sizeof(T) * size_t(a.seq_k) * (a.head_dim + a.head_dim_v);
    const int cached = int(max(size_t(1), min(size_t(heads), (32 << 20) / bytes)));
    const int first_head = n / (cached * tiles) * cached, here = min(cached, heads - first_head);
    const int in_group = n - first_head * tiles;
    head = first_head + in_group % here;
    tile = tiles - 1 - in_group / here;
  }
  const int first_query = tile * Tile::Br;
  const int seen = a.visible_keys(min(first_query + Tile::Br, a.seq_q) - 1);
  return {head, first_query, max(1, (seen + Tile::Bc - 1) / Tile::Bc),
          a.visible_keys(first_query) / Tile::Bc};
}

// --- warpgroups with the same queries ----------------------------------------------------------------------

/// Where a warp is in the ring of slots, of which there are as many as fit.
struct Slot {
  int number = 0, parity = 0;
  __device__ __forceinline__ void advance(int slots) {
    if (++number == slots) {
      number = 0;
      parity ^= 1;
    }
  }
};

/// Describes where wgmma finds a matrix, as chapter 09 does. In a cluster, bits 24 to 27 of an address are
/// the block's rank, which would be added to the distance of the panels: a descriptor has 18 bits of the
/// address.
__device__ __forceinline__ std::uint64_t descriptor_in_cluster(const void* s, int panel_bytes) {
  return std::uint64_t(ptx::shared_address(s) % (1 << 18) / 16) | std::uint64_t(panel_bytes / 16) << 16 |
         std::uint64_t(8 * 128 / 16) << 32 | std::uint64_t(1) << 62;
}

/// A consumer warpgroup of a block of the pair.
/// @tparam Memory  PairMemory, or one with the same barriers and rows
template <class Tile, class Memory>
struct Sharer {
  Memory& fixed;
  const int slots;             ///< of the ring
  const int rank, index;       ///< of the block in its cluster, and of the warpgroup in the block
  const int first_of_sharers;  ///< the first warpgroup of the block with the same queries
  const int warp_row;          ///< the first of this warp's 16 rows in the query tile

  Slot at;
  int parity = 0;       ///< of P, which is exchanged once for each tile
  int rows_parity = 0;  ///< of reduce_over_sharers()

  __device__ __forceinline__ Sharer(Memory& memory, const PairSizes& sizes, int of_block, int consumer)
      : fixed(memory),
        slots(sizes.slots),
        rank(of_block),
        index(consumer),
        first_of_sharers(Tile::kSharers == 2 ? 0 : consumer),
        warp_row((Tile::kSharers == 2 ? 0 : 64 * consumer) +
                 __shfl_sync(kAllLanes, int(threadIdx.x) / 32 % 4, 0) * 16) {}

  __device__ __forceinline__ void wait_full() const { ptx::mbarrier_wait(&fixed.full[at.number], at.parity); }
  __device__ __forceinline__ void leave(int slot) const {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&fixed.empty[slot]);
  }
  /// Waits for the slice in the next slot. @return  the number of the slot
  __device__ __forceinline__ int next_slot() {
    wait_full();
    const int number = at.number;
    at.advance(slots);
    return number;
  }

  /// The number of a warpgroup among those with the same queries: first those of block 0.
  __device__ __forceinline__ int number() const { return rank * Tile::kSharers + index - first_of_sharers; }

  /// Combines a number for each row over all warpgroups with the same queries. Lanes of a row have the same
  /// number.
  template <class Op>
  __device__ __forceinline__ void reduce_over_sharers(float (&value)[2], Op op) {
    constexpr int kAll = Tile::kBlocks * Tile::kSharers;
    if constexpr (kAll == 1) return;
    const int lane = threadIdx.x % 32, row = warp_row % 64 + lane / 4;
    auto& rows = fixed.rows[first_of_sharers][rows_parity];
    std::uint64_t* full = &fixed.rows_full[first_of_sharers];
    if (index == first_of_sharers && threadIdx.x % 128 == 0)
      ptx::mbarrier_arrive_expect_tx(full, kAll * 64 * int(sizeof(float)));
    if (lane % 4 == 0) {
#pragma unroll
      for (int block = 0; block < Tile::kBlocks; ++block) {
        float* there = ptx::mapa(rows[number()] + row, block);
        ptx::st_async(there, value[0], ptx::mapa(full, block));
        ptx::st_async(there + 8, value[1], ptx::mapa(full, block));
      }
    }
    ptx::mbarrier_wait_cluster(full, rows_parity);
    rows_parity ^= 1;
    value[0] = rows[0][row], value[1] = rows[0][row + 8];
#pragma unroll
    for (int other = 1; other < kAll; ++other) {
      value[0] = op(value[0], rows[other][row]);
      value[1] = op(value[1], rows[other][row + 8]);
    }
  }

  /// This warp has read all of `p`. A panel may be overwritten when every warp that reads it has called this.
  __device__ __forceinline__ void leave_p() {
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int block = 0; block < Tile::kBlocks; ++block) {
#pragma unroll
        for (int sharer = 0; sharer < Tile::kSharers; ++sharer)
          ptx::mbarrier_arrive_cluster_relaxed(ptx::mapa(&fixed.p_free[first_of_sharers + sharer], block));
      }
    }
    parity ^= 1;
  }
};

/// Initialises all barriers of the block. Every thread of the cluster calls it, once.
template <class Tile, class Memory>
__device__ __forceinline__ void init_barriers(Memory& s, int slots) {
  if (threadIdx.x == 0) {
    declare_members(s);
    for (int slot = 0; slot < slots; ++slot) {
      ptx::mbarrier_init(&s.full[slot], 1);
      ptx::mbarrier_init(&s.empty[slot], 4 * Tile::kConsumers);
    }
    for (std::uint64_t& full : s.rows_full) ptx::mbarrier_init(&full, 1);
    for (int consumer = 0; consumer < Tile::kConsumers; ++consumer) {
      ptx::mbarrier_init(&s.p_full[consumer], 1);
      ptx::mbarrier_init(&s.p_free[consumer], 4 * Tile::kBlocks * Tile::kSharers);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::barrier_cluster_arrive_relaxed();  // the fence has published the barriers
  ptx::barrier_cluster_wait();
}

}  // namespace fa::ch12
