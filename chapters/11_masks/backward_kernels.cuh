/// @file
/// The gradients of attention under masks, on tensor cores: chapter 08's mma_pipelined_gradients(), which
/// visits fewer query tiles.
///
/// Shapes and formulas are those of chapter 08. A score that a mask hides has P = 0 and dS = 0. Keys that no
/// query sees have gradients of 0, as do queries that see no key. All kernels here have
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: kWarpsPerKeys warps per kWarpRows keys
///   shared  Tile::kSharedBytes: K and V; two tiles of Q, dO, LSE and delta; dS^T, and P^T if warps exchange
///           it
///   HBM     reads K and V once, as far as this batch has keys; Q, dO, LSE and delta of each query tile that
///           it visits, and adds a whole tile to dq_sum; writes dK and dV
#pragma once

#include <cuda_runtime.h>

#include "backward_tiles.cuh"
#include "backward_walks.cuh"
#include "block_mask.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

// --- masked_everywhere -------------------------------------------------------------------------------------

/// Visits all query tiles and asks for every score whether it exists.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    masked_gradients(Backward<typename Tile::T> given, Masks masks) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  QueryWalk<Tile> walk(a, keys);  // in the loop it is one tile ahead
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    add_masked_tile(rdV, rdK, block, tile, masks, head, p_and_ds_of(block, tile));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  __syncthreads();  // no warp reads K and V any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

// --- skip_empty --------------------------------------------------------------------------------------------

/// Visits the query tiles that are not empty. If there is none, K and V may still be on their way when dK and
/// dV take their place.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    skipping_gradients(Backward<typename Tile::T> given, Masks masks) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  VisibleQueries<Tile> walk(a, keys, masks);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    add_masked_tile(rdV, rdK, block, tile, masks, head, p_and_ds_of(block, tile));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

// --- three_kinds -------------------------------------------------------------------------------------------

/// Asks for no score of a full tile. In a partial one, each warp first asks for its own rectangle.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    three_kinds_gradients(Backward<typename Tile::T> given, Masks masks) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys(a);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  VisibleQueries<Tile> walk(a, keys, masks);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    const TileKind kind = walk.kind;
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    if (kind == TileKind::kFull) {
      add_full_tile(rdV, rdK, block, tile, p_and_ds_of(block, tile));
    } else {
      add_partial_tile(rdV, rdK, block, tile, masks, head, p_and_ds_of(block, tile));
    }
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

// --- compressed --------------------------------------------------------------------------------------------

/// Visits the listed query tiles: the partial ones of all heads in a loop that asks, then the full ones in a
/// loop without masks. There, a step is straight code: where branches meet, the compiler prepares no product
/// before those above have ended.
///
///   HBM     and reads its lists
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    compressed_gradients(Backward<typename Tile::T> given, Masks masks, TileLists lists) {
  const Backward<typename Tile::T> a = without_mask(given);
  const HeadRow at = row_of_block(lists, masks, a.heads / a.kv_heads);
  const KeyBlock<Tile> keys(a, at.head, at.row);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  ListedQueryTiles<Tile> walk(a, keys, masks, lists, at);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (walk.partial) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    add_partial_tile(rdV, rdK, block, tile, masks, head, p_and_ds_of(block, tile));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    add_full_tile(rdV, rdK, block, tile, p_and_ds_of(block, tile));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

// --- block_sparse ------------------------------------------------------------------------------------------

/// Algorithm 5 of Dao et al. 2022: visits the listed query tiles, which all lie in blocks that exist. No
/// score is asked for.
///
///   HBM     and reads its lists
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    block_sparse_gradients(Backward<typename Tile::T> given, Masks masks, TileLists lists) {
  const Backward<typename Tile::T> a = without_mask(given);
  const HeadRow at = row_of_block(lists, masks, a.heads / a.kv_heads);
  const KeyBlock<Tile> keys(a, at.head, at.row);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  ListedQueryTiles<Tile> walk(a, keys, masks, lists, at);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    add_full_tile(rdV, rdK, block, tile, p_and_ds_of(block, tile));
    __syncthreads();  // dS and P of all warps are stored
    partner.add_its_queries(rdV, rdK, tile);
    add_dq<Tile>(sums_of_dq<Tile>(a, head, tile.first_query), s.ds, s.k, cols_of<Tile>(a));
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

}  // namespace fa::ch11
