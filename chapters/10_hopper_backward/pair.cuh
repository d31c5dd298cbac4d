/// @file
/// Two blocks of a cluster own neighbouring key tiles of a head, and share the additions to dQ. Each owns
/// every second query tile: it gets the other block's dS of it, multiplies the dS of all 256 keys, and adds
/// once.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward.cuh"
#include "choices.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/clusters.cuh"
#include "device/declare_members.cuh"
#include "device/hopper.cuh"
#include "dq_sums.cuh"
#include "gradients.cuh"
#include "products.cuh"
#include "shared_tiles.cuh"
#include "work.cuh"

namespace fa::ch10 {

template <class Element, int kHeadDimension>
struct PairTiles : KeyTiles<Element, kHeadDimension> {
  static constexpr int kDsStages = 1;  ///< of the block's own query tiles
};

/// KeyTileMemory, in which dS is that of the block's own query tiles, with what the other block has to do
/// with it.
template <class Tile>
struct __align__(1024) PairMemory {
  using T = typename Tile::T;
  KeyTileMemory<Tile> tiles;
  T other_k[Tile::Bc * Tile::kHeadDim];  ///< the other block's keys
  T sent[Tile::Bc * Tile::Br];           ///< dS of the other block's query tiles, which a copy reads
  T received[Tile::Bc * Tile::Br];       ///< the other block's dS of own query tiles
  std::uint64_t other_k_full;
  RingBarriers<1> sent_ring, received_ring;  ///< full and empty for the consumers, as for any other tile
  // For the threads that exchange the tiles. The other block arrives at all three.
  std::uint64_t landed;    ///< here: its dS
  std::uint64_t copied;    ///< there: what this block has sent
  std::uint64_t may_send;  ///< the other block has multiplied the tile before
};

/// Initialises all barriers of the block. Every thread of the cluster calls it, once.
template <class Tile>
__device__ __forceinline__ void init_barriers(PairMemory<Tile>& s) {
  if (threadIdx.x == 0) {
    declare_members(s);
    init_tiles(s.tiles);
    ptx::mbarrier_init(&s.other_k_full, 1);
    ptx::mbarrier_init(&s.sent_ring.full[0], Tile::kDsWarps);
    ptx::mbarrier_init(&s.sent_ring.empty[0], 1);
    ptx::mbarrier_init(&s.received_ring.full[0], 1);
    ptx::mbarrier_init(&s.received_ring.empty[0], 4 * Tile::kConsumers);
    ptx::mbarrier_init(&s.landed, 1);
    ptx::mbarrier_init(&s.copied, 1);
    ptx::mbarrier_init(&s.may_send, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive(&s.received_ring.full[0]);  // the first tile is of zeros, and stored here
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

/// The key tiles of a head in pairs: the last one of an odd number has a neighbour without keys.
template <class Tile>
__device__ __forceinline__ KeyTile key_tile_of_pair(int block, const Attention<typename Tile::T>& a) {
  const int tiles = (a.seq_k + 2 * Tile::Bc - 1) / (2 * Tile::Bc) * 2;
  return {block / tiles, block % tiles * Tile::Bc};
}

/// Iterates over the query tiles that see one of the pair's keys, two by two: first the one that the other
/// block owns, then its own. Block 0 of the pair owns the even ones. padded_queries is a multiple of 2 * Br.
template <class Tile>
struct PairWalk : QueryWalk<Tile> {
  using QueryWalk<Tile>::tile;

  __device__ __forceinline__ PairWalk(const Backward<typename Tile::T>& a, const KeyTile& keys, int rank)
      : QueryWalk<Tile>(a, {keys.kv_head, keys.first_key - rank * Tile::Bc}) {
    tile = this->first_tile = this->first_tile / 2 * 2 + 1 - rank;
  }
  /// From the other block's tile to the block's own.
  __device__ __forceinline__ void to_own() { tile ^= 1; }
  /// From the first tile of a pair: the block's own tile of the pair before, counted through all heads.
  __device__ __forceinline__ int own_before() const {
    const bool new_head = tile == this->first_tile;
    const int pair = (new_head ? this->end_tile : tile / 2 * 2) - 2;
    return (new_head ? this->head - 1 : this->head) * this->end_tile + pair + (tile ^ 1) % 2;
  }
  __device__ __forceinline__ void to_next_pair() {
    tile = (tile ^ 1) + 2;
    if (tile >= this->end_tile) {
      tile = this->first_tile;
      ++this->head;
    }
  }
};

/// The producer: one thread.
template <class Tile>
__device__ __forceinline__ void produce_pair(const Backward<typename Tile::T>& a, const TensorMaps& maps,
                                             PairMemory<Tile>& s, const KeyTile& keys, int rank) {
  load_keys<Tile>(maps, s.tiles, keys);
  ptx::mbarrier_arrive_expect_tx(&s.other_k_full, sizeof s.other_k);
  load_panels<Tile::Bc, Tile::kHeadDim>(s.other_k, maps.k, s.other_k_full,
                                        keys.first_key + (1 - 2 * rank) * Tile::Bc, keys.kv_head);
  Place<Tile::kStages> at{};
  for (PairWalk<Tile> walk(a, keys, rank); !walk.done();) {
    load_query_tile<Tile>(a, maps, s.tiles, at, walk);
    at.advance();
    if (at.stage == 0) {
      walk.to_next_pair();
    } else {
      walk.to_own();
    }
  }
}

/// The second warp of the producer warpgroup: one thread, which alone speaks with the other block. An arrival
/// there waits until what the thread has written is visible to it, and a wait for an arrival from there
/// empties the L1 cache.
template <class Tile>
__device__ __forceinline__ void exchange_ds(const Backward<typename Tile::T>& a, PairMemory<Tile>& s,
                                            const KeyTile& keys, int rank) {
  const int other = 1 - rank;
  Place<1> at{};
  for (PairWalk<Tile> walk(a, keys, rank); !walk.done(); walk.to_next_pair()) {
    ptx::mbarrier_wait(&s.received_ring.empty[0], at.parity);  // the tile before, at first the zeros
    ptx::mbarrier_arrive_expect_tx(&s.landed, sizeof s.received);
    ptx::mbarrier_arrive_cluster(ptx::mapa(&s.may_send, other));
    at.wait_full(s.sent_ring);
    ptx::mbarrier_wait_cluster(&s.may_send, at.parity);
    ptx::bulk_copy_cluster(ptx::mapa(s.received, other), s.sent, sizeof s.sent, ptx::mapa(&s.landed, other));
    ptx::mbarrier_wait_cluster(&s.landed, at.parity);
    ptx::mbarrier_arrive(&s.received_ring.full[0]);
    ptx::mbarrier_arrive_cluster(ptx::mapa(&s.copied, other));
    ptx::mbarrier_wait_cluster(&s.copied, at.parity);
    ptx::mbarrier_arrive(&s.sent_ring.empty[0]);
    at.advance();
  }
}

/// Adds the dQ of other keys, with their dS, to that of issue_dq().
template <class Tile>
__device__ __forceinline__ void issue_more_dq(DqPart<Tile>& r, std::uint64_t ds, std::uint64_t k) {
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step)
    ptx::wgmma<typename Tile::T, true, true, true>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));
}

/// In a cluster, bits 24 to 27 of an address in shared memory are the block's rank. A descriptor has only 18
/// bits of it, so that the rank is added to the distance of the panels, unless it is removed.
__device__ __forceinline__ std::uint64_t without_rank(std::uint64_t descriptor) {
  return descriptor & ~(std::uint64_t(15) << (24 - 4));
}

/// A consumer of a pair: dQ sums over the keys of both blocks.
template <class Tile>
struct PairConsumer : Consumer<Tile> {
  using T = typename Tile::T;
  PairMemory<Tile>& pair;

  __device__ __forceinline__ PairConsumer(const Backward<T>& backward, PairMemory<Tile>& shared,
                                          const KeyTile& of_block, int consumer)
      : Consumer<Tile>(backward, shared.tiles, of_block, consumer), pair(shared) {
    this->first_q_summed = without_rank(this->first_q_summed);
    this->first_do_summed = without_rank(this->first_do_summed);
  }

  /// Stores zeros for both dS.
  __device__ __forceinline__ void store_zeros() {
    Place<Tile::kDsStages> place{};
#pragma unroll
    for (auto& step : this->rdS) {
#pragma unroll
      for (std::uint32_t& pairs : step) pairs = 0;
    }
    store_ds<Tile>(pair.received, this->rdS, this->warp_key);
    Consumer<Tile>::store_zeros(place);
  }
  __device__ __forceinline__ float* sums_of(int tile) const {
    return this->a.dq_sum + size_t(tile) * Tile::kQueryTile;
  }
  __device__ __forceinline__ int last_own(int rank) const {
    return PairWalk<Tile>(this->a, this->keys, rank).end_head * (this->a.padded_queries / Tile::Br) - 2 +
           rank;
  }
  __device__ __forceinline__ void release_q(int stage) {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&this->s.q_ring.empty[stage]);
  }
  /// Waits for the dS of all keys and issues their dQ.
  __device__ __forceinline__ void issue_dq_of_pair(const Place<Tile::kDsStages>& place) {
    place.wait_full(this->s.ds_ring);
    place.wait_full(pair.received_ring);
    ptx::wgmma_fence();
    issue_dq<Tile>(this->rdQ, this->ds(place.stage), this->k_of_dq);
    issue_more_dq<Tile>(this->rdQ, moved(this->first_ds, int(pair.received - this->s.ds[0]) * int(sizeof(T))),
                        moved(this->k_of_dq, int(pair.other_k - this->s.k) * int(sizeof(T))));
    ptx::wgmma_commit();
  }
};

/// `decoupled` by two blocks. Of a pair of query tiles, a block computes the dS of the other block's first,
/// and sends it while it computes that of its own. dQ of its own tile follows one step later.
///
///   grid    batch * kv_heads * 2 * ceil(seq_k / (2 * Bc)), in clusters of two
///   smem    sizeof(PairMemory<Tile>)
///   HBM     as `decoupled`, but half of the additions, and K twice. R and P are sums over pairs of key
///           tiles, twice each, with first = first_query(first key of the pair) / (2 * Br) * 2 * Br
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    pair_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& pair = *reinterpret_cast<PairMemory<Tile>*>(smem);
  init_barriers(pair);
  auto& s = pair.tiles;
  const KeyTile keys = key_tile_of_pair<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index(), rank = ptx::cluster_ctarank();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x / 32 == 0 && ptx::elect_sync()) produce_pair<Tile>(a, maps, pair, keys, rank);
    if (threadIdx.x / 32 == 1 && ptx::elect_sync()) exchange_ds<Tile>(a, pair, keys, rank);
    __syncwarp();
    ptx::barrier_cluster_arrive();
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    PairConsumer<Tile> w(a, pair, keys, warpgroup - 1);
    w.store_zeros();
    Place<1> round{};  // one for each pair of query tiles; dS of own tiles is stored in the round before it
                       // is multiplied
    ptx::mbarrier_wait(&s.kv_full, 0);
    w.at.wait_full(s.q_ring);
    ptx::wgmma_fence();
    issue_scores<Tile>(w.rS, w.k_rows, w.in_stage(w.first_q));
    ptx::wgmma_commit();
    ptx::mbarrier_wait(&pair.other_k_full, 0);
    bool first = true;
    for (PairWalk<Tile> walk(a, keys, rank); !walk.done(); first = false) {
      // A query tile of the other block.
      w.at.stage = 0;  // as it is: this tells the compiler
      ptx::wgmma_wait<0>(w.rS, w.rdK);
      if (!first) w.release_q(1);
      w.p_and_ds(walk);
      round.wait_empty(pair.sent_ring);
      store_ds<Tile>(pair.sent, w.rdS, w.warp_key);
      ptx::fence_proxy_async();
      warp_arrives(pair.sent_ring.full[0]);
      ptx::wgmma_wait<0>(w.rdV);
      w.at.leave(s.do_ring);
      w.issue_dq_of_pair(round);
      issue_key_gradient<Tile>(w.rdK, w.rdS, w.in_stage(w.first_q_summed));
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(w.rdQ);
      round.leave(pair.received_ring);
      round.release(s.ds_ring);
      if (!first) add_to_sums<Tile>(w.sums_of(walk.own_before()), w.rdQ, w.index);
      walk.to_own();
      w.issue_next_scores(walk);
      // One of its own.
      ptx::wgmma_wait<0>(w.rS, w.rdK);
      w.release_q(0);
      w.p_and_ds(walk);
      round.wait_empty(s.ds_ring);
      // Without the shuffle, the compiler keeps the addresses of `sent` for this tile, and spills at
      // head_dim 64.
      store_ds<Tile>(s.ds[0], w.rdS, __shfl_sync(kAllLanes, w.warp_key, 0));
      ptx::fence_proxy_async();
      warp_arrives(s.ds_ring.full[0]);
      ptx::wgmma_fence();
      issue_key_gradient<Tile>(w.rdK, w.rdS, w.in_stage(w.first_q_summed));
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>(w.rdV);
      w.at.leave(s.do_ring);
      walk.to_next_pair();
      w.issue_next_scores(walk);
    }
    ptx::wgmma_wait<0>(w.rS, w.rdK);
    w.issue_dq_of_pair(round);
    ptx::wgmma_wait<0>(w.rdQ);
    ptx::barrier_cluster_arrive();
    add_to_sums<Tile>(w.sums_of(w.last_own(rank)), w.rdQ, w.index);
    w.store_gradients(maps);
  }
  // Nobody ends while the other block may still write here. exchange_ds() waits for all of that; this does
  // not rely on it.
  ptx::barrier_cluster_wait();
}

}  // namespace fa::ch10
