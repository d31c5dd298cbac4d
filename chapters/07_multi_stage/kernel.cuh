/// @file
/// FlashAttention v2 tuned for the instructions of sm_80: cp.async copies, mma and exponentials overlap.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], all __half or
/// __nv_bfloat16; LSE is [batch, heads, seq_q], fp32. Any lengths >= 1, any kv_heads that divides heads, any
/// strides that are multiples of 16 bytes, and any head_dim that is a multiple of 8, up to the kernel's d.
/// Columns from head_dim to d are zeros on the chip and do not exist in HBM. A row that sees no key has O = 0
/// and LSE = -inf.
///
/// A masked key has weight 0, but is multiplied all the same unless its whole slice is hidden: NaN or
/// infinity in its value reaches O. Causal masks are aligned to the bottom right: device/attention.cuh.
///
/// Four kernels, FlashAttention v2 (Algorithm 1 of Dao 2023) with four schedules. All of them have
///
///   grid    batch * heads * ceil(seq_q / Br), in the order that Tile::Order gives
///   block   Tile::kThreads: one warp per kWarpRows queries
///   shared  Tile::kSharedBytes: a tile of Q, then of O; kStages tiles of K and of V
///   HBM     reads Q once, and for each block the keys and values that its last query sees; writes O and LSE
///
/// choices.cuh has the sizes, block.cuh the work of a block, copies.cuh the loads and stores, softmax.cuh
/// what a warp does with a tile. Unless Q stays in registers, the first wait of a main loop covers Q as well:
/// its group is the oldest.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "block.cuh"
#include "choices.cuh"
#include "copies.cuh"
#include "device/attention.cuh"
#include "device/cp_async.cuh"
#include "device/declare_rows.cuh"
#include "device/padding.cuh"
#include "softmax.cuh"

namespace fa::ch07 {

// --- stages: K and V of a tile together ----------------------------------------------------------------

/// One stage: the copy of a tile and the work on it take turns.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    single_stage_attention(Attention<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc;
  static_assert(Tile::kSlice == Bc, "one softmax step takes the whole tile");
  const Block<Tile> block(a);
  const int first_query = block.first_query + block.warp_row;  // of the warp
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Br * d;
  T* sV = sK + Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  const int tiles = block.key_tiles();

  load_q(sQ, block);
  cp_async_commit();
  const QueryFragments<Tile> rQ = load_queries<Tile, 0>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  for (int tile = 0; tile < tiles; ++tile) {
    __syncthreads();  // every warp has finished with the previous tile
    load_kv(sK, block.gK, tile * Bc, block);
    load_kv(sV, block.gV, tile * Bc, block);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();  // the tile has landed
    Scores<Tile> rS = {};
    multiply_qk<Tile>(rS, rQ, sK);
    if (tile * Bc + Bc > block.seen_by_first) mask<Tile>(rS, a, first_query, tile * Bc);
    rescale<Tile>(acc, rS, block.factor);
    multiply_pv<Tile>(acc, rS, sV, block.factor);
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, PlainPairs{a});
}

/// Two stages or more: while a tile is in use, the next kStages - 1 are in flight. Tile j is in stage j %
/// kStages.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    multi_stage_attention(Attention<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kStages = Tile::kStages;
  static_assert(Tile::kSlice == Bc && kStages >= 2);
  const Block<Tile> block(a);
  const int first_query = block.first_query + block.warp_row;  // of the warp
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Br * d;
  T* sV = sK + kStages * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  const int tiles = block.key_tiles();

  load_q(sQ, block);
  cp_async_commit();
  // EXERCISE 4: Start the copies of the first kStages - 1 tiles, each to a different stage and as a separate group.
  for (int n = 0; n < kStages - 1; ++n) {
    if (n < tiles) {
      load_kv(sK + n * Tile::kTile, block.gK, n * Bc, block);
      load_kv(sV + n * Tile::kTile, block.gV, n * Bc, block);
    }
    cp_async_commit();
  }
  // END 4
  const QueryFragments<Tile> rQ = load_queries<Tile, kStages - 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  int stage = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    // EXERCISE 5: Wait until this tile has landed for every warp, and wait for no other tile.
    cp_async_wait<kStages - 2>();
    __syncthreads();  // the tile has landed; every warp has left the previous one: its stage is free
    // END 5
    // EXERCISE 6: Start the copy of the tile kStages - 1 further on, to the stage that is free, as a group.
    if (tile + kStages - 1 < tiles) {
      const int free = (stage + kStages - 1) % kStages * Tile::kTile;
      load_kv(sK + free, block.gK, (tile + kStages - 1) * Bc, block);
      load_kv(sV + free, block.gV, (tile + kStages - 1) * Bc, block);
    }
    cp_async_commit();  // near the end an empty group: the wait counts groups
    // END 6
    Scores<Tile> rS = {};
    multiply_qk<Tile>(rS, rQ, sK + stage * Tile::kTile);
    if (tile * Bc + Bc > block.seen_by_first) mask<Tile>(rS, a, first_query, tile * Bc);
    rescale<Tile>(acc, rS, block.factor);
    multiply_pv<Tile>(acc, rS, sV + stage * Tile::kTile, block.factor);
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, PlainPairs{a});
}

// --- split_kv: K and V alternate -----------------------------------------------------------------------

/// One stage, with separate groups for K and V: each is in flight while the other is in use.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    split_kv_attention(Attention<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc;
  static_assert(Tile::kSlice == Bc, "one softmax step takes the whole tile");
  const Block<Tile> block(a);
  const int first_query = block.first_query + block.warp_row;  // of the warp
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Br * d;
  T* sV = sK + Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  const int tiles = block.key_tiles();

  load_q(sQ, block);
  cp_async_commit();
  load_kv(sK, block.gK, 0, block);
  cp_async_commit();
  const QueryFragments<Tile> rQ = load_queries<Tile, 1>(sQ + block.warp_row * d);

  Accumulators<Tile> acc;
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<0>();
    __syncthreads();  // K has landed; every warp has finished with the previous V
    load_kv(sV, block.gV, tile * Bc, block);
    cp_async_commit();  // in flight during Q K^T
    Scores<Tile> rS = {};
    multiply_qk<Tile>(rS, rQ, sK);
    if (tile * Bc + Bc > block.seen_by_first) mask<Tile>(rS, a, first_query, tile * Bc);
    rescale<Tile>(acc, rS, block.factor);
    cp_async_wait<0>();
    __syncthreads();  // V has landed; every warp has finished with K
    if (tile + 1 < tiles) load_kv(sK, block.gK, (tile + 1) * Bc, block);
    cp_async_commit();  // in flight during the exponentials and P V
    multiply_pv<Tile>(acc, rS, sV, block.factor);
  }
  store<Tile>(acc, block, sQ + block.warp_row * d, PlainPairs{a});
}

// --- masked_first: key tiles from the last to the first -------------------------------------------------

/// Two stages or more, and the keys backwards: tiles with hidden keys come first, in a separate loop.
/// Every row sees every key of the remaining tiles: the second loop has no mask. Both loops copy whole tiles
/// only.
///
/// A softmax step takes a slice of a tile, kSlice keys.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    masked_first_attention(Attention<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc;
  constexpr int kStages = Tile::kStages, kSlice = Tile::kSlice;
  static_assert(kStages >= 2);
  const Block<Tile> block(a);
  const int first_query = block.first_query + block.warp_row;  // of the warp
  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Br * d;
  T* sV = sK + kStages * Tile::kTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, Tile::kRowsInShared, a.head_dim);
  // The last of the warp's rows sees the most keys, and every row sees those that the first one sees.
  const int seen_by_warp = a.visible_keys(min(first_query + Tile::kWarpRows, a.seq_q) - 1);
  const int seen_by_all = min(a.visible_keys(first_query), seen_by_warp);
  const int tiles = block.key_tiles();
  // EXERCISE 7: Count the tiles, from key 0 on, that need no mask, in first_masked. After Q, start the first kStages - 1 of the walk.
  const int first_masked = min(block.seen_by_first, block.seen_by_last) / Bc;
  load_q(sQ, block);
  cp_async_commit();
  for (int n = 0; n < kStages - 1; ++n) {
    if (n < tiles) {
      load_kv(sK + n * Tile::kTile, block.gK, (tiles - 1 - n) * Bc, block);
      load_kv(sV + n * Tile::kTile, block.gV, (tiles - 1 - n) * Bc, block);
    }
    cp_async_commit();
  }
  // END 7
  const QueryFragments<Tile> rQ = load_queries<Tile, kStages - 1>(sQ + block.warp_row * d);

  // The copies that have not started. Only the last tile can be ragged, and its copy has.
  TilesBackwards<Tile> next_k(block.gK, tiles - kStages, a.head_dim),
      next_v(block.gV, tiles - kStages, a.head_dim);

  Accumulators<Tile> acc;
  int tile = tiles - 1, stage = 0;
  // EXERCISE 8: Walk through the tiles, down to first_masked with a mask, and from there to tile 0 without.
  const auto wait_and_prefetch = [&] {
    cp_async_wait<kStages - 2>();
    __syncthreads();  // the tile has landed; every warp has left the previous one: its stage is free
    if (tile >= kStages - 1) {
      const int free = (stage + kStages - 1) % kStages * Tile::kTile;
      next_k.load(sK + free);
      next_v.load(sV + free);
    }
    cp_async_commit();
  };
  for (; tile >= first_masked; --tile) {
    wait_and_prefetch();
#pragma unroll 1
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int first_key = tile * Bc + key, slice = stage * Tile::kTile + key * d;
      if (first_key >= seen_by_warp) continue;  // hidden from all rows of the warp
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      if (first_key + kSlice > seen_by_all) mask<Tile>(rS, a, first_query, first_key);
      rescale<Tile>(acc, rS, block.factor);
      multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
    }
    stage = (stage + 1) % kStages;
  }
  for (; tile >= 0; --tile) {  // every row sees every key
    wait_and_prefetch();
#pragma unroll
    for (int key = Bc - kSlice; key >= 0; key -= kSlice) {
      const int slice = stage * Tile::kTile + key * d;
      Scores<Tile> rS = {};
      multiply_qk<Tile>(rS, rQ, sK + slice);
      rescale<Tile>(acc, rS, block.factor);
      multiply_pv<Tile>(acc, rS, sV + slice, block.factor);
    }
    stage = (stage + 1) % kStages;
  }
  // END 8
  store<Tile>(acc, block, sQ + block.warp_row * d, PlainPairs{a});
}

}  // namespace fa::ch07
