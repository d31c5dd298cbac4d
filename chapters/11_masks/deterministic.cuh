/// @file
/// The gradients under masks without atomic additions: the variant `deterministic`, after chapter 08's
/// mma_deterministic.
///
/// Some blocks own query tiles: they visit the listed key tiles and keep dQ. The others own a key tile: they
/// visit the listed query tiles and keep dK and dV. S and dP are computed twice: seven products for a tile
/// instead of five. But nothing has to be added in memory or converted afterwards. One kernel has both kinds
/// of blocks, and those of a head run at nearly the same time: what the one kind loads, the other finds in
/// the L2 cache. The blocks with query tiles come first, compute delta = rowsum(dO * O), and publish it;
/// those with key tiles wait for it.
///
/// Shapes and formulas are those of chapter 08. Every run gives the same bits.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "08_backward/query_gradients.cuh"
#include "backward.cuh"
#include "block_mask.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/padding.cuh"
#include "device/published.cuh"
#include "device/reduce.cuh"
#include "device/tensor_core.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

using ch08::MmaQueryTiles, ch08::copy_rows_async, ch08::ds_of_queries, ch08::store_rows;

// --- sizes -------------------------------------------------------------------------------------------------

/// Chapter 08's tiles of mma_query_gradients(), with the names that chapter 07 has for a warp's rows and for
/// the keys whose scores are in registers: mask_mod.cuh uses these.
template <class Element, int kHeadDimension>
struct QueryGradientTiles : MmaQueryTiles<Element, kHeadDimension> {
  using Base = MmaQueryTiles<Element, kHeadDimension>;
  static constexpr int kSlice = Base::kScoreCols;
  static constexpr int kRowTiles = Base::kRowFragments;
  static constexpr int kLaneRows = 2 * kRowTiles;

  // A block may have several query tiles, each with kThreads of its threads.
  __device__ __forceinline__ static int tile() { return threadIdx.x / Base::kThreads; }
  __device__ __forceinline__ static int thread() { return threadIdx.x % Base::kThreads; }
  __device__ __forceinline__ static void sync() { ptx::barrier_sync(1 + tile(), Base::kThreads); }
};

/// The sizes of a kernel with both kinds of blocks.
template <class QueryTiles, class KeyTiles>
struct ListedGradientTiles {
  using T = typename KeyTiles::T;
  using Queries = QueryTiles;
  using Keys = KeyTiles;
  static constexpr int kThreads = Keys::kThreads;
  static constexpr int kBlocksPerSm = Keys::kBlocksPerSm;
  static constexpr int kQueryTiles = kThreads / Queries::kThreads;  ///< of a block
  /// By how many heads the blocks with query tiles are ahead of those with key tiles, which wait for them.
  static constexpr int kHeadsAhead = 1;
  static constexpr int kSharedBytes = std::max(kQueryTiles * Queries::kSharedBytes, Keys::kSharedBytes);
  static_assert(kThreads % Queries::kThreads == 0);
};

// --- delta -------------------------------------------------------------------------------------------------

/// The elements that one instruction loads.
template <class T>
struct alignas(16) Chunk {
  static constexpr int kCount = 16 / sizeof(T);
  T x[kCount];

  __device__ __forceinline__ static Chunk load(const T* from) {
    return *reinterpret_cast<const Chunk*>(from);
  }
  __device__ __forceinline__ float dot(const Chunk& other) const {
    float sum = 0.0f;
#pragma unroll
    for (int e = 0; e < kCount; ++e) sum += float(x[e]) * float(other.x[e]);
    return sum;
  }
};

/// O of a warp's rows, on the way from HBM while other loads are issued. Eight lanes share a row: lane 8 * r
/// + c has every eighth chunk, from chunk c on, of rows r + 4 * i. Elements that do not exist are zeros.
template <class Tile>
struct RowsOfO {
  using T = typename Tile::T;
  static constexpr int kRows = Tile::kWarpRows / 4, kOfLane = Tile::kHeadDim / (8 * Chunk<T>::kCount);
  Chunk<T> o[kRows][kOfLane];

  __device__ __forceinline__ static int row(int i) { return 4 * i + threadIdx.x % 32 / 8; }
  __device__ __forceinline__ static int col(int n) {
    return (8 * n + int(threadIdx.x) % 8) * Chunk<T>::kCount;
  }

  /// @param first  row of the warp    @param head  counts through all batches
  __device__ __forceinline__ RowsOfO(const Backward<T>& a, int head, int first) {
    const HeadRows<const T> rows = {a.o_rows(head).first, a.o_strides.row};
    if (first + Tile::kWarpRows <= a.seq_q && a.head_dim == Tile::kHeadDim) {
      load(rows, first, [](int, int) { return true; });  // without branches, all loads are under way at once
    } else {
      load(rows, first, [&](int row, int col) { return row < a.seq_q && col < a.head_dim; });
    }
  }
  /// delta = rowsum(dO * O) of row(i), in all of its lanes. @param sdO  the warp's rows
  __device__ __forceinline__ float delta(int i, const T* sdO) const {
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kOfLane; ++n)
      sum += o[i][n].dot(Chunk<T>::load(sdO + Tile::Rows::offset(row(i), col(n))));
    return warp_reduce<8>(sum, Sum());
  }

 private:
  template <class Exists>
  __device__ __forceinline__ void load(HeadRows<const T> rows, int first, const Exists& exists) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int n = 0; n < kOfLane; ++n) {
        o[i][n] = {};
        if (exists(first + row(i), col(n))) o[i][n] = Chunk<T>::load(rows[first + row(i)] + col(n));
      }
    }
  }
};

/// LSE and delta of a lane's rows: lane / 4 + 8 * i of its warp. Publishes delta.
template <class Tile>
struct LaneRows {
  float lse[Tile::kLaneRows];  ///< times log2 e; infinite in rows that see nothing: P = 0
  float delta[Tile::kLaneRows];

  /// @param sdO  the warp's rows    @param first  of the warp    @param head  counts through all batches
  __device__ __forceinline__ LaneRows(const Backward<typename Tile::T>& a, const RowsOfO<Tile>& o,
                                      const typename Tile::T* sdO, int head, int first) {
    const int lane = threadIdx.x % 32;
    const std::size_t first_of_head = std::size_t(head) * a.seq_q;
#pragma unroll
    for (int i = 0; i < Tile::kLaneRows; ++i) {
      const int row = first + 8 * i + lane / 4;
      lse[i] = row < a.seq_q ? resolved_lse(a.lse[first_of_head + row]) * kLog2e : 0.0f;
      float four_rows[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        four_rows[half] = __shfl_sync(kAllLanes, o.delta(2 * i + half, sdO), lane / 4 % 4 * 8);
      delta[i] = lane < 16 ? four_rows[0] : four_rows[1];
      if (lane % 4 == 0 && row < a.seq_q) publish(&a.delta[first_of_head + row], delta[i]);
    }
  }
};

// --- dQ ----------------------------------------------------------------------------------------------------

/// dQ of a query tile, which stays on the chip: visits the listed key tiles, the partial ones, then the full
/// ones.
/// @param row   the query tile, which kThreads threads share
/// @param smem  kSharedBytes: Q and dO, two tiles of K and V
template <class Tile>
__device__ __forceinline__ void listed_query_gradients(const Backward<typename Tile::T>& given,
                                                       const Masks& masks, const BlockMask& block_mask,
                                                       const HeadRow& row, float4* smem) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const Backward<T> a = without_end(given);
  const MaskMod head_mask = masks.of(row.head);
  const int first_query = row.row * Tile::Br, thread = Tile::thread();
  // Broadcast by lane 0, as in KeyBlock.
  const int warp_row = __shfl_sync(kAllLanes, thread / 32, 0) * Tile::kWarpRows;
  const int warp_query = first_query + warp_row;
  const auto gK = a.k_rows(row.head), gV = a.v_rows(row.head);

  T* sQ = reinterpret_cast<T*>(smem);
  T* sdO = sQ + Tile::kQueryTile;
  T* sK = sdO + Tile::kQueryTile;               // [kStages]
  T* sV = sK + Tile::kStages * Tile::kKeyTile;  // [kStages]
  declare_rows<typename Tile::Rows>(sQ, sdO, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, 2 * (Tile::Br + Tile::kStages * Bc), a.head_dim, thread);
  const auto load_keys = [&](int tile, int stage) {
    if (tile >= 0) {
      const int at_stage = stage * Tile::kKeyTile;
      copy_rows_async<Tile, Bc>(sK + at_stage, gK, tile * Bc, head_mask.keys, a.head_dim, thread);
      copy_rows_async<Tile, Bc>(sV + at_stage, gV, tile * Bc, head_mask.keys, a.head_dim, thread);
    }
    cp_async_commit();
  };
  const auto gdO = a.rows_of_query_head(a.d_o, a.d_o_strides, row.head);
  copy_rows_async<Tile, Tile::Br>(sQ, a.q_rows(row.head), first_query, a.seq_q, a.head_dim, thread);
  copy_rows_async<Tile, Tile::Br>(sdO, gdO, first_query, a.seq_q, a.head_dim, thread);
  cp_async_commit();
  const RowsOfO<Tile> o(a, row.head, warp_query);
  TilesOfRow<> tiles(block_mask, masks, row);
  int tile = row.first;
  load_keys(tile, 0);
  cp_async_wait<1>();
  Tile::sync();  // Q and dO have landed
  const LaneRows<Tile> rows(a, o, sdO + warp_row * d, row.head, warp_query);

  Fragments<Tile, d> rdQ = {};
  int stage = 0;
  // The keys from `key` on, in the tile that has landed.
  const auto add_keys = [&](int key, const auto& hide) {
    const T *k = sK + stage * Tile::kKeyTile + key * d, *v = sV + stage * Tile::kKeyTile + key * d;
    Fragments<Tile, kSlice> rS, rdS;
    mma_nt<Tile>(rS, sQ + warp_row * d, k);
    hide(rS);
    mma_nt<Tile>(rdS, sdO + warp_row * d, v);  // dP
    ds_of_queries<Tile>(rdS, rS, rows.lse, rows.delta, a, a.exp2_scale, threadIdx.x % 32, 0, 0, 0);
    Operand<Tile> ds;
    to_operand<Tile>(ds, rdS);
    mma_nn<Tile>(rdQ, ds, k);
  };
#pragma unroll 1
  while (tiles.is_partial()) {
    const int next = tiles.take();
    cp_async_wait<0>();
    Tile::sync();  // the key tile has landed, and no warp still reads the previous one
    load_keys(next, 1 - stage);
#pragma unroll 1
    for (int key = 0; key < Bc; key += kSlice) {
      const Rect share = {masks.queries(warp_query, Tile::kWarpRows), masks.keys(tile * Bc + key, kSlice)};
      const TileKind kind = head_mask.kind(share);
      if (kind == TileKind::kEmpty) continue;
      WarpMaskMod<Tile> mask_mod;
      if (kind == TileKind::kPartial)
        mask_mod = partial_mask_mod<Tile>(masks, head_mask, LaneQueries<Tile>(masks, warp_query), share);
      mask_mod.kind = kind;
      add_keys(key, mask_mod);
    }
    tile = next;
    stage = 1 - stage;
  }
#pragma unroll 1
  while (!tiles.is_done()) {
    const int next = tiles.take_full();
    cp_async_wait<0>();
    Tile::sync();  // the key tile has landed, and no warp still reads the previous one
    load_keys(next, 1 - stage);
#pragma unroll 1
    for (int key = 0; key < Bc; key += kSlice) add_keys(key, [](auto&) {});
    stage = 1 - stage;
  }
  Tile::sync();  // no warp reads Q any more, whose buffer is reused now
  const auto gdQ = a.rows_of_query_head(a.dq, a.dq_strides, row.head);
  store_rows<Tile>(gdQ, sQ + warp_row * d, rdQ, a.scale, warp_query, a.seq_q, 0, a.head_dim);
}

// --- dK and dV ---------------------------------------------------------------------------------------------

/// The query tiles that a block with a key tile copies, one ahead of the one that it uses. Delta comes from
/// other blocks.
template <class Tile>
struct PublishedQueries {
  const Backward<typename Tile::T>& a;
  const KeyTileMemory<Tile>& s;
  const ListedQueryTiles<Tile>& walk;

  /// Starts the copies of the tile that the walk is at.
  __device__ __forceinline__ void load(int stage) const {
    s.load_queries(stage, a, walk,
                   [](float* to, const float* from, bool inside) { copy_published_async(to, from, inside); });
    cp_async_commit();
  }
  /// Waits until this thread's copies have landed, and until its delta is published.
  __device__ __forceinline__ void wait(int stage) const {
    cp_async_wait<0>();
    s.resolve_lse(stage);
    const int thread = threadIdx.x, query = walk.first_query() + thread;
    if (thread >= Tile::Br || query >= a.seq_q) return;
    const std::size_t first = (std::size_t(walk.batch) * a.heads + walk.head) * a.seq_q;
    await_published(s.delta + stage * Tile::Br + thread, a.delta + first + query);
  }
};

/// dK and dV of a key tile: compressed_gradients() without dQ. Only warps that share their keys exchange dS.
/// @param smem  Tile::kSharedBytes: K and V; two tiles of Q, dO, LSE and delta; P^T and dS^T if warps
///   exchange them
template <class Tile>
__device__ __forceinline__ void listed_key_gradients(const Backward<typename Tile::T>& given,
                                                     const Masks& masks, const BlockMask& block_mask,
                                                     const HeadRow& row, float4* smem) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys(a, row.head, row.row);
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  ListedQueryTiles<Tile> walk(a, keys, masks, block_mask, row);
  const PublishedQueries<Tile> queries = {a, s, walk};
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  cp_async_commit();
  if (!walk.done()) queries.load(0);

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (walk.partial) {
    queries.wait(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    walk.next();
    if (!walk.done()) queries.load(1 - stage);
    add_partial_tile(rdV, rdK, block, tile, masks, head, p_and_ds_of(block, tile));
    partner.wait();  // until its P and dS are stored: a barrier, or nothing without a partner
    partner.add_its_queries(rdV, rdK, tile);
    stage = 1 - stage;
  }
#pragma unroll 1
  while (!walk.done()) {
    queries.wait(stage);
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    walk.next();
    if (!walk.done()) queries.load(1 - stage);
    add_full_tile(rdV, rdK, block, tile, p_and_ds_of(block, tile));
    partner.wait();  // until its P and dS are stored: a barrier, or nothing without a partner
    partner.add_its_queries(rdV, rdK, tile);
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

// --- both --------------------------------------------------------------------------------------------------

/// The blocks for a head of K and V. @param group  query heads that share it
template <class Tile>
__host__ __device__ unsigned blocks_of_head(int group, const BlockMask& key_lists,
                                            const BlockMask& query_lists) {
  return unsigned(group * key_lists.rows + Tile::kQueryTiles - 1) / Tile::kQueryTiles + query_lists.rows;
}

/// dQ, dK and dV. For each head of K and V, one after the other: blocks with the query tiles of the heads
/// that share it, then blocks with the key tiles of the head kHeadsAhead before it, whose delta has been
/// published by then, or nearly.
///
///   grid    (blocks_of_head(), batch * kv_heads + Tile::kHeadsAhead)
///   block   Tile::kThreads
///   shared  Tile::kSharedBytes
///   HBM     reads its lists; for dQ: Q, O, dO and LSE, and the keys and values of each listed tile, as far
///           as this batch has keys; for dK and dV: K and V, as far as this batch has keys, and Q, dO, LSE
///           and delta of each listed tile; writes dQ, delta, dK and dV
/// @param a  delta is marked as missing
/// @param key_lists, query_lists  for each query tile the key tiles, and the other way round
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    deterministic_gradients(Backward<typename Tile::T> a, Masks masks, BlockMask key_lists,
                            BlockMask query_lists) {
  using Queries = typename Tile::Queries;
  extern __shared__ float4 smem[];
  const int group = a.heads / a.kv_heads, kv_heads = int(gridDim.y) - Tile::kHeadsAhead, y = int(blockIdx.y);
  const unsigned of_queries = gridDim.x - query_lists.rows;  // blocks
  if (blockIdx.x < of_queries) {
    const unsigned tile = blockIdx.x * Tile::kQueryTiles + Queries::tile();
    if (y >= kv_heads || tile >= unsigned(group * key_lists.rows)) return;
    listed_query_gradients<Queries>(
        a, masks, key_lists, row_at(key_lists, masks, y * group + int(tile) % group, int(tile) / group, 1),
        smem + Queries::tile() * (Queries::kSharedBytes / sizeof(float4)));
  } else {
    const int kv_head = y - Tile::kHeadsAhead;
    if (kv_head < 0) return;
    const HeadRow row = row_at(query_lists, masks, kv_head, int(blockIdx.x - of_queries), group);
    listed_key_gradients<typename Tile::Keys>(a, masks, query_lists, row, smem);
  }
}

}  // namespace fa::ch11
