/// @file
/// The gradients under masks without atomic additions: the variant `deterministic`, after chapter 08's mma_deterministic.
///
/// One kernel gives each query tile a block, which visits the listed key tiles and keeps dQ; the next gives each key tile a block,
/// which visits the listed query tiles and keeps dK and dV. S and dP are computed twice: seven products for a tile instead of
/// five. But nothing has to be set to zero before, added in memory, or converted afterwards.
///
/// Shapes and formulas are those of chapter 08. Every run gives the same bits.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

#include "08_backward/query_gradients.cuh"
#include "backward_tiles.cuh"
#include "backward_walks.cuh"
#include "device/convert.cuh"
#include "device/reduce.cuh"
#include "hide.cuh"
#include "lists.cuh"
#include "masks.cuh"

namespace fa::ch11 {

// --- dQ ---------------------------------------------------------------------------------------------------------

/// Chapter 08's tiles of mma_query_gradients(), with the names that chapter 07 has for a warp's rows and for the keys whose scores
/// are in registers: hide.cuh uses these.
template <class Element, int kHeadDimension>
struct QueryGradientTiles : MmaQueryTiles<Element, kHeadDimension> {
  using Base = MmaQueryTiles<Element, kHeadDimension>;
  static constexpr int kSlice = Base::kScoreCols;
  static constexpr int kRowTiles = Base::kRowFragments;
  static constexpr int kLaneRows = 2 * kRowTiles;
};

/// What one instruction loads.
template <class T>
struct alignas(16) Chunk {
  static constexpr int kCount = 16 / sizeof(T);
  T x[kCount];
};

/// O of a warp's rows, on the way from HBM while other loads are issued. Eight lanes share a row: lane 8 * r + c has every eighth
/// chunk, from chunk c on, of rows r + 4 * i. What does not exist is zeros.
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
    for (int n = 0; n < kOfLane; ++n) {
      const Chunk<T> d_o = *reinterpret_cast<const Chunk<T>*>(sdO + Tile::Rows::offset(row(i), col(n)));
#pragma unroll
      for (int e = 0; e < Chunk<T>::kCount; ++e) sum += float(o[i][n].x[e]) * float(d_o.x[e]);
    }
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
        if (exists(first + row(i), col(n)))
          o[i][n] = *reinterpret_cast<const Chunk<T>*>(rows[first + row(i)] + col(n));
      }
    }
  }
};

/// LSE and delta of a lane's rows: lane / 4 + 8 * i of its warp.
template <class Tile>
struct LaneRows {
  float lse[Tile::kLaneRows];  ///< times log2 e; infinite in rows that see nothing: P = 0
  float delta[Tile::kLaneRows];

  /// Reads LSE, and writes delta for the kernel of dK and dV.
  /// @param sdO  the warp's rows    @param first  of the warp    @param head  counts through all batches
  __device__ __forceinline__ LaneRows(const Backward<typename Tile::T>& a, const RowsOfO<Tile>& o,
                                      const typename Tile::T* sdO, int head, int first) {
    const int lane = threadIdx.x % 32;
    const std::size_t first_of_head = std::size_t(head) * a.seq_q;
#pragma unroll
    for (int i = 0; i < Tile::kLaneRows; ++i) {
      const int row = first + 8 * i + lane / 4;
      lse[i] = row < a.seq_q ? a.lse[first_of_head + row] * kLog2e : 0.0f;
      if (lse[i] == -INFINITY) lse[i] = INFINITY;
      float four_rows[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int summed = first + o.row(2 * i + half);
        four_rows[half] = o.delta(2 * i + half, sdO);
        if (lane % 8 == 0 && summed < a.seq_q) a.delta[first_of_head + summed] = four_rows[half];
        four_rows[half] = __shfl_sync(kAllLanes, four_rows[half], lane / 4 % 4 * 8);
      }
      delta[i] = lane < 16 ? four_rows[0] : four_rows[1];
    }
  }
};

/// dQ of a query tile, which stays on the chip. The block visits the listed key tiles: the partial ones, then the full ones.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads: one warp per kWarpRows queries
///   shared  Tile::kSharedBytes: Q and dO, two tiles of K and V
///   HBM     reads its list; Q, O, dO and LSE; the keys and values of each listed tile, as far as this batch has
///           keys; writes dQ and delta
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    listed_query_gradients(Backward<typename Tile::T> given, Masks masks, TileLists lists) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const Backward<T> a = without_end(given);
  const HeadRow at = row_of_block(blockIdx.x, lists, masks, a.batch * a.heads, 1);
  const HeadMasks of_head = masks.of(at.head);
  const int first_query = at.row * Tile::Br;
  // Broadcast by lane 0, as in KeyBlock.
  const int warp_row = __shfl_sync(kAllLanes, threadIdx.x / 32, 0) * Tile::kWarpRows;
  const int warp_query = first_query + warp_row;
  const auto gK = a.k_rows(at.head), gV = a.v_rows(at.head);

  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sdO = sQ + Tile::kQueryTile;
  T* sK = sdO + Tile::kQueryTile;               // [kStages]
  T* sV = sK + Tile::kStages * Tile::kKeyTile;  // [kStages]
  declare_rows<typename Tile::Rows>(sQ, sdO, sK, sV);
  pad<typename Tile::Rows, Tile::kThreads, d>(sQ, 2 * (Tile::Br + Tile::kStages * Bc), a.head_dim);
  const auto load_keys = [&](int tile, int stage) {
    if (tile >= 0) {
      const int at_stage = stage * Tile::kKeyTile;
      copy_rows_async<Tile, Bc>(sK + at_stage, gK, tile * Bc, of_head.keys, a.head_dim);
      copy_rows_async<Tile, Bc>(sV + at_stage, gV, tile * Bc, of_head.keys, a.head_dim);
    }
    cp_async_commit();
  };
  const auto gdO = a.rows_of_query_head(a.d_o, a.d_o_strides, at.head);
  copy_rows_async<Tile, Tile::Br>(sQ, a.q_rows(at.head), first_query, a.seq_q, a.head_dim);
  copy_rows_async<Tile, Tile::Br>(sdO, gdO, first_query, a.seq_q, a.head_dim);
  cp_async_commit();
  const RowsOfO<Tile> o(a, at.head, warp_query);
  ListedTiles tiles(lists, masks, at.head, at.row);
  int tile = tiles.take();
  load_keys(tile, 0);
  cp_async_wait<1>();
  __syncthreads();  // Q and dO have landed
  const LaneRows<Tile> rows(a, o, sdO + warp_row * d, at.head, warp_query);

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
    __syncthreads();  // the key tile has landed, and no warp still reads the previous one
    load_keys(next, 1 - stage);
#pragma unroll 1
    for (int key = 0; key < Bc; key += kSlice) {
      const Rect share = {masks.queries(warp_query, Tile::kWarpRows), masks.keys(tile * Bc + key, kSlice)};
      const Kind kind = of_head.kind(share);
      if (kind == Kind::kEmpty) continue;
      Hidden<Tile> hidden;
      if (kind == Kind::kPartial) hidden = hidden_part<Tile>(masks, of_head, warp_query, share);
      add_keys(key, [&](auto& rS) {
        if (kind == Kind::kPartial) hidden.hide(rS);
      });
    }
    tile = next;
    stage = 1 - stage;
  }
#pragma unroll 1
  while (!tiles.is_done()) {
    const int next = tiles.take_full();
    cp_async_wait<0>();
    __syncthreads();  // the key tile has landed, and no warp still reads the previous one
    load_keys(next, 1 - stage);
#pragma unroll 1
    for (int key = 0; key < Bc; key += kSlice) add_keys(key, [](auto&) {});
    stage = 1 - stage;
  }
  __syncthreads();  // no warp reads Q any more, whose buffer is reused now
  const auto gdQ = a.rows_of_query_head(a.dq, a.dq_strides, at.head);
  store_rows<Tile>(gdQ, sQ + warp_row * d, rdQ, a.scale, warp_query, a.seq_q, 0, a.head_dim);
}

// --- dK and dV --------------------------------------------------------------------------------------------------

/// dK and dV of a key tile: compressed_gradients() without dQ. Only warps that share their keys exchange dS.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: kWarpsPerKeys warps per kWarpRows keys
///   shared  Tile::kSharedBytes: K and V; two tiles of Q, dO, LSE and delta; P^T and dS^T if warps exchange them
///   HBM     reads its lists; K and V once, as far as this batch has keys; Q, dO, LSE and delta of each listed tile; writes dK
///           and dV
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    listed_key_gradients(Backward<typename Tile::T> given, Masks masks, TileLists lists) {
  const Backward<typename Tile::T> a = without_mask(given);
  const KeyBlock<Tile> keys = key_block<Tile>(a, masks, lists);
  extern __shared__ float4 smem[];
  const KeyTileMemory<Tile> s(smem);
  const PartnerOf<Tile> partner(s, keys);
  const BackwardBlock<Tile> block = {a, keys, s, partner};
  ListedQueries<Tile> walk(a, keys, masks, lists);
  s.pad_columns(cols_of<Tile>(a));
  load_keys(s, a, keys, masks);
  if (!walk.done()) s.load_queries(0, a, walk);
  cp_async_commit();

  KeyGradient<Tile> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (walk.partial) {
    cp_async_wait<0>();
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    const int head = head_of(walk, masks);
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    add_partial_tile(rdV, rdK, block, tile, masks, head, p_and_ds_of(block, tile));
    partner.wait();  // until its P and dS are stored: a barrier, or nothing without a partner
    partner.add_its_queries(rdV, rdK, tile);
    stage = 1 - stage;
  }
#pragma unroll 1
  while (!walk.done()) {
    cp_async_wait<0>();
    __syncthreads();  // the query tile has landed; no warp reads the previous one, P or dS any more
    const QueryTile<Tile> tile = s.query_tile(stage, walk.first_query());
    walk.next();
    if (!walk.done()) {
      s.load_queries(1 - stage, a, walk);
      cp_async_commit();
    }
    add_full_tile(rdV, rdK, block, tile, p_and_ds_of(block, tile));
    partner.wait();  // until its P and dS are stored: a barrier, or nothing without a partner
    partner.add_its_queries(rdV, rdK, tile);
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // K and V have landed, and no warp reads them any more
  store_dk_and_dv(a, s, keys, rdK, rdV);
}

}  // namespace fa::ch11
