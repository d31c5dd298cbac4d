/// @file
/// FlashAttention v2 with outer products in registers: which lane holds which product, and what is loaded
/// when.
///
/// Queries, keys, edges and bytes are as in kernel.cuh; slices.cuh brings K and V to shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

#include "device/attention.cuh"
#include "device/declare_rows.cuh"
#include "device/math.cuh"
#include "device/max_sum.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"
#include "kernel.cuh"
#include "slices.cuh"

namespace fa::ch05 {

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
  static constexpr bool kDense = true;
};

/// How `outer_products`, `large_tiles` and `register_tiled` divide a query tile among warps and lanes.
///
/// Each warp has its own rows. Its lanes form a grid: each lane has kRows rows, and in each row kCols scores
/// and kDims columns of O.
///
/// @tparam kSliceBuffers  slices that shared memory has room for: 1, or 2 if the next one is prefetched
template <class Tiles, int kSliceBuffers>
struct RegisterTiles : Tiles {
  using Tiles::Bc, Tiles::Br, Tiles::kHeadDim, Tiles::kSliceFloats, Tiles::kThreads, Tiles::kWarps;
  static constexpr int kRows = Tiles::kRowsOfLane;
  static constexpr int kRowsOfWarp = Br / kWarps;
  static constexpr int kRowLanes = kRowsOfWarp / kRows;  ///< rows of the grid of lanes
  static constexpr int kColLanes = 32 / kRowLanes;       ///< and its columns
  static constexpr int kCols = Bc / kColLanes;
  static constexpr int kDims = kHeadDim / kColLanes;

  // A slice of K is a few columns of all keys of the tile, a slice of V is all columns of a few keys.
  static constexpr int kColsOfK = kSliceFloats / Bc;
  static constexpr int kKeysOfV = kSliceFloats / kHeadDim;
  static constexpr int kSlicesOfK = kHeadDim / kColsOfK;
  static constexpr int kSlices = kSlicesOfK + Bc / kKeysOfV;    ///< of a key tile
  static constexpr int kFloat4s = kSliceFloats / 4 / kThreads;  ///< per thread and slice

  // Q, K and P are transposed in shared memory, with 4 floats of padding at the end of each column.
  static constexpr int kQStride = Br + 4;
  static constexpr int kKStride = Bc + 4;
  static constexpr int kPStride = kRowsOfWarp + 4;
  static constexpr int kBufferFloats = kColsOfK * kKStride;  ///< enough for a slice of V as well
  static constexpr int kFloats =
      kHeadDim * kQStride + kWarps * Bc * kPStride + kSliceBuffers * kBufferFloats;  ///< of shared memory
};

/// The same tiles for tensors with any strides and for every head_dim up to kHeadDim. Columns from head_dim
/// on are zeros on the chip and do not exist in HBM.
template <class Tiles>
struct AnyRows : Tiles {
  static constexpr bool kDense = false;
};

/// The row or column of the warp that is number i of a lane: 4 neighbours, then the 4 that are 4 * kLanes
/// further on.
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

/// Multiplies each number of a line of A by each number of a line of B. With 8 numbers of each, 4 loads of 16
/// bytes feed 64 multiply-adds.
template <int kRows, int kCols>
__device__ __forceinline__ void add_outer_product(float (&rC)[kRows][kCols], const float (&rA)[kRows],
                                                  const float (&rB)[kCols]) {
  // EXERCISE 3: Add the outer product to rC: each of the kRows numbers times each of the kCols numbers.
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
#pragma unroll(1024 / (Tile::kRows * kCols))  // this many lines are 1024 multiply-adds
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
    // EXERCISE 4: Prefetch line n + 1 into registers. Then add the outer product of line n, which is already there.
    load_line<Tile::kRowLanes>(rA[(n + 1) % 2], sA + (n + 1) % kDepth * kStrideA);
    load_line<Tile::kColLanes>(rB[(n + 1) % 2], sB + (n + 1) % kDepth * kStrideB);
    add_outer_product(rC, rA[n % 2], rB[n % 2]);
    // END 4
  }
}

/// The position of a lane in the grid of its warp. lane ^ 1 has the same rows and lane ^ 2 the same columns,
/// so one wavefront serves the 16-byte loads of 16 lanes, for rows as well as for columns.
template <class Tile>
struct LaneGrid {
  int row_lane, col_lane;
  __device__ __forceinline__ LaneGrid() {
    const int lane = threadIdx.x % 32;
    row_lane = lane / 2 % Tile::kRowLanes;
    col_lane = lane % 2 + lane / (2 * Tile::kRowLanes) * 2;
  }
  /// Which row of the warp is row r of this lane, and which column is column c of its scores.
  __device__ __forceinline__ int row(int r) const { return lane_index<Tile::kRowLanes>(row_lane, r); }
  __device__ __forceinline__ int col(int c) const { return lane_index<Tile::kColLanes>(col_lane, c); }
};

/// Reduces over the lanes that share their rows. Bits 1, 2, ... of the lane number say which rows a lane has.
template <class Tile, class Op>
__device__ __forceinline__ float reduce_row(float value, Op op) {
  value = op(value, shuffle_xor(value, 1));
  for (int mask = 2 * Tile::kRowLanes; mask < 32; mask *= 2) value = op(value, shuffle_xor(value, mask));
  return value;
}

/// Loads scale * Q for the block's rows, transposed: sQ is [d, kQStride].
template <class Tile>
__device__ __forceinline__ void load_query_tile(float* sQ, const QueryTile& tile, float scale) {
  for (int n = threadIdx.x; n < Tile::Br * Tile::kHeadDim / 4; n += Tile::kThreads) {
    const Coord at = coord_to_transpose<Tile::Br>(n);
    const float4 x = load_float4_or_zero<Tile>(tile.q, at, tile.rows, tile.cols);
    store_transposed<Tile::kQStride>(sQ, at, {scale * x.x, scale * x.y, scale * x.z, scale * x.w});
  }
}

/// Sets the scores of keys that their row does not see to -inf.
/// @param first_query  the first query of the warp
template <class Tile>
__device__ __forceinline__ void mask(float (&rS)[Tile::kRows][Tile::kCols], const Attention<float>& a,
                                     LaneGrid<Tile> my, int first_query, int first_key) {
  // EXERCISE 5: Mask the scores of keys that their row does not see. Most tiles have none; skip the comparisons there.
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

/// The recurrence for one key tile: rS becomes P, and l and O are rescaled to the new maximum.
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

/// Stores P of the warp's rows, transposed. @param sP  [Bc, kPStride], at the first row of the lane
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

/// Stores the results of the lane's rows: O = o / l, and LSE.
/// @param first_row  of the warp, in the query tile
template <class Tile>
__device__ __forceinline__ void store_rows(const QueryTile& tile, LaneGrid<Tile> my, int first_row,
                                           const float (&rO)[Tile::kRows][Tile::kDims],
                                           const float (&m)[Tile::kRows], const float (&l)[Tile::kRows]) {
  for (int r = 0; r < Tile::kRows; ++r) {
    const float sum = reduce_row<Tile>(l[r], Sum());
    const float inv_l = inverse_or_zero(sum);
    const int row = first_row + my.row(r);
    if (row >= tile.rows) continue;
    float4* o = reinterpret_cast<float4*>(tile.o[row]);
    for (int c = 0; c < Tile::kDims; c += 4) {
      const int four = my.col_lane + c / 4 * Tile::kColLanes;  // of the row's groups of four columns
      if (!Tile::kDense && 4 * four >= tile.cols) break;
      const float* x = rO[r] + c;
      __stcs(o + four, {x[0] * inv_l, x[1] * inv_l, x[2] * inv_l, x[3] * inv_l});
    }
    if (my.col_lane == 0) tile.lse[row] = log_sum_exp({m[r], sum});
  }
}

__device__ __forceinline__ void swap(float*& a, float*& b) {
  float* const old = a;
  a = b;
  b = old;
}

/// Replaces the slice in sSlice, which the warps have been multiplying with, by the next one.
template <class Tile>
__device__ __forceinline__ void replace_slice(Slices<Tile>& slices, float* sSlice) {
  // EXERCISE 6: Load the next slice, and store it to sSlice once no warp needs the old one.
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
  declare_rows<Tile::kQStride>(sQ);
  declare_rows<Tile::kPStride>(sP);

  Slices<Tile> slices{tile.k, tile.v, tile.keys, tile.cols};
  slices.load();
  load_query_tile<Tile>(sQ, tile, a.scale);
  slices.store(sSlice);
  __syncthreads();  // Q and the first slice are complete

  float m[kRows], l[kRows];  // of each row: the maximum, and this lane's share of the sum
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

/// The same with prefetching: the next slice from HBM and the next line from shared memory load during the
/// products.
///
/// One change: shared memory has room for two slices. The next one goes to the buffer that no warp has read
/// since the last barrier, so each slice takes one barrier instead of two.
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
  declare_rows<Tile::kQStride>(sQ);
  declare_rows<Tile::kPStride>(sP);

  Slices<Tile> slices{tile.k, tile.v, tile.keys, tile.cols};
  slices.load();
  load_query_tile<Tile>(sQ, tile, a.scale);
  slices.store(sSlice);
  __syncthreads();  // Q and the first slice are complete

  float m[kRows], l[kRows];
  float rO[kRows][Tile::kDims] = {};
  for (int r = 0; r < kRows; ++r) m[r] = -FLT_MAX, l[r] = 0.0f;

  for (int first_key = 0; first_key < tile.keys; first_key += Bc) {
    // EXERCISE 7: Write the loop of outer_products, but with the next slice in flight while this one is multiplied.
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
