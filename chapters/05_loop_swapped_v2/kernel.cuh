/// @file
/// FlashAttention v2: each block keeps its queries and their O on the chip, and goes through the key tiles.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], LSE [batch,
/// heads, seq_q], all fp32. Every kernel takes any lengths >= 1 and any kv_heads that divides heads. A row
/// that sees no key has O = 0 and LSE = -inf.
///
/// All kernels are Algorithm 1 of Dao 2023, with one block for each query tile of each head. They read Q once
/// and write O and LSE once. Each query tile reads K and V once, up to the last key that its last row sees:
/// traffic_of() in chapter.cu. Without a mask, and with Tr = ceil(seq_q / Br), that is for each head
///   (2 * seq_q * d + 2 * Tr * seq_k * d + seq_q) * 4 bytes
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstddef>

#include "device/attention.cuh"
#include "device/math.cuh"
#include "device/max_sum.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"
#include "slices.cuh"

namespace fa::ch05 {

// --- what the kernels share ------------------------------------------------------------------------

/// The tiles of `sliced_k`, `sliced_q` and `outer_products`.
template <int kHeadDimension>
struct SmallTiles {
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = kHeadDim <= 64 ? 32 : 16;  ///< queries of a block
  static constexpr int Bc = 64;                        ///< keys of a key tile
  static constexpr int kWarps = 2;                     ///< of a block
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRowsOfLane = 4;  ///< of the outer products of a lane
  static constexpr int kSliceFloats =
      1024;                               ///< of K or V, that outer products have in shared memory at a time
  static constexpr int kBlocksPerSm = 4;  ///< leaves a thread 255 registers, all that it can have
};

/// The tiles of `large_tiles` and `register_tiled`.
template <int kHeadDimension>
struct LargeTiles {
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = 128;
  static constexpr int Bc = kHeadDim == 128 ? 128 : 64;
  static constexpr int kWarps = kHeadDim <= 64 ? 4 : 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRowsOfLane = 8;
  static constexpr int kSliceFloats = 2048;
  static constexpr int kBlocksPerSm = 8 / kWarps;
};

/// The query tile of a block, and the keys that it goes through.
struct QueryTile {
  const float* q;  ///< [rows, head_dim]
  const float* k;  ///< [keys, head_dim]
  const float* v;  ///< [keys, head_dim]
  float* o;        ///< [rows, head_dim]
  float* lse;      ///< [rows]
  int first;       ///< its first query
  int rows;        ///< Br, or fewer in the last tile
  int keys;        ///< that at least one of its rows sees: 0 .. keys - 1
};

/// Under a causal mask the last tiles see the most keys. The first blocks take them, of all heads, so that no
/// long tile starts when the others are about to finish.
template <class Tiles>
__device__ __forceinline__ QueryTile tile_of_block(const Attention<float>& a) {
  const unsigned heads = a.batch * a.heads, tiles = gridDim.x / heads;
  const unsigned head = a.causal ? blockIdx.x % heads : blockIdx.x / tiles;
  const unsigned tile = a.causal ? tiles - 1 - blockIdx.x / heads : blockIdx.x % tiles;
  const int first = int(tile) * Tiles::Br, rows = min(Tiles::Br, a.seq_q - first);
  // EXERCISE 1: Find how many keys the tile has to go through: all that a row of it sees, and no others.
  const int keys = a.visible_keys(first + rows - 1);
  // END 1
  const size_t query = size_t(head) * a.seq_q + first, key = size_t(a.kv_head(int(head))) * a.seq_k;
  return {a.q + query * Tiles::kHeadDim,
          a.k + key * Tiles::kHeadDim,
          a.v + key * Tiles::kHeadDim,
          a.o + query * Tiles::kHeadDim,
          a.lse + query,
          first,
          rows,
          keys};
}

// --- who shares a row: the warps, or the lanes of one -------------------------------------------------

/// How `sliced_k` and `sliced_q` split the scores of a query tile and a key tile between warps and lanes.
///
/// @tparam kWarpsPerRow  warps that share the keys of a row: all warps of the block, or 1
template <class Tiles, int kWarpsPerRow>
struct Sliced : Tiles {
  static constexpr int kWarpsOfRow = kWarpsPerRow;
  static constexpr int kRows = Tiles::Br * kWarpsOfRow / Tiles::kWarps;  ///< of a warp
  static constexpr int kKeys = Tiles::Bc / kWarpsOfRow;                  ///< of a warp
  static constexpr int kKeysOfLane = kKeys / 32;                         ///< keys lane, lane + 32, ...
  static constexpr int kCols = Tiles::kHeadDim / 32;    ///< columns lane, lane + 32, ... of O
  static constexpr int kKStride = Tiles::kHeadDim + 4;  ///< as in chapter 04
  static constexpr int kFloats = (Tiles::Br + Tiles::Bc) * Tiles::kHeadDim + Tiles::Bc * kKStride +
                                 Tiles::Br * (Tiles::Bc + 2 * kWarpsOfRow);  ///< of shared memory
};

/// m_new[r] = the maximum of row r so far, taken together with the scores of the warp's keys. Scores of keys that
/// the row does not see become -inf first.
///
/// @param first_query, first_key  of the warp
template <class Tile>
__device__ __forceinline__ void mask_and_max(float (&m_new)[Tile::kRows], const float (&m)[Tile::kRows],
                                             float (&rS)[Tile::kKeysOfLane][Tile::kRows],
                                             const Attention<float>& a, int first_query, int first_key) {
  const int lane = threadIdx.x % 32;
  for (int r = 0; r < Tile::kRows; ++r) {
    const int visible = a.visible_keys(first_query + r) - first_key;
    m_new[r] = m[r];
    for (int i = 0; i < Tile::kKeysOfLane; ++i) {
      if (lane + 32 * i >= visible) rS[i][r] = -INFINITY;
      m_new[r] = fmaxf(m_new[r], rS[i][r]);
    }
    m_new[r] = warp_reduce(m_new[r], Max());
  }
}

/// The recurrence of chapter 03 for the warp's rows: l and O are brought to the new maximum. P goes to shared memory.
///
/// @param sP  [kKeysOfLane, kRows, 32], of the warp
template <class Tile>
__device__ __forceinline__ void rescale_and_store_p(float (&m)[Tile::kRows], float (&l)[Tile::kRows],
                                                    float (&rO)[Tile::kRows][Tile::kCols], float* sP,
                                                    const float (&m_new)[Tile::kRows],
                                                    const float (&rS)[Tile::kKeysOfLane][Tile::kRows]) {
  for (int r = 0; r < Tile::kRows; ++r) {
    const float correction = __expf(m[r] - m_new[r]);
    m[r] = m_new[r];
    l[r] *= correction;
    for (float& o : rO[r]) o *= correction;
    for (int i = 0; i < Tile::kKeysOfLane; ++i) {
      const float p = __expf(rS[i][r] - m[r]);
      l[r] += p;
      sP[(i * Tile::kRows + r) * 32 + threadIdx.x % 32] = p;
    }
  }
}

/// The end of the warp's rows: O = o / l, and LSE.
template <class Tile>
__device__ __forceinline__ void store_rows(const QueryTile& tile, int first_row,
                                           const float (&rO)[Tile::kRows][Tile::kCols],
                                           const float (&m)[Tile::kRows], const float (&l)[Tile::kRows]) {
  const int lane = threadIdx.x % 32;
  for (int r = 0; r < Tile::kRows && first_row + r < tile.rows; ++r) {
    const float inv_l = inverse_or_zero(l[r]);
    for (int c = 0; c < Tile::kCols; ++c) {
      tile.o[(first_row + r) * Tile::kHeadDim + lane + 32 * c] = rO[r][c] * inv_l;
    }
    if (lane == 0) tile.lse[first_row + r] = log_sum_exp({m[r], l[r]});
  }
}

/// m_new[r] becomes the maximum over all warps, each of which has other keys of the same rows.
///
/// @param sM  [kWarps, Br]
template <class Tile>
__device__ __forceinline__ void share_maxima(float (&m_new)[Tile::kRows], float* sM) {
  constexpr int Br = Tile::Br;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // EXERCISE 2: Each warp has the maximum over its own keys. Make m_new[r] the maximum of the row.
  if (lane == 0) {
    for (int r = 0; r < Br; ++r) sM[warp * Br + r] = m_new[r];
  }
  __syncthreads();  // every warp has written its maxima
  for (int r = 0; r < Br; ++r) {
    for (int w = 0; w < Tile::kWarps; ++w) m_new[r] = fmaxf(m_new[r], sM[w * Br + r]);
  }
  // END 2
}

/// Adds up, in warp 0, what each warp has summed over its own keys.
///
/// @param sO  [kWarps - 1, Br, d]     @param sL  [kWarps, Br]
template <class Tile>
__device__ __forceinline__ void add_up_in_first_warp(float (&rO)[Tile::Br][Tile::kCols], float (&l)[Tile::Br],
                                                     float* sO, float* sL) {
  constexpr int d = Tile::kHeadDim, Br = Tile::Br;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int r = 0; r < Br && warp > 0; ++r) {
    for (int c = 0; c < Tile::kCols; ++c) sO[((warp - 1) * Br + r) * d + lane + 32 * c] = rO[r][c];
    if (lane == 0) sL[warp * Br + r] = l[r];
  }
  __syncthreads();  // every warp has written its sums
  if (warp > 0) return;
  for (int w = 1; w < Tile::kWarps; ++w) {
    for (int r = 0; r < Br; ++r) {
      for (int c = 0; c < Tile::kCols; ++c) rO[r][c] += sO[((w - 1) * Br + r) * d + lane + 32 * c];
      l[r] += sL[w * Br + r];
    }
  }
}

/// FlashAttention v2, multiplied as in chapter 04: a lane has keys and all rows of its warp for Q K^T, then columns
/// of O and the same rows for P V. Each warp has some of the keys of every tile, and all rows.
///
///   grid    ceil(seq_q / Br) * batch * heads
///   block   Tile::kThreads
///   shared  4 * Tile::kFloats bytes: tiles of Q, K, V and P, and each warp's maximum and sum of each row
///
/// @tparam Tile  Sliced<Tiles, Tiles::kWarps>
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) sliced_k_attention(Attention<float> a) {
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kThreads = Tile::kThreads;
  const QueryTile tile = tile_of_block<Tile>(a);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_col = warp * Tile::kKeys;  // of this warp, in every key tile

  extern __shared__ float4 smem[];
  float* sQ = reinterpret_cast<float*>(smem);
  float* sK = sQ + Br * d;
  float* sV = sK + Bc * Tile::kKStride;
  float* sP = sV + Bc * d + warp * Br * Tile::kKeys;  // of this warp
  float* sM = sV + Bc * d + Br * Bc;                  // [kWarps, Br]
  float* sL = sM + Tile::kWarps * Br;                 // [kWarps, Br]

  load_tile<kThreads, d, d>(sQ, tile.q, 0, Br, tile.rows, a.scale);
  float m[Br], l[Br];  // of the rows: the maximum, and this lane's part of the sum
  float rO[Br][Tile::kCols] = {};
  for (int r = 0; r < Br; ++r) m[r] = -FLT_MAX, l[r] = 0.0f;

  for (int first_key = 0; first_key < tile.keys; first_key += Bc) {
    load_tile<kThreads, d, Tile::kKStride>(sK, tile.k, first_key, Bc, tile.keys);
    load_tile<kThreads, d, d>(sV, tile.v, first_key, Bc, tile.keys);
    __syncthreads();  // all rows of Q, K and V are in shared memory

    float rS[Tile::kKeysOfLane][Br], m_new[Br];
    for (int i = 0; i < Tile::kKeysOfLane; ++i) {
      multiply_qk<d>(rS[i], sQ, sK + (first_col + lane + 32 * i) * Tile::kKStride);
    }
    mask_and_max<Tile>(m_new, m, rS, a, tile.first, first_key + first_col);
    share_maxima<Tile>(m_new, sM);
    rescale_and_store_p<Tile>(m, l, rO, sP, m_new, rS);
    __syncwarp();  // the warp's part of P is in shared memory
    for (int i = 0; i < Tile::kKeysOfLane; ++i) {
      multiply_pv(rO, sP + i * Br * 32, sV + (first_col + 32 * i) * d);
    }
    __syncthreads();  // every warp is done with the key tile
  }

  for (int r = 0; r < Br; ++r) l[r] = warp_reduce(l[r], Sum());
  add_up_in_first_warp<Tile>(rO, l, sK, sL);  // O of the other warps goes where the key tile was
  if (warp == 0) store_rows<Tile>(tile, 0, rO, m, l);
}

/// One change: each warp has some of the rows, and all keys of every tile. No row is shared.
///
///   grid    ceil(seq_q / Br) * batch * heads
///   block   Tile::kThreads
///   shared  4 * Tile::kFloats bytes: tiles of Q, K, V and P
///
/// @tparam Tile  Sliced<Tiles, 1>
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) sliced_q_attention(Attention<float> a) {
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kThreads = Tile::kThreads;
  constexpr int kRows = Tile::kRows;
  const QueryTile tile = tile_of_block<Tile>(a);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = warp * kRows;  // of this warp, in the query tile

  extern __shared__ float4 smem[];
  float* sQ = reinterpret_cast<float*>(smem);
  float* sK = sQ + Br * d;
  float* sV = sK + Bc * Tile::kKStride;
  float* sP = sV + Bc * d + warp * kRows * Bc;  // of this warp

  load_tile<kThreads, d, d>(sQ, tile.q, 0, Br, tile.rows, a.scale);
  float m[kRows], l[kRows];
  float rO[kRows][Tile::kCols] = {};
  for (int r = 0; r < kRows; ++r) m[r] = -FLT_MAX, l[r] = 0.0f;

  for (int first_key = 0; first_key < tile.keys; first_key += Bc) {
    load_tile<kThreads, d, Tile::kKStride>(sK, tile.k, first_key, Bc, tile.keys);
    load_tile<kThreads, d, d>(sV, tile.v, first_key, Bc, tile.keys);
    __syncthreads();  // all rows of Q, K and V are in shared memory

    float rS[Tile::kKeysOfLane][kRows], m_new[kRows];
    for (int i = 0; i < Tile::kKeysOfLane; ++i) {
      multiply_qk<d>(rS[i], sQ + first_row * d, sK + (lane + 32 * i) * Tile::kKStride);
    }
    mask_and_max<Tile>(m_new, m, rS, a, tile.first + first_row, first_key);
    rescale_and_store_p<Tile>(m, l, rO, sP, m_new, rS);
    __syncwarp();  // the warp's part of P is in shared memory
    for (int i = 0; i < Tile::kKeysOfLane; ++i) multiply_pv(rO, sP + i * kRows * 32, sV + 32 * i * d);
    __syncthreads();  // every warp is done with the key tile
  }

  for (int r = 0; r < kRows; ++r) l[r] = warp_reduce(l[r], Sum());
  store_rows<Tile>(tile, first_row, rO, m, l);
}

// --- who holds which product -----------------------------------------------------------------------

/// How `outer_products`, `large_tiles` and `register_tiled` split a query tile between warps and lanes.
///
/// A warp has rows of its own. Its lanes form a grid: a lane has kRows rows, and in each of them kCols scores and
/// kDims columns of O.
///
/// @tparam kSliceBuffers  slices that shared memory has room for: 1, or 2 if the next one is prefetched
template <class Tiles, int kSliceBuffers>
struct RegisterTiles : Tiles {
  using Tiles::Bc, Tiles::Br, Tiles::kHeadDim, Tiles::kSliceFloats, Tiles::kThreads, Tiles::kWarps;
  static constexpr int kRows = Tiles::kRowsOfLane;
  static constexpr int kRowsOfWarp = Br / kWarps;
  static constexpr int kRowLanes = kRowsOfWarp / kRows;  ///< lanes with different rows,
  static constexpr int kColLanes = 32 / kRowLanes;       ///< and with the same rows and different columns
  static constexpr int kCols = Bc / kColLanes;
  static constexpr int kDims = kHeadDim / kColLanes;

  // A slice of K is some columns of all keys of the tile, a slice of V all columns of some of them.
  static constexpr int kColsOfK = kSliceFloats / Bc;
  static constexpr int kKeysOfV = kSliceFloats / kHeadDim;
  static constexpr int kSlicesOfK = kHeadDim / kColsOfK;
  static constexpr int kSlices = kSlicesOfK + Bc / kKeysOfV;    ///< of a key tile
  static constexpr int kFloat4s = kSliceFloats / 4 / kThreads;  ///< of a slice that a thread loads

  // Q, K and P are transposed in shared memory, with 4 floats of padding at the end of each column.
  static constexpr int kQStride = Br + 4;
  static constexpr int kKStride = Bc + 4;
  static constexpr int kPStride = kRowsOfWarp + 4;
  static constexpr int kBufferFloats = kColsOfK * kKStride;  ///< enough for a slice of V as well
  static constexpr int kFloats =
      kHeadDim * kQStride + kWarps * Bc * kPStride + kSliceBuffers * kBufferFloats;  ///< of shared memory
};

/// Which row or column of the warp is number i of a lane: 4 neighbours, then the 4 that are 4 * kLanes further on.
template <int kLanes>
__device__ __forceinline__ int lane_index(int lane, int i) {
  return 4 * (lane + i / 4 * kLanes) + i % 4;
}

/// Loads a lane's numbers of a line: a column of Q, K or P, or a row of V. @param s  the first of them
template <int kLanes, int kCount>
__device__ __forceinline__ void load_line(float (&r)[kCount], const float* s) {
  for (int i = 0; i < kCount; i += 4) {
    const float4 x = load_float4(s + i * kLanes);
    r[i] = x.x, r[i + 1] = x.y, r[i + 2] = x.z, r[i + 3] = x.w;
  }
}

/// Each number of a line of A times each number of a line of B. For 8 and 8 of them, 4 loads of 16 bytes feed 64
/// multiply-adds.
template <int kRows, int kCols>
__device__ __forceinline__ void add_outer_product(float (&rC)[kRows][kCols], const float (&rA)[kRows],
                                                  const float (&rB)[kCols]) {
  // EXERCISE 3: Add the outer product: each of the kRows numbers times each of the kCols numbers.
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kCols; ++c) rC[r][c] += rA[r] * rB[c];
  }
  // END 3
}

/// C += A^T B for the rows and columns of a lane: kDepth outer products.
///
/// @param sA  [kDepth, kStrideA], at the first row of the lane
/// @param sB  [kDepth, kStrideB], at its first column
template <class Tile, int kDepth, int kStrideA, int kStrideB, int kCols>
__device__ __forceinline__ void multiply(float (&rC)[Tile::kRows][kCols], const float* sA, const float* sB) {
#pragma unroll(1024 / (Tile::kRows * kCols))  // so many lines are 1024 multiply-adds
  for (int n = 0; n < kDepth; ++n) {
    float rA[Tile::kRows], rB[kCols];
    load_line<Tile::kRowLanes>(rA, sA + n * kStrideA);
    load_line<Tile::kColLanes>(rB, sB + n * kStrideB);
    add_outer_product(rC, rA, rB);
  }
}

/// The same, but each line is loaded while the one before it is multiplied.
template <class Tile, int kDepth, int kStrideA, int kStrideB, int kCols>
__device__ __forceinline__ void multiply_prefetched(float (&rC)[Tile::kRows][kCols], const float* sA,
                                                    const float* sB) {
  float rA[2][Tile::kRows], rB[2][kCols];
  load_line<Tile::kRowLanes>(rA[0], sA);
  load_line<Tile::kColLanes>(rB[0], sB);
#pragma unroll(1024 / (Tile::kRows * kCols))
  for (int n = 0; n < kDepth; ++n) {
    // EXERCISE 4: Load line n + 1 into registers. Then add the outer product of line n, which is there already.
    load_line<Tile::kRowLanes>(rA[(n + 1) % 2], sA + (n + 1) % kDepth * kStrideA);
    load_line<Tile::kColLanes>(rB[(n + 1) % 2], sB + (n + 1) % kDepth * kStrideB);
    add_outer_product(rC, rA[n % 2], rB[n % 2]);
    // END 4
  }
}

/// Where a lane is in the grid of its warp. lane ^ 1 has the same rows, lane ^ 2 the same columns: so one wavefront
/// serves the loads of 16 bytes of 16 lanes, of rows as of columns.
template <class Tile>
struct LaneGrid {
  int row_lane, col_lane;
  __device__ __forceinline__ LaneGrid() {
    const int lane = threadIdx.x % 32;
    row_lane = lane / 2 % Tile::kRowLanes;
    col_lane = lane % 2 + lane / (2 * Tile::kRowLanes) * 2;
  }
  /// Row r of this lane, and column c of its scores, counted in the warp.
  __device__ __forceinline__ int row(int r) const { return lane_index<Tile::kRowLanes>(row_lane, r); }
  __device__ __forceinline__ int col(int c) const { return lane_index<Tile::kColLanes>(col_lane, c); }
};

/// op over the lanes that share their rows. Bits 1, 2, ... of a lane's number say which rows it has.
template <class Tile, class Op>
__device__ __forceinline__ float reduce_row(float value, Op op) {
  value = op(value, shuffle_xor(value, 1));
  for (int mask = 2 * Tile::kRowLanes; mask < 32; mask *= 2) value = op(value, shuffle_xor(value, mask));
  return value;
}

/// scale * Q of the block's rows, transposed: sQ is [d, kQStride].
template <class Tile>
__device__ __forceinline__ void load_query_tile(float* sQ, const QueryTile& tile, float scale) {
  for (int n = threadIdx.x; n < Tile::Br * Tile::kHeadDim / 4; n += Tile::kThreads) {
    const Coord at = coord_to_transpose<Tile::Br>(n);
    const float4 x = load_float4_or_zero<Tile::kHeadDim>(tile.q, at, tile.rows);
    store_transposed<Tile::kQStride>(sQ, at, {scale * x.x, scale * x.y, scale * x.z, scale * x.w});
  }
}

/// Scores of keys that their row does not see become -inf. @param first_query  of the warp
template <class Tile>
__device__ __forceinline__ void mask(float (&rS)[Tile::kRows][Tile::kCols], const Attention<float>& a,
                                     LaneGrid<Tile> my, int first_query, int first_key) {
  // EXERCISE 5: Hide scores of keys that their row does not see. Most tiles have none, and should not look.
  if (first_key + Tile::Bc > a.visible_keys(first_query)) {
    for (int r = 0; r < Tile::kRows; ++r) {
      const int visible = a.visible_keys(first_query + my.row(r)) - first_key;
      for (int c = 0; c < Tile::kCols; ++c) {
        if (my.col(c) >= visible) rS[r][c] = -INFINITY;
      }
    }
  }
  // END 5
}

/// The recurrence for one key tile: rS becomes P, l and O are brought to the new maximum.
template <class Tile>
__device__ __forceinline__ void online_softmax(float (&rS)[Tile::kRows][Tile::kCols],
                                               float (&rO)[Tile::kRows][Tile::kDims], float (&m)[Tile::kRows],
                                               float (&l)[Tile::kRows]) {
  for (int r = 0; r < Tile::kRows; ++r) {
    float m_new = m[r];
    for (int c = 0; c < Tile::kCols; ++c) m_new = fmaxf(m_new, rS[r][c]);
    m_new = reduce_row<Tile>(m_new, Max());
    const float correction = __expf(m[r] - m_new);
    m[r] = m_new;
    l[r] *= correction;
    for (int c = 0; c < Tile::kDims; ++c) rO[r][c] *= correction;
    for (int c = 0; c < Tile::kCols; ++c) {
      rS[r][c] = __expf(rS[r][c] - m_new);
      l[r] += rS[r][c];
    }
  }
}

/// P of the warp's rows, transposed. @param sP  [Bc, kPStride], at the first row of the lane
template <class Tile>
__device__ __forceinline__ void store_p(float* sP, const float (&rP)[Tile::kRows][Tile::kCols],
                                        LaneGrid<Tile> my) {
  for (int c = 0; c < Tile::kCols; ++c) {
    float* sKey = sP + my.col(c) * Tile::kPStride;
    for (int r = 0; r < Tile::kRows; r += 4) {
      store_float4(sKey + r * Tile::kRowLanes, {rP[r][c], rP[r + 1][c], rP[r + 2][c], rP[r + 3][c]});
    }
  }
}

/// The end of the lane's rows: O = o / l, and LSE. @param first_row  of the warp, in the query tile
template <class Tile>
__device__ __forceinline__ void store_rows(const QueryTile& tile, LaneGrid<Tile> my, int first_row,
                                           const float (&rO)[Tile::kRows][Tile::kDims],
                                           const float (&m)[Tile::kRows], const float (&l)[Tile::kRows]) {
  for (int r = 0; r < Tile::kRows; ++r) {
    const float sum = reduce_row<Tile>(l[r], Sum());
    const float inv_l = inverse_or_zero(sum);
    const int row = first_row + my.row(r);
    if (row >= tile.rows) continue;
    float4* o = reinterpret_cast<float4*>(tile.o + row * Tile::kHeadDim) + my.col_lane;
    for (int c = 0; c < Tile::kDims; c += 4) {
      const float* x = rO[r] + c;
      __stcs(o + c / 4 * Tile::kColLanes, {x[0] * inv_l, x[1] * inv_l, x[2] * inv_l, x[3] * inv_l});
    }
    if (my.col_lane == 0) tile.lse[row] = log_sum_exp({m[r], sum});
  }
}

__device__ __forceinline__ void swap(float*& a, float*& b) {
  float* const old = a;
  a = b;
  b = old;
}

/// The next slice takes the place of the one in sSlice, which the warps have been multiplying with.
template <class Tile>
__device__ __forceinline__ void replace_slice(Slices<Tile>& slices, float* sSlice) {
  // EXERCISE 6: Load the next slice and store it to sSlice, when no warp needs the old one any more.
  __syncthreads();  // every warp is done with the slice
  slices.load();
  slices.store(sSlice);
  __syncthreads();  // the next slice is complete
  // END 6
}

/// FlashAttention v2 with outer products in registers.
///
///   grid    ceil(seq_q / Br) * batch * heads
///   block   Tile::kThreads
///   shared  4 * Tile::kFloats bytes: Q; P of each warp; a slice of K or V
///
/// @tparam Tile  RegisterTiles<Tiles, 1>
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    outer_products_attention(Attention<float> a) {
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kRows = Tile::kRows;
  const QueryTile tile = tile_of_block<Tile>(a);
  const LaneGrid<Tile> my;
  const int warp = threadIdx.x / 32, first_row = warp * Tile::kRowsOfWarp;

  extern __shared__ float4 smem[];
  float* sQ = reinterpret_cast<float*>(smem);                        // [d, kQStride]
  float* sP = sQ + d * Tile::kQStride + warp * Bc * Tile::kPStride;  // [Bc, kPStride], of this warp
  float* sSlice = sQ + d * Tile::kQStride + Tile::kWarps * Bc * Tile::kPStride;
  const float* sQRows = sQ + first_row + 4 * my.row_lane;  // where this lane's rows begin
  float* sPRows = sP + 4 * my.row_lane;
  const float* sSliceCols = sSlice + 4 * my.col_lane;  // and its columns

  Slices<Tile> slices{tile.k, tile.v, tile.keys};
  slices.load();
  load_query_tile<Tile>(sQ, tile, a.scale);
  slices.store(sSlice);
  __syncthreads();  // Q and the first slice are complete

  float m[kRows], l[kRows];  // of the rows: the maximum, and this lane's part of the sum
  float rO[kRows][Tile::kDims] = {};
  for (int r = 0; r < kRows; ++r) m[r] = -FLT_MAX, l[r] = 0.0f;

  for (int first_key = 0; first_key < tile.keys; first_key += Bc) {
    float rS[kRows][Tile::kCols] = {};
#pragma unroll 1
    for (int col = 0; col < d; col += Tile::kColsOfK) {
      multiply<Tile, Tile::kColsOfK, Tile::kQStride, Tile::kKStride>(rS, sQRows + col * Tile::kQStride,
                                                                     sSliceCols);
      replace_slice(slices, sSlice);
    }
    mask(rS, a, my, tile.first + first_row, first_key);
    online_softmax<Tile>(rS, rO, m, l);
    store_p(sPRows, rS, my);
    __syncwarp();  // P of the warp's rows is in shared memory
#pragma unroll 1
    for (int key = 0; key < Bc; key += Tile::kKeysOfV) {
      multiply<Tile, Tile::kKeysOfV, Tile::kPStride, d>(rO, sPRows + key * Tile::kPStride, sSliceCols);
      replace_slice(slices, sSlice);
    }
  }
  store_rows(tile, my, first_row, rO, m, l);
}

/// The same with prefetching: the next slice comes from HBM, and the next line from shared memory, during the products.
///
/// One change: shared memory has room for two slices. The next one is stored where no warp has read since the
/// barrier before, so a slice takes one barrier instead of two.
///
///   grid    ceil(seq_q / Br) * batch * heads
///   block   Tile::kThreads
///   shared  4 * Tile::kFloats bytes: Q; P of each warp; two slices of K or V
///
/// @tparam Tile  RegisterTiles<Tiles, 2>
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    register_tiled_attention(Attention<float> a) {
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kRows = Tile::kRows;
  const QueryTile tile = tile_of_block<Tile>(a);
  const LaneGrid<Tile> my;
  const int warp = threadIdx.x / 32, first_row = warp * Tile::kRowsOfWarp;

  extern __shared__ float4 smem[];
  float* sQ = reinterpret_cast<float*>(smem);                        // [d, kQStride]
  float* sP = sQ + d * Tile::kQStride + warp * Bc * Tile::kPStride;  // [Bc, kPStride], of this warp
  float* sSlice = sQ + d * Tile::kQStride + Tile::kWarps * Bc * Tile::kPStride;
  float* sNext = sSlice + Tile::kBufferFloats;
  const float* sQRows = sQ + first_row + 4 * my.row_lane;
  float* sPRows = sP + 4 * my.row_lane;

  Slices<Tile> slices{tile.k, tile.v, tile.keys};
  slices.load();
  load_query_tile<Tile>(sQ, tile, a.scale);
  slices.store(sSlice);
  __syncthreads();  // Q and the first slice are complete

  float m[kRows], l[kRows];
  float rO[kRows][Tile::kDims] = {};
  for (int r = 0; r < kRows; ++r) m[r] = -FLT_MAX, l[r] = 0.0f;

  for (int first_key = 0; first_key < tile.keys; first_key += Bc) {
    // EXERCISE 7: The loop of outer_products, with the next slice on its way from HBM while this one is multiplied.
    float rS[kRows][Tile::kCols] = {};
#pragma unroll 1
    for (int col = 0; col < d; col += Tile::kColsOfK) {
      slices.load();  // in flight during the products
      multiply_prefetched<Tile, Tile::kColsOfK, Tile::kQStride, Tile::kKStride>(
          rS, sQRows + col * Tile::kQStride, sSlice + 4 * my.col_lane);
      slices.store(sNext);
      __syncthreads();  // the next slice is complete, and every warp is done with this slice of K
      swap(sSlice, sNext);
    }
    mask(rS, a, my, tile.first + first_row, first_key);
    online_softmax<Tile>(rS, rO, m, l);
    store_p(sPRows, rS, my);
    __syncwarp();  // P of the warp's rows is in shared memory
#pragma unroll 1
    for (int key = 0; key < Bc; key += Tile::kKeysOfV) {
      slices.load();
      multiply_prefetched<Tile, Tile::kKeysOfV, Tile::kPStride, d>(rO, sPRows + key * Tile::kPStride,
                                                                   sSlice + 4 * my.col_lane);
      slices.store(sNext);
      __syncthreads();  // the next slice is complete, and every warp is done with this slice of V
      swap(sSlice, sNext);
    }
    // END 7
  }
  store_rows(tile, my, first_row, rO, m, l);
}

}  // namespace fa::ch05
