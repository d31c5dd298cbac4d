/// @file
/// `compressed` on Hopper, forward: chapter 09's kernel with consumers that take turns, which copies what a list names.
///
/// Tensors and masks as in kernel.cuh. The copy engine brings whole tiles: of keys after the length of their sequence, the
/// values are read too, and set to zero on the chip.
///
///   grid    as many blocks as multiprocessors; they take query tiles from a counter that starts at 0
///   block   Tile::kThreads: a producer warpgroup, and Tile::kConsumers for 64 queries each
///   shared  ListedTilesMemory<Tile>
///   HBM     reads Q once, and for each query tile its list, and the keys and values of all tiles that it names; of the masks
///           what each warp asks about partial tiles; writes O and LSE
#pragma once

#include <cuda_runtime.h>

#include "09_hopper/choices.cuh"
#include "09_hopper/consumer.cuh"
#include "09_hopper/copies.cuh"
#include "09_hopper/ping_pong.cuh"
#include "09_hopper/products.cuh"
#include "09_hopper/shared_tiles.cuh"
#include "09_hopper/softmax.cuh"
#include "09_hopper/turns.cuh"
#include "09_hopper/work.cuh"
#include "device/attention.cuh"
#include "device/hopper.cuh"
#include "hopper_masks.cuh"
#include "lists.cuh"
#include "masks.cuh"

namespace fa::ch11 {

using namespace ch09;

/// Two consumers at any head_dim: 128 queries, so that a block of 128 in a pattern is one tile.
struct ListedChoices : TileChoices {
  static constexpr int kConsumers = 2, kQueryBuffers = 2;
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
};

/// The list of a query tile, as the producer tells the consumers.
struct ListedCounts {
  int partial, all;  ///< how many tiles it names
  int keys;          ///< of the sequence
};

/// The shared memory of a block: the tiles, and what the producer knows of them from the lists.
template <class Tile>
struct __align__(1024) ListedTilesMemory {
  SharedTiles<Tile> tiles;
  ListedCounts counts[Tile::kQueryBuffers];  ///< for the queries in q
  int key_tile[Tile::kStages];               ///< which one is in k
};

/// Query tile n in the order of chapter 09. Tiles begin at query 0, as the lists have them.
template <class Tile>
__device__ __forceinline__ QueryTile listed_query_tile(int n, const Attention<typename Tile::T>& a) {
  QueryTile tile = query_tile<Tile>(n, a);
  tile.first_query -= first_query_of_head<Tile>(a.seq_q);
  return tile;
}

/// The producer: takes the next query tile, and copies the key tiles of its list. One thread; nobody else reads the lists.
template <class Tile>
__device__ __forceinline__ void produce_listed(const Attention<typename Tile::T>& a, const TensorMaps& maps,
                                               const Masks& masks, const TileLists& lists,
                                               ListedTilesMemory<Tile>& s, int* counter) {
  Producer<Tile> producer{maps, s.tiles};
  const int tiles = query_tiles<Tile>(a);
  for (int n = blockIdx.x; n < tiles;) {
    const int next = gridDim.x + atomicAdd(counter, 1);  // its latency passes during the copies
    const QueryTile tile = listed_query_tile<Tile>(n, a);
    const TileList list(lists, masks, tile.head, tile.first_query / Tile::Br);
    const int kv_head = a.kv_head(tile.head);
    producer.q.wait_empty(s.tiles.q_ring);
    s.counts[producer.q.stage] = {list.partial, list.count, masks.of(tile.head).keys};
    producer.load_q(tile);
    int before = 0;  // the key tile whose values follow the next keys
    for (int entry = 0; entry < list.count; ++entry) {
      const int key_tile = list[entry];
      producer.k.wait_empty(s.tiles.k_ring);
      s.key_tile[producer.k.stage] = key_tile;
      producer.load_k(key_tile * Tile::Bc, kv_head);
      if (entry > 0) producer.load_v(before * Tile::Bc, kv_head);
      before = key_tile;
    }
    if (list.count > 0) producer.load_v(before * Tile::Bc, kv_head);
    n = next;
  }
  producer.end();
}

/// What a consumer must know of a partial tile.
template <class Tile>
struct PartialTile {
  Hidden<Tile::Bc> hidden;
  int first_cleared;  ///< the row of V from which on values are set to zero

  /// Asks about the tile that is next in the ring of K, whose keys have landed. @param tile  the queries' head and first row
  __device__ __forceinline__ PartialTile(const Consumer<Tile>& w, const ListedTilesMemory<Tile>& s,
                                         const Masks& masks, QueryTile tile) {
    const int first_key = s.key_tile[w.k.stage] * Tile::Bc, keys = s.counts[w.q.stage].keys;
    hidden = KnownMasks(masks, tile.head, keys)
                 .template hidden_keys<Tile::Bc>(tile.first_query + w.warp_row, first_key);
    first_cleared = first_row_to_clear<Tile::Bc>(masks, keys, first_key);
  }
  /// Clears the values that the next P V must not see. All consumers call it for the same tile.
  __device__ __forceinline__ void clear_values(Consumer<Tile>& w) const {
    if (first_cleared == Tile::Bc) return;
    constexpr int kThreads = 128 * Tile::kConsumers;
    w.v.wait_full(w.s.v_ring);
    clear_rows<Tile::Bc, Tile::kCols>(w.s.v[w.v.stage], first_cleared, 128 * w.index + threadIdx.x % 128,
                                      kThreads);
    ptx::fence_proxy_async();
    ptx::barrier_sync(7, kThreads);
  }
};

/// step_in_turn() of chapter 09 for a partial tile. The questions come before the turn, while the other warpgroup multiplies.
template <class Tile>
__device__ __forceinline__ void partial_step_in_turn(Consumer<Tile>& w, const Turns<Tile::kConsumers>& turn,
                                                     const ListedTilesMemory<Tile>& s, const Masks& masks,
                                                     QueryTile tile) {
  w.k.wait_unless_landed(w.s.k_ring);
  const PartialTile<Tile> partial(w, s, masks, tile);
  w.v.wait_unless_landed(w.s.v_ring);
  turn.take();
  ptx::wgmma_fence();
  issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());
  ptx::wgmma_commit();
  issue_pv<Tile>(w.rO, w.rP, w.v_tile());
  ptx::wgmma_commit();
  turn.pass();
  ptx::wgmma_wait<1>(w.rS);
  w.k.release(w.s.k_ring);
  partial.hidden.hide(w.rS);
  float correction[2];
  const bool grew = raise_maximum<Tile>(w.state, correction, w.rS, w.factor);
  ptx::wgmma_wait<0>(w.rO);
  w.v.release(w.s.v_ring);
  if (grew) scale_rows(w.rO, correction);
  partial.clear_values(w);
  w.k.look(w.s.k_ring);
  w.v.look(w.s.v_ring);
  exponentials<Tile>(w.rS, w.state, w.factor);
  pack_p<Tile>(w.rP, w.rS);
}

/// The first tile of a list: its scores, with nothing beside them.
template <class Tile>
__device__ __forceinline__ void first_scores_in_turn(Consumer<Tile>& w, const Turns<Tile::kConsumers>& turn) {
  turn.take();
  ptx::wgmma_fence();
  issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());
  ptx::wgmma_commit();
  turn.pass();
  ptx::wgmma_wait<0>(w.rS);
  w.k.release(w.s.k_ring);
}

/// Partial tiles in a loop that asks, then full ones in the loop of chapter 09. A query tile without key tiles is stored as it
/// is: O = 0, l = 0.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    listed_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps, Masks masks,
                     TileLists lists, int* counter) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<ListedTilesMemory<Tile>*>(smem);
  init_barriers(s.tiles);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) produce_listed(a, maps, masks, lists, s, counter);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    Consumer<Tile> w(a, s.tiles, warpgroup - 1);
    const Turns<Tile::kConsumers> turn{w.index};
    turn.begin();
    while (true) {
      w.q.wait_full(s.tiles.q_ring);
      const QueryTile tile = s.tiles.query_tile[w.q.stage];
      if (tile.head < 0) break;
      const ListedCounts counts = s.counts[w.q.stage];
      w.reset();
      if (counts.all > 0) {
        w.k.wait_full(s.tiles.k_ring);
        float correction[2];
        if (counts.partial > 0) {
          const PartialTile<Tile> partial(w, s, masks, tile);
          first_scores_in_turn(w, turn);
          partial.hidden.hide(w.rS);
          partial.clear_values(w);
        } else {
          first_scores_in_turn(w, turn);
        }
        raise_maximum<Tile>(w.state, correction, w.rS, w.factor);
        exponentials<Tile>(w.rS, w.state, w.factor);
        pack_p<Tile>(w.rP, w.rS);

        int entry = 1;
        for (; entry < counts.partial; ++entry) partial_step_in_turn(w, turn, s, masks, tile);
        for (; entry < counts.all; ++entry) step_in_turn<false>(w, turn, 0, 0);

        w.v.wait_full(s.tiles.v_ring);
        turn.take();
        ptx::wgmma_fence();
        issue_pv<Tile>(w.rO, w.rP, w.v_tile());
        ptx::wgmma_commit();
        turn.pass();
        ptx::wgmma_wait<0>(w.rO);
        w.v.release(s.tiles.v_ring);
      }
      w.finish_rows();
      w.store(maps, tile);
      w.q.release(s.tiles.q_ring);
    }
    turn.end();
  }
}

}  // namespace fa::ch11
