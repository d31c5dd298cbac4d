/// @file
/// `compressed` on Hopper, forward: chapter 09's `final`, which copies what a list names.
///
/// Tensors and masks as in sparse_attention.cuh. The copy engine brings whole tiles: of keys after the length
/// of their sequence, the values are read too, and set to zero on the chip.
///
///   grid    as many blocks as multiprocessors; they take query tiles from a counter that starts at 0
///   block   Tile::kThreads: a producer warpgroup, and Tile::kConsumers for 64 queries each
///   shared  ListedTilesMemory<Tile>
///   HBM     reads the list of each query tile; if it names any tile, Q, and the keys and values of all that
///           it names; what masks read for partial tiles, and the sink; writes O and LSE
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "09_hopper/choices.cuh"
#include "09_hopper/consumer.cuh"
#include "09_hopper/copies.cuh"
#include "09_hopper/ping_pong.cuh"
#include "09_hopper/products.cuh"
#include "09_hopper/shared_tiles.cuh"
#include "09_hopper/softmax.cuh"
#include "09_hopper/turns.cuh"
#include "09_hopper/work.cuh"
#include "block_mask.cuh"
#include "device/attention.cuh"
#include "device/hopper.cuh"
#include "device/tile.cuh"
#include "hopper_masks.cuh"
#include "hopper_sinks.cuh"
#include "mask_mod.cuh"
#include "mods.cuh"
#include "sinks.cuh"

namespace fa::ch11::hopper {

using ch09::exponentials, ch09::first_query_of_head, ch09::init_barriers, ch09::issue_pv, ch09::issue_qk;
using ch09::pack_p, ch09::query_tile, ch09::query_tiles, ch09::raise_maximum, ch09::scale_rows;
using ch09::Place, ch09::Producer, ch09::QueryTile, ch09::SharedTiles, ch09::Turns;
using ch09::step_in_turn, ch09::take_query_tile, ch09::warpgroup_index;

/// Two consumers at any head_dim: 128 queries, so that a block of 128 in a pattern is one tile. The rest is
/// that of `final`.
template <int d>
struct ListedChoices : ch09::TileChoices {
  static constexpr int kConsumers = 2, kQueryBuffers = 2, kStages = ch09::FinalChoices<d>::kStages;
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
};

/// The list of a query tile, which the producer writes for the consumers.
struct ListedCounts {
  int partial, all;  ///< how many tiles it names: 1 or more
  int keys;          ///< of the sequence
};

/// The shared memory of a block: the tiles, and what the lists say of them.
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

/// The producer: takes the next query tile, and copies the key tiles of its list. One thread. It leaves out
/// query tiles that see nothing.
template <class Tile>
__device__ __forceinline__ void produce_listed(const Attention<typename Tile::T>& a,
                                               const ch09::TensorMaps& maps, const Masks& masks,
                                               const BlockMask& block_mask, ListedTilesMemory<Tile>& s,
                                               int* counter) {
  Producer<Tile> producer{maps, s.tiles};
  const int tiles = query_tiles<Tile>(a);
  for (int n = blockIdx.x; n < tiles;) {
    const QueryTile tile = listed_query_tile<Tile>(n, a);
    const ListEntries list(block_mask, masks, tile.head, tile.first_query / Tile::Br);
    if (list.count == 0) {
      n = take_query_tile(counter);
      continue;
    }
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
    n = take_query_tile(counter);  // as late as in chapter 09
    producer.load_v(before * Tile::Bc, kv_head);
  }
  producer.end();
}

/// The second warp of the producer warpgroup: O = 0 and LSE = -inf, or the sink, for query tiles that see
/// nothing.
template <class Tile, class Sinks>
__device__ __forceinline__ void store_what_sees_nothing(const Attention<typename Tile::T>& a,
                                                        const Masks& masks, const BlockMask& block_mask,
                                                        const Sinks& sinks) {
  const int lane = threadIdx.x % 32, chunks = a.head_dim / 8;  // of a row: 16 bytes each
  for (int n = blockIdx.x; n < query_tiles<Tile>(a); n += gridDim.x) {
    const QueryTile tile = listed_query_tile<Tile>(n, a);
    if (ListEntries(block_mask, masks, tile.head, tile.first_query / Tile::Br).count > 0) continue;
    const HeadRows<typename Tile::T> o = a.o_rows(tile.head);
    const float lse = sinks.logit(tile.head);
    for (int row = 0; row < Tile::Br && tile.first_query + row < a.seq_q; ++row) {
      const int query = tile.first_query + row;
      for (int chunk = lane; chunk < chunks; chunk += 32)
        store_float4(reinterpret_cast<float*>(o[query] + 8 * chunk), {0.0f, 0.0f, 0.0f, 0.0f});
      if (lane == 0) a.lse[std::size_t(tile.head) * a.seq_q + query] = lse;
    }
  }
}

/// The masks of a partial tile, for a consumer.
template <class Tile>
struct PartialTile {
  WgmmaMaskMod<Tile::Bc> mask_mod;
  int first_cleared;  ///< the row of V from which on values are set to zero

  /// Evaluates the masks. @param tile  the queries' head and first row    @param keys  of the sequence
  __device__ __forceinline__ PartialTile(const ch09::Consumer<Tile>& consumer, const Masks& masks,
                                         QueryTile tile, int keys, int key_tile) {
    const int first_key = key_tile * Tile::Bc;
    mask_mod = MasksOfHead(masks, tile.head, keys)
                   .template of_queries<Tile::Bc>(tile.first_query + consumer.warp_row, first_key);
    first_cleared = first_row_to_clear<Tile::Bc>(masks, keys, first_key);
  }
  /// Clears the values that the next P V must not see. All consumers call it for the same tile.
  __device__ __forceinline__ void clear_values(ch09::Consumer<Tile>& consumer) const {
    if (first_cleared == Tile::Bc) return;
    constexpr int kThreads = 128 * Tile::kConsumers;
    consumer.v.wait_full(consumer.s.v_ring);
    clear_rows<Tile::Bc, Tile::kCols>(consumer.s.v[consumer.v.stage], first_cleared,
                                      128 * consumer.index + threadIdx.x % 128, kThreads);
    ptx::fence_proxy_async();
    ptx::barrier_sync(7, kThreads);
  }
};

/// step_in_turn() of chapter 09 for a partial tile. The masks are evaluated before the turn, while the other
/// warpgroup multiplies.
template <class Tile>
__device__ __forceinline__ void partial_step_in_turn(ch09::Consumer<Tile>& consumer,
                                                     const Turns<Tile::kConsumers>& turn,
                                                     const ListedTilesMemory<Tile>& s, const Masks& masks,
                                                     QueryTile tile, int keys) {
  consumer.k.wait_unless_landed(consumer.s.k_ring);
  const PartialTile<Tile> partial(consumer, masks, tile, keys, s.key_tile[consumer.k.stage]);
  consumer.v.wait_unless_landed(consumer.s.v_ring);
  turn.take();
  ptx::wgmma_fence();
  issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
  ptx::wgmma_commit();
  issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
  ptx::wgmma_commit();
  turn.pass();
  ptx::wgmma_wait<1>(consumer.rS);
  consumer.k.release(consumer.s.k_ring);
  partial.mask_mod(consumer.rS);
  float correction[2];
  const bool grew = raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor);
  ptx::wgmma_wait<0>(consumer.rO);
  consumer.v.release(consumer.s.v_ring);
  if (grew) scale_rows(consumer.rO, correction);
  partial.clear_values(consumer);
  consumer.k.look(consumer.s.k_ring);
  consumer.v.look(consumer.s.v_ring);
  exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
  pack_p<Tile>(consumer.rP, consumer.rS);
}

/// The end of a query tile's rows, with sinks or without. @tparam Sinks  NoSinks or WithSinks
template <class Sinks, class Tile>
__device__ __forceinline__ void finish_rows(ch09::Consumer<Tile>& consumer, float sink) {
  if constexpr (std::is_same_v<Sinks, WithSinks>) {
    join_and_finish_rows(consumer, sink);
  } else {
    consumer.finish_rows();
  }
}

/// The scores of a head, and its sink, for rows that are computed again.
template <class T>
struct PairsAndSink : MaskedPairs<T> {
  float exponent_of_sink;
  __device__ __forceinline__ float sink() const { return exponent_of_sink; }
};
template <class T>
PairsAndSink(const MaskedPairs<T>&, float) -> PairsAndSink<T>;

/// Partial tiles in a loop with masks, then full ones in the loop of chapter 09. As there, the first Q K^T of
/// the next query tile is issued with the last P V of this one.
/// @tparam Sinks  NoSinks or WithSinks
template <class Tile, class Sinks>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    listed_attention(Attention<typename Tile::T> a, const __grid_constant__ ch09::TensorMaps maps,
                     Masks masks, BlockMask block_mask, int* counter, Sinks sinks) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<ListedTilesMemory<Tile>*>(smem);
  static_assert(Tile::kQueryBuffers == 2);
  init_barriers(s.tiles);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x / 32 == 0 && ptx::elect_sync()) produce_listed(a, maps, masks, block_mask, s, counter);
    if (threadIdx.x / 32 == 1) store_what_sees_nothing<Tile>(a, masks, block_mask, sinks);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    ch09::Consumer<Tile> consumer(a, s.tiles, warpgroup - 1);
    const Turns<Tile::kConsumers> turn{consumer.index};
    consumer.q.wait_full(s.tiles.q_ring);
    QueryTile tile = s.tiles.query_tile[0];
    if (tile.head < 0) return;  // no query tile of this block sees anything
    turn.begin();
    consumer.k.wait_full(s.tiles.k_ring);
    turn.take();
    ptx::wgmma_fence();
    issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
    ptx::wgmma_commit();
    turn.pass();
    while (true) {
      const ListedCounts counts = s.counts[consumer.q.stage];
      const int key_tile = s.key_tile[consumer.k.stage];
      const float sink = sinks.exponent(tile.head);  // early: nothing waits for it at the end
      __syncwarp();  // all lanes have read it: the producer may write the next one
      ptx::wgmma_wait<0>(consumer.rS);
      consumer.reset();
      consumer.k.release(s.tiles.k_ring);
      if (counts.partial > 0) {
        const PartialTile<Tile> partial(consumer, masks, tile, counts.keys, key_tile);
        partial.mask_mod(consumer.rS);
        partial.clear_values(consumer);
      }
      float correction[2];
      raise_maximum<Tile>(consumer.state, correction, consumer.rS, consumer.factor);
      exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
      pack_p<Tile>(consumer.rP, consumer.rS);

      int entry = 1;
      for (; entry < counts.partial; ++entry)
        partial_step_in_turn(consumer, turn, s, masks, tile, counts.keys);
      for (; entry < counts.all; ++entry) step_in_turn<false>(consumer, turn, 0, 0);

      Place<Tile::kQueryBuffers> next = consumer.q;
      next.advance();
      next.wait_full(s.tiles.q_ring);
      const QueryTile next_tile = s.tiles.query_tile[next.stage];
      const bool more = next_tile.head >= 0;
      consumer.v.wait_full(s.tiles.v_ring);
      if (more) consumer.k.wait_full(s.tiles.k_ring);
      turn.take();
      ptx::wgmma_fence();
      issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
      ptx::wgmma_commit();
      issue_qk<Tile>(consumer.rS, more ? consumer.q_rows(next) : consumer.first_k,
                     more ? consumer.k_tile() : consumer.first_k);
      ptx::wgmma_commit();
      turn.pass();
      finish_rows<Sinks>(consumer, sink);
      ptx::wgmma_wait<1>(consumer.rO);
      consumer.v.release(s.tiles.v_ring);
      const MaskedPairs<typename Tile::T> pairs(a, masks, tile.head);
      consumer.store(maps, tile, PairsAndSink{pairs, sink});
      consumer.q.release(s.tiles.q_ring);
      tile = next_tile;
      if (!more) break;
    }
    ptx::wgmma_wait<0>(consumer.rS);
    turn.end();
  }
}

}  // namespace fa::ch11::hopper
