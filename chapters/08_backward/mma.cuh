/// @file
/// The gradients of attention on tensor cores: 16 bits in, products summed in fp32.
///
/// Shapes and formulas as in kernel.cuh. A key that is hidden from a query, but not from all queries of its slice, has
/// the weight 0 there. If its value is NaN or infinite, 0 times that is NaN.
///
/// A block has a key tile, and its warps split the keys. They compute S^T = K Q^T and dP^T = V dO^T, not S and dP: then
/// P^T and dS^T are already where an operand A has to be for dV = P^T dO and dK = dS^T Q. No element of them is moved.
/// Only dQ = dS K, whose sums go over the keys of all warps, needs dS in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/convert.cuh"
#include "device/cp_async.cuh"
#include "device/ldmatrix.cuh"
#include "device/mma.cuh"
#include "device/ptx.cuh"
#include "mma_products.cuh"

namespace fa {

// --- dK and dV, and dQ by atomic additions -------------------------------------------------------------------

/// P^T from S^T, for the warp's keys and a slice of queries.
/// @param sLse  of the slice     @param first_key  of the warp
template <class Tile>
__device__ __forceinline__ void probabilities(Fragments<Tile, Tile::kSlice>& rS, const float* sLse,
                                              const Attention<typename Tile::T>& a, int first_query,
                                              int first_key) {
  const int lane = threadIdx.x % 32;
  const float factor = a.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < Tile::kSlice / 8; ++n) {
    const float2 lse = *reinterpret_cast<const float2*>(sLse + 8 * n + lane % 4 * 2);
#pragma unroll
    for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        rS[m][n][i] = ptx::exp2_approx(rS[m][n][i] * factor - (i % 2 ? lse.y : lse.x) * kLog2E);
      }
    }
  }
  // The first query sees the fewest keys.
  if (first_key + Tile::kWarpRows <= a.visible_keys(first_query)) return;
#pragma unroll
  for (int n = 0; n < Tile::kSlice / 8; ++n) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int seen = a.visible_keys(first_query + 8 * n + lane % 4 * 2 + odd) - first_key - lane / 4;
#pragma unroll
      for (int row = 0; row < 2 * Tile::kRowTiles; ++row) {
        if (8 * row >= seen)
          rS[row / 2][n][row % 2 * 2 + odd] = 0.0f;  // also where LSE is -inf, and P infinite
      }
    }
  }
}

/// Where element i of fragment (m, n) of this lane lies in the sums of a query tile: an instruction of a warp then
/// goes to 128 neighbouring bytes, not to 8 rows.
template <class Tile>
__device__ __forceinline__ int place_in_sums(int m, int n, int i) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  return (((warp * Tile::kDqRowTiles + m) * 4 + n) * 4 + i) * 32 + lane;
}
/// And where in the tile of dQ.
template <class Tile>
__device__ __forceinline__ Coord place_in_dq(int m, int n, int i) {
  const int warp = threadIdx.x / 32;
  const Coord in_fragment = element_of_c(threadIdx.x % 32, i);
  return {warp / Tile::kColWarps * Tile::kDqRowTiles * 16 + 16 * m + in_fragment.row,
          warp % Tile::kColWarps * 32 + 8 * n + in_fragment.col};
}

/// dQ += dS K for the key tile, without the scale: this warp's rows and 32 columns, into the sums of the query tile.
/// @param sdS  [Bc, Br] dS^T     @param rows  queries of the tile that exist
template <class Tile>
__device__ __forceinline__ void add_dq(float* sums, const typename Tile::T* sdS, const typename Tile::T* sK,
                                       int rows) {
  using T = typename Tile::T;
  using Rows = typename Tile::Rows;
  using DsRows = typename Tile::DsRows;
  const int lane = threadIdx.x % 32;
  const Coord part = place_in_dq<Tile>(0, 0, 0), corner = element_of_c(lane, 0);
  // dS^T is read as A transposed: the quarters of A to the right and then down are those of A^T down, then right.
  const Coord from_a = row_for_b(lane), from_b = row_for_a(lane);
  const int at_a = DsRows::advance(DsRows::offset(from_a.row, from_a.col), 0, part.row - corner.row);
  const int at_b = Rows::advance(Rows::offset(from_b.row, from_b.col), 0, part.col - corner.col);
  float rdQ[Tile::kDqRowTiles][4][4] = {};
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step) {
    std::uint32_t a[Tile::kDqRowTiles][4];
#pragma unroll
    for (int m = 0; m < Tile::kDqRowTiles; ++m) {
      ldmatrix_transposed(a[m], sdS + DsRows::advance(at_a, 16 * step, 16 * m));
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      std::uint32_t b[4];
      ldmatrix_transposed(b, sK + Rows::advance(at_b, 16 * step, 16 * n));
#pragma unroll
      for (int m = 0; m < Tile::kDqRowTiles; ++m) {
        mma<T>(rdQ[m][2 * n], a[m], {b[0], b[1]});
        mma<T>(rdQ[m][2 * n + 1], a[m], {b[2], b[3]});
      }
    }
  }
#pragma unroll
  for (int m = 0; m < Tile::kDqRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (place_in_dq<Tile>(m, n, i).row < rows)
          atomicAdd(sums + place_in_sums<Tile>(m, n, i), rdQ[m][n][i]);
      }
    }
  }
}

/// dK and dV of a key tile, which stays while the query tiles of all heads that share it come by.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: a warp for kWarpRows keys
///   shared  Tile::kSharedBytes: K and V; kStages tiles of Q, dO, LSE and D; dS^T
///   HBM     reads K and V once; Q, dO, LSE and D for each key tile, from the first query tile that sees it on;
///           writes dK and dV. With kFused, adds to dq_sum each time that it reads Q
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_key_gradients(Backward<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const int key_tiles = (a.seq_k + Bc - 1) / Bc, query_tiles = (a.seq_q + Br - 1) / Br;
  const int kv_head = blockIdx.x / key_tiles, first_key = blockIdx.x % key_tiles * Bc;
  const int lane = threadIdx.x % 32, warp_key = threadIdx.x / 32 * Tile::kWarpRows;
  const size_t first_row = size_t(kv_head) * a.seq_k + first_key;  // of K, V, dK and dV

  extern __shared__ float4 smem[];
  T* sK = reinterpret_cast<T*>(smem);
  T* sV = sK + Tile::kKeyTile;
  T* sQ = sV + Tile::kKeyTile;                                           // [kStages]
  T* sdO = sQ + Tile::kStages * Tile::kQueryTile;                        // [kStages]
  T* sdS = sdO + Tile::kStages * Tile::kQueryTile;                       // [Bc, Br], transposed
  float* sLse = reinterpret_cast<float*>(sdS + Tile::kFused * Bc * Br);  // [kStages, Br]
  float* sD = sLse + Tile::kStages * Br;                                 // [kStages, Br]

  // A visit: a query tile of one of the heads that share the key tile, from the first on that sees it.
  const int first_tile = max(0, a.first_query(first_key)) / Br, tiles = query_tiles - first_tile;
  const int group = a.heads / a.kv_heads, visits = group * tiles;
  const auto head_of = [&](int visit) { return kv_head * group + visit / tiles; };
  const auto tile_of = [&](int visit) { return first_tile + visit % tiles; };
  const auto send = [&](int visit, int stage) {
    const int first_query = tile_of(visit) * Br, rows = a.seq_q - first_query;
    const size_t first = size_t(head_of(visit)) * a.seq_q + first_query;
    send_rows<Tile, Br>(sQ + stage * Tile::kQueryTile, a.q + first * d, rows);
    send_rows<Tile, Br>(sdO + stage * Tile::kQueryTile, a.d_o + first * d, rows);
    if (threadIdx.x < Br) {
      const bool inside = int(threadIdx.x) < rows;
      const size_t row = first + (inside ? threadIdx.x : 0);
      cp_async_4_or_zero(sLse + stage * Br + threadIdx.x, a.lse + row, inside);
      cp_async_4_or_zero(sD + stage * Br + threadIdx.x, a.d + row, inside);
    }
  };
  send_rows<Tile, Bc>(sK, a.k + first_row * d, a.seq_k - first_key);
  send_rows<Tile, Bc>(sV, a.v + first_row * d, a.seq_k - first_key);
  send(0, 0);
  cp_async_commit();

  Fragments<Tile, d> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  for (int visit = 0; visit < visits; ++visit) {
    cp_async_wait<0>();
    __syncthreads();  // the query tile is there; and no warp uses the one before, nor dS
    if (Tile::kStages > 1 && visit + 1 < visits) {
      send(visit + 1, 1 - stage);
      cp_async_commit();
    }
    const int first_query = tile_of(visit) * Br;
#pragma unroll 1
    for (int query = 0; query < Br; query += kSlice) {
      const T *q = sQ + stage * Tile::kQueryTile + query * d,
              *d_o = sdO + stage * Tile::kQueryTile + query * d;
      Operand<Tile> operand;
      Fragments<Tile, kSlice> rP, rdS;
      mma_nt<Tile>(rP, sK + warp_key * d, q);
      probabilities<Tile>(rP, sLse + stage * Br + query, a, first_query + query, first_key + warp_key);
      to_operand<Tile>(operand, rP);
      mma_nn<Tile>(rdV, operand, d_o);

      mma_nt<Tile>(rdS, sV + warp_key * d, d_o);
#pragma unroll
      for (int n = 0; n < kSlice / 8; ++n) {
        const float2 row_dot =
            *reinterpret_cast<const float2*>(sD + stage * Br + query + 8 * n + lane % 4 * 2);
#pragma unroll
        for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            rdS[m][n][i] = rP[m][n][i] * (rdS[m][n][i] - (i % 2 ? row_dot.y : row_dot.x));
        }
      }
      to_operand<Tile>(operand, rdS);
      mma_nn<Tile>(rdK, operand, q);
      if constexpr (Tile::kFused) {
#pragma unroll
        for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
          for (int step = 0; step < kSlice / 16; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {  // the pair 2 * i of A
              const Coord at = element_of_a(lane, 2 * i);
              const int row = warp_key + 16 * m + at.row, col = query + 16 * step + at.col;
              *reinterpret_cast<std::uint32_t*>(sdS + Tile::DsRows::offset(row, col)) = operand[m][step][i];
            }
          }
        }
      }
    }
    if constexpr (Tile::kFused) {
      __syncthreads();  // dS of all keys is there
      const size_t tile = size_t(head_of(visit)) * query_tiles + tile_of(visit);
      add_dq<Tile>(a.dq_sum + tile * Tile::kQueryTile, sdS, sK, a.seq_q - first_query);
    }
    if constexpr (Tile::kStages == 1) {
      static_assert(Tile::kFused);  // since the barrier before add_dq() no warp uses the query tile
      if (visit + 1 < visits) send(visit + 1, 0);
      cp_async_commit();
    } else {
      stage = 1 - stage;
    }
  }

  __syncthreads();  // no warp uses K any more: its place and that of V take dK and dV
  const int rows = a.seq_k - first_key - warp_key;
  store_rows<Tile>(a.dk + (first_row + warp_key) * d, sK + warp_key * d, rdK, a.scale, rows);
  store_rows<Tile>(a.dv + (first_row + warp_key) * d, sV + warp_key * d, rdV, 1.0f, rows);
}

/// dQ = scale * the sums, in 16 bits.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads
///   HBM     reads the sums, writes dQ
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads) convert_dq(Backward<typename Tile::T> a) {
  const int tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  const int head = blockIdx.x / tiles, first_query = blockIdx.x % tiles * Tile::Br;
  const float* sums = a.dq_sum + size_t(blockIdx.x) * Tile::kQueryTile;
  typename Tile::T* dq = a.dq + (size_t(head) * a.seq_q + first_query) * Tile::kHeadDim;
  for (int m = 0; m < Tile::kDqRowTiles; ++m) {
    for (int n = 0; n < 4; ++n) {
      for (int i = 0; i < 4; i += 2) {
        const Coord at = place_in_dq<Tile>(m, n, i);
        if (first_query + at.row >= a.seq_q) continue;
        const float left = sums[place_in_sums<Tile>(m, n, i)], right = sums[place_in_sums<Tile>(m, n, i + 1)];
        *reinterpret_cast<std::uint32_t*>(dq + at.row * Tile::kHeadDim + at.col) =
            pack<typename Tile::T>(a.scale * left, a.scale * right);
      }
    }
  }
}

// --- dQ in a kernel of its own -------------------------------------------------------------------------------

/// dQ of a query tile, which stays while key tiles come by. P and dS once more, now with queries as rows: so dS is an
/// operand A for dS K, and no warp needs another one's.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads: a warp for kWarpRows queries
///   shared  Tile::kSharedBytes: Q and dO, kStages tiles of K and V
///   HBM     reads Q, dO, LSE and D once, and the keys and values that the tile's last query sees; writes dQ
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_query_gradients(Backward<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kSlice = Tile::kSlice;
  constexpr int kLaneRows = 2 * Tile::kRowTiles;  // rows of which a lane has elements: lane / 4 + 8 * row
  const int query_tiles = (a.seq_q + Br - 1) / Br;
  const int head = blockIdx.x / query_tiles;
  const int first_query =
      (query_tiles - 1 - int(blockIdx.x % query_tiles)) * Br;  // under a mask, the longest first
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * Tile::kWarpRows;
  const int warp_query = first_query + warp_row;
  const size_t first = size_t(head) * a.seq_q + first_query;   // row of Q, dO and dQ
  const size_t first_row = size_t(a.kv_head(head)) * a.seq_k;  // of K and V
  const int keys = a.visible_keys(min(first_query + Br, a.seq_q) - 1);
  const float factor = a.scale * kLog2E;

  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sdO = sQ + Tile::kQueryTile;
  T* sK = sdO + Tile::kQueryTile;               // [kStages]
  T* sV = sK + Tile::kStages * Tile::kKeyTile;  // [kStages]
  const auto send = [&](int first_key, int stage) {
    const size_t at = (first_row + first_key) * d;
    send_rows<Tile, Bc>(sK + stage * Tile::kKeyTile, a.k + at, keys - first_key);
    send_rows<Tile, Bc>(sV + stage * Tile::kKeyTile, a.v + at, keys - first_key);
  };
  send_rows<Tile, Br>(sQ, a.q + first * d, a.seq_q - first_query);
  send_rows<Tile, Br>(sdO, a.d_o + first * d, a.seq_q - first_query);
  if (keys > 0) send(0, 0);
  cp_async_commit();

  float lse[kLaneRows], row_dot[kLaneRows];
#pragma unroll
  for (int row = 0; row < kLaneRows; ++row) {
    const int query = warp_query + 8 * row + lane / 4;
    const bool inside = query < a.seq_q;
    lse[row] = inside ? a.lse[size_t(head) * a.seq_q + query] * kLog2E : 0.0f;
    row_dot[row] = inside ? a.d[size_t(head) * a.seq_q + query] : 0.0f;
  }

  Fragments<Tile, d> rdQ = {};
  int stage = 0;
#pragma unroll 1
  for (int first_key = 0; first_key < keys; first_key += Bc) {
    cp_async_wait<0>();
    __syncthreads();  // the key tile is there; and no warp uses the one before
    if (first_key + Bc < keys) {
      send(first_key + Bc, 1 - stage);
      cp_async_commit();
    }
#pragma unroll 1
    for (int key = 0; key < Bc; key += kSlice) {
      const T *k = sK + stage * Tile::kKeyTile + key * d, *v = sV + stage * Tile::kKeyTile + key * d;
      Fragments<Tile, kSlice> rP, rdS;
      mma_nt<Tile>(rP, sQ + warp_row * d, k);
      mma_nt<Tile>(rdS, sdO + warp_row * d, v);
      const bool masked =
          first_key + key + kSlice > a.visible_keys(warp_query);  // for the warp's first query
#pragma unroll
      for (int row = 0; row < kLaneRows; ++row) {
        const int seen = a.visible_keys(warp_query + 8 * row + lane / 4) - first_key - key - lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kSlice / 8; ++n) {
#pragma unroll
          for (int odd = 0; odd < 2; ++odd) {
            const int i = row % 2 * 2 + odd;
            float p = ptx::exp2_approx(rP[row / 2][n][i] * factor - lse[row]);
            if (masked && 8 * n + odd >= seen) p = 0.0f;
            rdS[row / 2][n][i] = p * (rdS[row / 2][n][i] - row_dot[row]);
          }
        }
      }
      Operand<Tile> operand;
      to_operand<Tile>(operand, rdS);
      mma_nn<Tile>(rdQ, operand, k);
    }
    stage = 1 - stage;
  }
  cp_async_wait<0>();
  __syncthreads();  // also without any key: the copies of Q have landed
  store_rows<Tile>(a.dq + (first + warp_row) * d, sQ + warp_row * d, rdQ, a.scale, a.seq_q - warp_query);
}

}  // namespace fa
