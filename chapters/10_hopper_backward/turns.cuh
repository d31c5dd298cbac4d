/// @file
/// Additions to the sums of dQ in a fixed order: each block waits for its turn. So every run gives the same
/// bits.
///
/// The turn of a block is the number of its key tile. All queries that see a key tile see those before it in
/// the same head, so no turn is left out. A counter for each part of a tile of dQ holds the turn.
/// key_tile_in_groups() gives earlier key tiles of a head to blocks with lower numbers, so a block waits only
/// for blocks that have started: see device/published.cuh. BackwardWalk begins with the last query tile,
/// which sees every key tile: a block adds to it one turn after the block before.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward.cuh"
#include "consumer.cuh"
#include "device/declare_members.cuh"
#include "device/hopper.cuh"
#include "dq_sums.cuh"
#include "owners.cuh"
#include "shared_tiles.cuh"

namespace fa::ch10 {

/// The key tile of a block. All heads are interleaved, a group of a.interleaved after the other: in each
/// group first the first key tile of each head, then the second.
template <class Tile>
__device__ __forceinline__ KeyTile key_tile_in_groups(int block, const Backward<typename Tile::T>& a) {
  const int tiles = (a.seq_k + Tile::Bc - 1) / Tile::Bc;
  const int first_head = block / (tiles * a.interleaved) * a.interleaved;
  const int heads = min(a.interleaved, a.batch * a.kv_heads - first_head), n = block - first_head * tiles;
  return {first_head + n % heads, n / heads * Tile::Bc};
}

// --- dQ through shared memory: up to 128 columns -----------------------------------------------------------

/// KeyTileMemory with room for dQ on its way to HBM. Each consumer has a part of it.
template <class Tile>
struct __align__(1024) TurnMemory {
  KeyTileMemory<Tile> tiles;
  alignas(128) float dq[Tile::kQueryTile];
  RingBarriers<1> dq_ring[Tile::kConsumers];
};

/// Initialises all barriers of the block. Every thread calls it, once.
template <class Tile>
__device__ __forceinline__ void init_barriers(TurnMemory<Tile>& s) {
  if (threadIdx.x == 0) {
    declare_members(s);
    init_tiles(s.tiles);
    for (auto& ring : s.dq_ring) {
      ptx::mbarrier_init(&ring.full[0], 4);
      ptx::mbarrier_init(&ring.empty[0], 1);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

/// A consumer's place in the ring of its part of dQ, from where another thread adds it.
template <class Tile>
struct DqOut {
  TurnMemory<Tile>& s;
  Place<1> place{};
};
template <class Tile, class Whole>
__device__ __forceinline__ void put_dq(const Consumer<Tile>& consumer, DqOut<Whole>& out) {
  auto& ring = out.s.dq_ring[consumer.index];
  out.place.wait_empty(ring);
  store_part<Tile>(out.s.dq, consumer.rdQ, consumer.index, head_dim<Tile>(consumer.a));
  ptx::fence_proxy_async();
  warp_arrives(ring.full[0]);
  out.place.advance();
}

/// A thread of the producer warpgroup for each consumer: adds its part of dQ when it is this block's turn.
/// The first block stores instead, so nothing has to be zero before.
template <class Tile>
__device__ __forceinline__ void add_in_turns(const Backward<typename Tile::T>& a, TurnMemory<Tile>& s,
                                             const KeyTile& keys, int part) {
  const int d = head_dim<Tile>(a), bytes = 64 * dq_cols<Tile>(part, d) * int(sizeof(float));
  const int offset = part * 64 * dq_cols<Tile>(0, d), turn = keys.first_key / Tile::Bc;
  const float* dq = s.dq + offset;
  Place<1> place{};
  for (BackwardWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {
    int* turns = a.turns + walk.number() * Tile::kConsumers + part;
    float* sums = a.dq_sum + walk.padded_row() * d + offset;
    place.wait_full(s.dq_ring[part]);
    ptx::await_turn(turns, turn);
    if (turn == 0) {
      ptx::bulk_store(sums, dq, bytes);
    } else {
      ptx::bulk_reduce_add(sums, dq, bytes);
    }
    ptx::bulk_commit();
    ptx::bulk_wait_read<0>();
    ptx::mbarrier_arrive(&s.dq_ring[part].empty[0]);
    ptx::bulk_wait<0>();  // until others see the sums: the wait above covers shared memory only
    ptx::pass_turn(turns, turn);
    place.advance();
  }
}

// --- dQ from registers: more columns -----------------------------------------------------------------------

/// Owner, except that it adds only when a thread of the producer warpgroup has its turn.
template <class Tile, class Role>
struct OwnerInTurns : Owner<Tile, Role> {
  using Walk = BackwardWalk<Tile>;
  using Owner<Tile, Role>::Owner;
  Place<1> turn{};

  /// Adds to a query tile. @param tile  its number
  __device__ __forceinline__ void put_dq(int tile) {
    auto& ring = this->with_p.turn_ring[Role::kIndex];
    turn.wait_full(ring);
    Owner<Tile, Role>::put_dq(tile);
    __syncwarp();  // all lanes have added
    turn.release(ring);
  }
};

/// The thread waits for each turn of a consumer, signals the consumer, and passes the turn on once it has
/// added.
template <class Tile>
__device__ __forceinline__ void take_turns(const Backward<typename Tile::T>& a, OwnersMemory<Tile>& s,
                                           const KeyTile& keys, int part) {
  const int turn = keys.first_key / Tile::Bc;
  auto& ring = s.turn_ring[part];
  Place<1> place{};
  for (BackwardWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {
    int* turns = a.turns + walk.number() * Tile::kConsumers + part;
    ptx::await_turn(turns, turn);
    ptx::mbarrier_arrive(&ring.full[0]);
    ptx::mbarrier_wait(&ring.empty[0], place.parity);
    ptx::pass_turn(turns, turn);
    place.advance();
  }
}

}  // namespace fa::ch10
