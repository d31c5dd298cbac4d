/// @file
/// FlashAttention v2: each block keeps its queries and their O on the chip and loops over the key tiles. This
/// file has what all kernels share, and the kernels that multiply as in chapter 04; outer_products.cuh has
/// the fast ones.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], LSE [batch,
/// heads, seq_q], all fp32. Every kernel takes any lengths >= 1 and any kv_heads that divides heads. A row
/// that sees no key has O = 0 and LSE = -inf.
///
/// All kernels implement Algorithm 1 of Dao 2023, with one block per query tile of each head. They read Q
/// once and write O and LSE once. Each query tile reads K and V once, up to the last key that its last row
/// sees; see attention_traffic(), which chapter.cu calls. Without a mask, and with Tr = ceil(seq_q / Br),
/// each head takes
///   (2 * seq_q * d + 2 * Tr * seq_k * d + seq_q) * 4 bytes
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstddef>

#include "device/attention.cuh"
#include "device/declare_rows.cuh"
#include "device/math.cuh"
#include "device/max_sum.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"

namespace fa::ch05 {

// --- what the kernels share ------------------------------------------------------------------------

/// The tiles of `sliced_k`, `sliced_q` and `outer_products`.
template <int kHeadDimension>
struct SmallTiles {
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = kHeadDim <= 64 ? 32 : 16;  ///< queries per block
  static constexpr int Bc = 64;                        ///< keys per key tile
  static constexpr int kWarps = 2;                     ///< per block
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRowsOfLane = 4;      ///< used in outer_products.cuh
  static constexpr int kSliceFloats = 1024;  ///< used there, too: floats of K or V in shared memory at a time

  static constexpr int kBlocksPerSm = 4;  ///< leaves each thread 255 registers, the most it can have
  static constexpr bool kDense =
      true;  ///< for tensors whose rows follow each other and have kHeadDim elements
};

/// The query tile of a block, and the keys that it has to process.
struct QueryTile {
  HeadRows<const float> q;  ///< [rows, head_dim]
  HeadRows<const float> k;  ///< [keys, head_dim]
  HeadRows<const float> v;  ///< [keys, head_dim]
  HeadRows<float> o;        ///< [rows, head_dim]
  float* lse;               ///< [rows]
  int first;                ///< its first query
  int rows;                 ///< Br, or fewer in the last tile
  int keys;                 ///< at least one of its rows sees keys 0 .. keys - 1
  int cols;                 ///< head_dim
};

/// The rows of a head from row `first` on. With Tiles::kDense their stride is a constant.
template <class Tiles, class T>
__device__ __forceinline__ HeadRows<T> rows_from(HeadRows<T> rows, int first) {
  return {rows[first], Tiles::kDense ? Tiles::kHeadDim : rows.stride};
}

/// Under a causal mask the last tiles see the most keys. The first blocks take the last tiles of all heads,
/// so that no long tile starts when all other tiles are about to finish.
template <class Tiles>
__device__ __forceinline__ QueryTile tile_of_block(const Attention<float>& a) {
  const unsigned heads = a.batch * a.heads, tiles = gridDim.x / heads;
  const int head = int(a.causal ? blockIdx.x % heads : blockIdx.x / tiles);
  const unsigned tile = a.causal ? tiles - 1 - blockIdx.x / heads : blockIdx.x % tiles;
  const int first = int(tile) * Tiles::Br, rows = min(Tiles::Br, a.seq_q - first);
  // EXERCISE 1: How many keys does the tile have to process? All that any of its rows sees, and no more.
  const int keys = a.visible_keys(first + rows - 1);
  // END 1
  return {rows_from<Tiles>(a.q_rows(head), first),
          rows_from<Tiles>(a.k_rows(head), 0),
          rows_from<Tiles>(a.v_rows(head), 0),
          rows_from<Tiles>(a.o_rows(head), first),
          a.lse + size_t(head) * a.seq_q + first,
          first,
          rows,
          keys,
          Tiles::kDense ? Tiles::kHeadDim : a.head_dim};
}

// --- who shares a row: all warps, or the lanes of one warp --------------------------------------------

/// How `sliced_k` and `sliced_q` divide the scores of a query tile and a key tile among warps and lanes.
///
/// @tparam kWarpsPerRow  warps that share the keys of a row: all warps of the block, or 1
template <class Tiles, int kWarpsPerRow>
struct Sliced : Tiles {
  static constexpr int kWarpsOfRow = kWarpsPerRow;
  static constexpr int kRows = Tiles::Br * kWarpsOfRow / Tiles::kWarps;  ///< per warp
  static constexpr int kKeys = Tiles::Bc / kWarpsOfRow;                  ///< per warp
  static constexpr int kKeysOfLane = kKeys / 32;                         ///< keys lane, lane + 32, ...
  static constexpr int kCols = Tiles::kHeadDim / 32;    ///< columns lane, lane + 32, ... of O
  static constexpr int kKStride = Tiles::kHeadDim + 4;  ///< as in chapter 04
  static constexpr int kFloats = (Tiles::Br + Tiles::Bc) * Tiles::kHeadDim + Tiles::Bc * kKStride +
                                 Tiles::Br * (Tiles::Bc + 2 * kWarpsOfRow);  ///< of shared memory
};

/// Masks the scores, then sets m_new[r] to the larger of m[r] and the maximum of row r over the warp's keys.
/// Masking sets the scores of keys that the row does not see to -inf.
///
/// @param first_query, first_key  the first query and the first key of the warp
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

/// The recurrence of chapter 03 for the warp's rows: rescales l and O to the new maximum, and stores P to
/// shared memory.
///
/// @param sP  [kKeysOfLane, kRows, 32], this warp's share of P
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

/// Stores the results of the warp's rows: O = o / l, and LSE.
template <class Tile>
__device__ __forceinline__ void store_rows(const QueryTile& tile, int first_row,
                                           const float (&rO)[Tile::kRows][Tile::kCols],
                                           const float (&m)[Tile::kRows], const float (&l)[Tile::kRows]) {
  const int lane = threadIdx.x % 32;
  for (int r = 0; r < Tile::kRows && first_row + r < tile.rows; ++r) {
    const float inv_l = inverse_or_zero(l[r]);
    for (int c = 0; c < Tile::kCols; ++c) {
      tile.o[first_row + r][lane + 32 * c] = rO[r][c] * inv_l;
    }
    if (lane == 0) tile.lse[first_row + r] = log_sum_exp({m[r], l[r]});
  }
}

/// Sets m_new[r] to the maximum over all warps. They work on the same rows, each with other keys.
///
/// @param sM  [kWarps, Br]
template <class Tile>
__device__ __forceinline__ void share_maxima(float (&m_new)[Tile::kRows], float* sM) {
  constexpr int Br = Tile::Br;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // EXERCISE 2: m_new[r] is the maximum over the keys of this warp. Make it the maximum of the whole row.
  if (lane == 0) {
    for (int r = 0; r < Br; ++r) sM[warp * Br + r] = m_new[r];
  }
  __syncthreads();  // every warp has written its maxima
  for (int r = 0; r < Br; ++r) {
    for (int w = 0; w < Tile::kWarps; ++w) m_new[r] = fmaxf(m_new[r], sM[w * Br + r]);
  }
  // END 2
}

/// Adds up, in warp 0, the sums that each warp has formed over its own keys.
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

/// FlashAttention v2 with the products of chapter 04: for Q K^T a lane has some keys and all rows of its
/// warp, for P V some columns of O and the same rows. Each warp has all rows, and its own keys of every tile.
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
  declare_rows<d>(sQ, sV);
  declare_rows<Tile::kKStride>(sK);
  declare_rows<32>(sP);
  declare_rows<Br>(sM, sL);

  load_tile<kThreads, d, d>(sQ, tile.q.first, 0, Br, tile.rows, a.scale);
  float m[Br], l[Br];  // of each row: the maximum, and this lane's share of the sum
  float rO[Br][Tile::kCols] = {};
  for (int r = 0; r < Br; ++r) m[r] = -FLT_MAX, l[r] = 0.0f;

  for (int first_key = 0; first_key < tile.keys; first_key += Bc) {
    load_tile<kThreads, d, Tile::kKStride>(sK, tile.k.first, first_key, Bc, tile.keys);
    load_tile<kThreads, d, d>(sV, tile.v.first, first_key, Bc, tile.keys);
    __syncthreads();  // all rows of Q, K and V are in shared memory

    float rS[Tile::kKeysOfLane][Br], m_new[Br];
    for (int i = 0; i < Tile::kKeysOfLane; ++i) {
      multiply_qk<d>(rS[i], sQ, sK + (first_col + lane + 32 * i) * Tile::kKStride);
    }
    mask_and_max<Tile>(m_new, m, rS, a, tile.first, first_key + first_col);
    share_maxima<Tile>(m_new, sM);
    rescale_and_store_p<Tile>(m, l, rO, sP, m_new, rS);
    __syncwarp();  // the warp's share of P is in shared memory
    for (int i = 0; i < Tile::kKeysOfLane; ++i) {
      multiply_pv(rO, sP + i * Br * 32, sV + (first_col + 32 * i) * d);
    }
    __syncthreads();  // every warp is done with the key tile
  }

  for (int r = 0; r < Br; ++r) l[r] = warp_reduce(l[r], Sum());
  add_up_in_first_warp<Tile>(rO, l, sK, sL);  // O of the other warps goes where the key tile was
  if (warp == 0) store_rows<Tile>(tile, 0, rO, m, l);
}

/// One change: each warp has its own rows, and all keys of every tile. No row is shared.
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
  declare_rows<d>(sQ, sV);
  declare_rows<Tile::kKStride>(sK);
  declare_rows<32>(sP);

  load_tile<kThreads, d, d>(sQ, tile.q.first, 0, Br, tile.rows, a.scale);
  float m[kRows], l[kRows];
  float rO[kRows][Tile::kCols] = {};
  for (int r = 0; r < kRows; ++r) m[r] = -FLT_MAX, l[r] = 0.0f;

  for (int first_key = 0; first_key < tile.keys; first_key += Bc) {
    load_tile<kThreads, d, Tile::kKStride>(sK, tile.k.first, first_key, Bc, tile.keys);
    load_tile<kThreads, d, d>(sV, tile.v.first, first_key, Bc, tile.keys);
    __syncthreads();  // all rows of Q, K and V are in shared memory

    float rS[Tile::kKeysOfLane][kRows], m_new[kRows];
    for (int i = 0; i < Tile::kKeysOfLane; ++i) {
      multiply_qk<d>(rS[i], sQ + first_row * d, sK + (lane + 32 * i) * Tile::kKStride);
    }
    mask_and_max<Tile>(m_new, m, rS, a, tile.first + first_row, first_key);
    rescale_and_store_p<Tile>(m, l, rO, sP, m_new, rS);
    __syncwarp();  // the warp's share of P is in shared memory
    for (int i = 0; i < Tile::kKeysOfLane; ++i) multiply_pv(rO, sP + i * kRows * 32, sV + 32 * i * d);
    __syncthreads();  // every warp is done with the key tile
  }

  for (int r = 0; r < kRows; ++r) l[r] = warp_reduce(l[r], Sum());
  store_rows<Tile>(tile, first_row, rO, m, l);
}

}  // namespace fa::ch05
