/// @file
/// FlashAttention v2: queries stay on the chip with their O, and key tiles come by.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], LSE [batch,
/// heads, seq_q], all fp32. Every kernel takes any lengths >= 1 and any kv_heads that divides heads. A row
/// that sees no key has O = 0 and LSE = -inf.
///
/// Both kernels are Algorithm 1 of Dao 2023, with one block for each query tile of each head. They read Q once
/// and write O and LSE once. K and V are read once by each query tile, as far as its last row sees them:
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
  static constexpr int Bc = 64;                        ///< keys of a step
  static constexpr int kWarps = 2;                     ///< of a block
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRowsOfLane = 4;   ///< of the outer products of a lane
  static constexpr int kSlice = 1024;     ///< floats of K or V that outer products need at a time
  static constexpr int kBlocksPerSm = 4;  ///< leaves 255 registers for a thread, all that it can have
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
  static constexpr int kSlice = 2048;
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

/// Under a causal mask the last tiles see the most keys. They go to the first blocks, of all heads, so that no
/// long tile begins when the others are about to end.
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

__device__ __forceinline__ float add(float a, float b) { return a + b; }

// --- who shares a row: warps, or the lanes of one ----------------------------------------------------

/// How `sliced_k` and `sliced_q` deal the scores of a query tile and a key tile out to warps and lanes.
template <class Tiles, bool kSplitKeys>
struct Sliced : Tiles {
  static constexpr int kWarpsOfRow = kSplitKeys ? Tiles::kWarps : 1;     ///< that share its keys
  static constexpr int kRows = Tiles::Br * kWarpsOfRow / Tiles::kWarps;  ///< of a warp
  static constexpr int kKeys = Tiles::Bc / kWarpsOfRow;                  ///< of a warp
  static constexpr int kKeysOfLane = kKeys / 32;                         ///< keys lane, lane + 32, ...
  static constexpr int kCols = Tiles::kHeadDim / 32;    ///< columns lane, lane + 32, ... of O
  static constexpr int kKStride = Tiles::kHeadDim + 4;  ///< as in chapter 04
  static constexpr int kFloats = (Tiles::Br + Tiles::Bc) * Tiles::kHeadDim + Tiles::Bc * kKStride +
                                 Tiles::Br * (Tiles::Bc + 2 * kWarpsOfRow);  ///< of shared memory
};

/// FlashAttention v2, multiplied as in chapter 04: a lane has keys and all rows of its warp for Q K^T, then
/// columns and all rows for P V.
///
///   grid    ceil(seq_q / Br) * batch * heads
///   block   Tile::kThreads
///   shared  4 * Tile::kFloats bytes: tiles of Q, K, V and P, and what warps tell each other of a row
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) sliced_attention(Attention<float> a) {
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kThreads = Tile::kThreads;
  constexpr int kRows = Tile::kRows, kKeysOfLane = Tile::kKeysOfLane, kCols = Tile::kCols;
  const QueryTile tile = tile_of_block<Tile>(a);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = warp / Tile::kWarpsOfRow * kRows;        // of this warp, in the query tile
  const int first_col = warp % Tile::kWarpsOfRow * Tile::kKeys;  // and in every key tile

  extern __shared__ float4 smem[];
  float* sQ = reinterpret_cast<float*>(smem);
  float* sK = sQ + Br * d;
  float* sV = sK + Bc * Tile::kKStride;
  float* sP = sV + Bc * d + warp * kRows * Tile::kKeys;  // [kKeysOfLane, kRows, 32], of this warp
  float* sM = sV + Bc * d + Br * Bc;                     // [kWarpsOfRow, Br]
  float* sL = sM + Tile::kWarpsOfRow * Br;               // [kWarpsOfRow, Br]

  load_tile<kThreads, d, d>(sQ, tile.q, 0, Br, tile.rows, a.scale);
  float m[kRows], l[kRows];  // of the rows: the maximum, and this lane's part of the sum
  float rO[kRows][kCols] = {};
  for (int r = 0; r < kRows; ++r) m[r] = -FLT_MAX, l[r] = 0.0f;

  for (int first_key = 0; first_key < tile.keys; first_key += Bc) {
    load_tile<kThreads, d, Tile::kKStride>(sK, tile.k, first_key, Bc, tile.keys);
    load_tile<kThreads, d, d>(sV, tile.v, first_key, Bc, tile.keys);
    __syncthreads();  // every row of the tiles is there

    float rS[kKeysOfLane][kRows], m_new[kRows];
    for (int i = 0; i < kKeysOfLane; ++i) {
      multiply_qk<d>(rS[i], sQ + first_row * d, sK + (first_col + lane + 32 * i) * Tile::kKStride);
    }
    for (int r = 0; r < kRows; ++r) {
      const int visible = a.visible_keys(tile.first + first_row + r) - first_key - first_col;
      m_new[r] = m[r];
      for (int i = 0; i < kKeysOfLane; ++i) {
        if (lane + 32 * i >= visible) rS[i][r] = -INFINITY;
        m_new[r] = fmaxf(m_new[r], rS[i][r]);
      }
      m_new[r] = warp_reduce(m_new[r], fmaxf);
    }
    if constexpr (Tile::kWarpsOfRow > 1) {
      // EXERCISE 2: Each warp has the maximum over its own keys. Make m_new[r] the maximum of the row.
      if (lane == 0) {
        for (int r = 0; r < kRows; ++r) sM[warp * Br + r] = m_new[r];
      }
      __syncthreads();  // the maxima of every warp are there
      for (int r = 0; r < kRows; ++r) {
        for (int w = 0; w < Tile::kWarpsOfRow; ++w) m_new[r] = fmaxf(m_new[r], sM[w * Br + r]);
      }
      // END 2
    }

    for (int r = 0; r < kRows; ++r) {
      const float correction = __expf(m[r] - m_new[r]);
      m[r] = m_new[r];
      l[r] *= correction;
      for (float& o : rO[r]) o *= correction;
      for (int i = 0; i < kKeysOfLane; ++i) {
        const float p = __expf(rS[i][r] - m[r]);
        l[r] += p;
        sP[(i * kRows + r) * 32 + lane] = p;
      }
    }
    __syncwarp();  // the warp's part of P is there
    for (int i = 0; i < kKeysOfLane; ++i) {
      multiply_pv(rO, sP + i * kRows * 32, sV + (first_col + 32 * i) * d);
    }
    __syncthreads();  // every warp is done with the key tile
  }

  for (int r = 0; r < kRows; ++r) l[r] = warp_reduce(l[r], add);
  if constexpr (Tile::kWarpsOfRow > 1) {
    float* sO = sK;  // [kWarpsOfRow - 1, Br, d], where the key tile was
    for (int r = 0; r < kRows && warp > 0; ++r) {
      for (int c = 0; c < kCols; ++c) sO[((warp - 1) * Br + r) * d + lane + 32 * c] = rO[r][c];
      if (lane == 0) sL[warp * Br + r] = l[r];
    }
    __syncthreads();  // the sums of the other warps are there
    if (warp > 0) return;
    for (int w = 1; w < Tile::kWarpsOfRow; ++w) {
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kCols; ++c) rO[r][c] += sO[((w - 1) * Br + r) * d + lane + 32 * c];
        l[r] += sL[w * Br + r];
      }
    }
  }
  for (int r = 0; r < kRows && first_row + r < tile.rows; ++r) {
    const float inv_l = inverse_or_zero(l[r]);
    for (int c = 0; c < kCols; ++c) tile.o[(first_row + r) * d + lane + 32 * c] = rO[r][c] * inv_l;
    if (lane == 0) tile.lse[first_row + r] = log_sum_exp({m[r], l[r]});
  }
}

// --- who holds which product -----------------------------------------------------------------------

/// How `outer_products`, `large_tiles` and `register_tiled` deal a query tile out to warps and lanes.
///
/// A warp has rows of its own. Its lanes form a grid: a lane has kRows rows, and kCols scores and kDims columns
/// of O in each of them.
///
/// @tparam kLoadAhead  load the next slice while this one is multiplied with
template <class Tiles, bool kLoadAhead>
struct RegisterTiles : Tiles {
  using Tiles::Bc, Tiles::Br, Tiles::kHeadDim, Tiles::kSlice, Tiles::kThreads, Tiles::kWarps;
  static constexpr bool kAhead = kLoadAhead;
  static constexpr int kRows = Tiles::kRowsOfLane;
  static constexpr int kRowsOfWarp = Br / kWarps;
  static constexpr int kRowLanes = kRowsOfWarp / kRows;  ///< lanes with different rows,
  static constexpr int kColLanes = 32 / kRowLanes;       ///< and with the same rows and different columns
  static constexpr int kCols = Bc / kColLanes;
  static constexpr int kDims = kHeadDim / kColLanes;

  // A slice of K is some columns of all keys of the tile, a slice of V all columns of some of them.
  static constexpr int kColsOfK = kSlice / Bc;
  static constexpr int kKeysOfV = kSlice / kHeadDim;
  static constexpr int kSlicesOfK = kHeadDim / kColsOfK;
  static constexpr int kSlices = kSlicesOfK + Bc / kKeysOfV;  ///< of a key tile
  static constexpr int kQuads = kSlice / 4 / kThreads;        ///< of a slice that a thread loads

  // Q, K and P are transposed in shared memory, with 4 floats of padding behind each column.
  static constexpr int kQStride = Br + 4;
  static constexpr int kKStride = Bc + 4;
  static constexpr int kPStride = kRowsOfWarp + 4;
  static constexpr int kSliceRoom = kColsOfK * kKStride;  ///< floats, enough for V as well
  static constexpr int kFloats =
      kHeadDim * kQStride + kWarps * Bc * kPStride + (kAhead ? 2 : 1) * kSliceRoom;  ///< of shared memory
};

/// The place of row or column i of a lane. A lane has quads: 4 neighbours, then the 4 that lie 4 * kLanes on.
template <int kLanes>
__device__ __forceinline__ int place(int lane, int i) {
  return 4 * (lane + i / 4 * kLanes) + i % 4;
}

/// Loads what lies at the places of a lane. @param s  its first
template <int kLanes, int kCount>
__device__ __forceinline__ void load_quads(float (&r)[kCount], const float* s) {
  for (int i = 0; i < kCount; i += 4) {
    const float4 x = load_float4(s + i * kLanes);
    r[i] = x.x, r[i + 1] = x.y, r[i + 2] = x.z, r[i + 3] = x.w;
  }
}

/// C += A^T B for the rows and columns of a lane: kDepth outer products of kRows and kCols numbers. For 8 x 8 of
/// them, 4 loads of 16 bytes feed 64 multiply-adds. With Tile::kAhead a line is loaded while the one before it
/// is multiplied; what comes behind the last is the first once more, and not used.
///
/// @param sA  [kDepth, kStrideA], at the first row of the lane
/// @param sB  [kDepth, kStrideB], at its first column
template <class Tile, int kDepth, int kStrideA, int kStrideB, int kCols>
__device__ __forceinline__ void multiply(float (&rC)[Tile::kRows][kCols], const float* sA, const float* sB) {
  constexpr int kLead = Tile::kAhead ? 1 : 0;
  float rA[2][Tile::kRows], rB[2][kCols];
  const auto load_line = [&](int n) {
    load_quads<Tile::kRowLanes>(rA[n % 2], sA + n % kDepth * kStrideA);
    load_quads<Tile::kColLanes>(rB[n % 2], sB + n % kDepth * kStrideB);
  };
  if (Tile::kAhead) load_line(0);
#pragma unroll(1024 / (Tile::kRows * kCols))  // so many lines are 1024 multiply-adds
  for (int n = 0; n < kDepth; ++n) {
    load_line(n + kLead);
    // EXERCISE 3: Add the outer product of line n: each of its kRows numbers times each of its kCols numbers.
    for (int r = 0; r < Tile::kRows; ++r) {
      for (int c = 0; c < kCols; ++c) rC[r][c] += rA[n % 2][r] * rB[n % 2][c];
    }
    // END 3
  }
}

/// op over the lanes that share their rows. Bits 1, 2, ... of a lane's number say which rows it has.
template <class Tile, class Op>
__device__ __forceinline__ float reduce_row(float value, Op op) {
  value = op(value, shuffle_xor(value, 1));
  for (int mask = 2 * Tile::kRowLanes; mask < 32; mask *= 2) value = op(value, shuffle_xor(value, mask));
  return value;
}

/// FlashAttention v2 with outer products in registers.
///
///   grid    ceil(seq_q / Br) * batch * heads
///   block   Tile::kThreads
///   shared  4 * Tile::kFloats bytes: Q; P of each warp; a slice of K or V, or two
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    register_tiled_attention(Attention<float> a) {
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc;
  constexpr int kRows = Tile::kRows, kCols = Tile::kCols, kDims = Tile::kDims;
  constexpr int kRowLanes = Tile::kRowLanes, kColLanes = Tile::kColLanes;
  const QueryTile tile = tile_of_block<Tile>(a);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = warp * Tile::kRowsOfWarp;
  // lane ^ 1 has the same rows, lane ^ 2 the same columns. So 16 lanes load their quads of rows in one
  // wavefront, and their quads of columns.
  const int row_lane = lane / 2 % kRowLanes, col_lane = lane % 2 + lane / (2 * kRowLanes) * 2;

  extern __shared__ float4 smem[];
  float* sQ = reinterpret_cast<float*>(smem);                        // [d, kQStride]
  float* sP = sQ + d * Tile::kQStride + warp * Bc * Tile::kPStride;  // [Bc, kPStride], of this warp
  float* sSlice = sQ + d * Tile::kQStride + Tile::kWarps * Bc * Tile::kPStride;
  float* sNext = sSlice + (Tile::kAhead ? Tile::kSliceRoom : 0);
  const float* sQRows = sQ + first_row + 4 * row_lane;
  float* sPRows = sP + 4 * row_lane;

  Slices<Tile> slices{tile.k, tile.v, tile.keys};
  slices.load();
  for (int n = threadIdx.x; n < Br * d / 4; n += Tile::kThreads) {
    const Place at = transposed_place<Br>(n);
    const float4 x = quad_or_zero<d>(tile.q, at, tile.rows);
    store_transposed<Tile::kQStride>(sQ, at, {a.scale * x.x, a.scale * x.y, a.scale * x.z, a.scale * x.w});
  }
  slices.store(sSlice);
  __syncthreads();  // Q and the first slice are there

  // A step: what there is to do with the slice in sSlice. Afterwards the next slice is there.
  const auto step = [&](auto multiply_slice) {
    // EXERCISE 4: Multiply, and bring the next slice. With Tile::kAhead, begin to load it before you multiply.
    if constexpr (Tile::kAhead) slices.load();
    multiply_slice();
    if constexpr (!Tile::kAhead) {
      __syncthreads();  // every warp is done with the slice
      slices.load();
    }
    slices.store(sNext);
    __syncthreads();  // the next slice is there; with kAhead, also: every warp is done with this one
    float* const done = sSlice;
    sSlice = sNext;
    sNext = done;
    // END 4
  };

  float m[kRows], l[kRows];  // of the rows: the maximum, and this lane's part of the sum
  float rO[kRows][kDims] = {};
  for (int r = 0; r < kRows; ++r) m[r] = -FLT_MAX, l[r] = 0.0f;

  for (int first_key = 0; first_key < tile.keys; first_key += Bc) {
    float rS[kRows][kCols] = {};
#pragma unroll 1
    for (int col = 0; col < d; col += Tile::kColsOfK) {
      step([&] {
        multiply<Tile, Tile::kColsOfK, Tile::kQStride, Tile::kKStride>(rS, sQRows + col * Tile::kQStride,
                                                                       sSlice + 4 * col_lane);
      });
    }

    // EXERCISE 5: Hide scores of keys that their row does not see. Most tiles have none, and should not look.
    if (first_key + Bc > a.visible_keys(tile.first + first_row)) {
      for (int r = 0; r < kRows; ++r) {
        const int query = tile.first + first_row + place<kRowLanes>(row_lane, r);
        const int visible = a.visible_keys(query) - first_key;
        for (int c = 0; c < kCols; ++c) {
          if (place<kColLanes>(col_lane, c) >= visible) rS[r][c] = -INFINITY;
        }
      }
    }
    // END 5

    for (int r = 0; r < kRows; ++r) {
      float m_new = m[r];
      for (int c = 0; c < kCols; ++c) m_new = fmaxf(m_new, rS[r][c]);
      m_new = reduce_row<Tile>(m_new, fmaxf);
      const float correction = __expf(m[r] - m_new);
      m[r] = m_new;
      l[r] *= correction;
      for (int c = 0; c < kDims; ++c) rO[r][c] *= correction;
      for (int c = 0; c < kCols; ++c) {
        rS[r][c] = __expf(rS[r][c] - m_new);
        l[r] += rS[r][c];
      }
    }
    for (int c = 0; c < kCols; ++c) {
      float* sKey = sPRows + place<kColLanes>(col_lane, c) * Tile::kPStride;
      for (int r = 0; r < kRows; r += 4) {
        store_float4(sKey + r * kRowLanes, {rS[r][c], rS[r + 1][c], rS[r + 2][c], rS[r + 3][c]});
      }
    }
    __syncwarp();  // P of the warp's rows is there

#pragma unroll 1
    for (int key = 0; key < Bc; key += Tile::kKeysOfV) {
      step([&] {
        multiply<Tile, Tile::kKeysOfV, Tile::kPStride, d>(rO, sPRows + key * Tile::kPStride,
                                                          sSlice + 4 * col_lane);
      });
    }
  }

  for (int r = 0; r < kRows; ++r) {
    const float sum = reduce_row<Tile>(l[r], add);
    const float inv_l = inverse_or_zero(sum);
    const int row = first_row + place<kRowLanes>(row_lane, r);
    if (row >= tile.rows) continue;
    float4* o = reinterpret_cast<float4*>(tile.o + row * d) + col_lane;
    for (int c = 0; c < kDims; c += 4) {
      const float* x = rO[r] + c;
      __stcs(o + c / 4 * kColLanes, {x[0] * inv_l, x[1] * inv_l, x[2] * inv_l, x[3] * inv_l});
    }
    if (col_lane == 0) tile.lse[row] = log_sum_exp({m[r], sum});
  }
}

}  // namespace fa::ch05
