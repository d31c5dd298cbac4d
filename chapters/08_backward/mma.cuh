/// @file
/// The gradients of attention on tensor cores: 16 bits in, products summed in fp32.
///
/// Shapes and formulas as in kernel.cuh. A key that is hidden from a query, but not from all queries of its slice, has
/// the weight 0 there. If its value is NaN or infinite, 0 times that is NaN.
///
/// A block has a key tile, and its warps split the keys. They compute S^T = K Q^T and dP^T = V dO^T, not S and dP: then
/// P^T and dS^T are already where an operand A has to be for dV = P^T dO and dK = dS^T Q. No element of them is moved.
/// Only dQ = dS K, whose sums go over the keys of all warps, needs dS in shared memory; and warps that share keys.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/convert.cuh"
#include "device/cp_async.cuh"
#include "device/fragments.cuh"
#include "device/ptx.cuh"
#include "device/tensor_core.cuh"
#include "device/tile.cuh"
#include "mma_products.cuh"

namespace fa::ch08 {

// --- dK and dV, and dQ by atomic additions -------------------------------------------------------------------

/// P^T from S^T, for the warp's keys and a slice of queries.
/// @param sLse  of the slice     @param first_key  of the warp
template <class Tile>
__device__ __forceinline__ void probabilities(Fragments<Tile, Tile::kSlice>& rS, const float* sLse,
                                              const Attention<typename Tile::T>& a, int first_query,
                                              int first_key) {
  const int lane = threadIdx.x % 32;
  const float factor = a.scale * kLog2e;
#pragma unroll
  for (int n = 0; n < Tile::kSlice / 8; ++n) {
    const float2 lse = *reinterpret_cast<const float2*>(sLse + 8 * n + lane % 4 * 2);
#pragma unroll
    for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        rS[m][n][i] = ptx::exp2_approx(rS[m][n][i] * factor - (i % 2 ? lse.y : lse.x) * kLog2e);
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

/// dS^T = P^T * (dP^T - D), for the same keys and queries, in the place of dP^T.
/// @param sD  of the slice
template <class Tile>
__device__ __forceinline__ void minus_d(Fragments<Tile, Tile::kSlice>& rdS,
                                        const Fragments<Tile, Tile::kSlice>& rP, const float* sD) {
#pragma unroll
  for (int n = 0; n < Tile::kSlice / 8; ++n) {
    const float2 row_dot = *reinterpret_cast<const float2*>(sD + 8 * n + threadIdx.x % 4 * 2);
#pragma unroll
    for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        rdS[m][n][i] = rP[m][n][i] * (rdS[m][n][i] - (i % 2 ? row_dot.y : row_dot.x));
      }
    }
  }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr bool kHasQuads = true;  ///< one instruction adds four numbers: red.global.add.v4.f32
__device__ __forceinline__ void add_quad(float* to, const float (&x)[4]) {
  atomicAdd(reinterpret_cast<float4*>(to), float4{x[0], x[1], x[2], x[3]});
}
#else
inline constexpr bool kHasQuads = false;
__device__ __forceinline__ void add_quad(float*, const float (&)[4]) {}
#endif

/// Where element i of fragment (m, n) of this lane lies in the sums of a query tile: an instruction of a warp then
/// goes to 128 neighbouring bytes, or to 512, not to 8 rows.
template <class Tile>
__device__ __forceinline__ int place_in_sums(int m, int n, int i) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int fragment = (warp * Tile::kDqRowTiles + m) * 4 + n;
  return 128 * fragment + (kHasQuads && Tile::kQuads ? 4 * lane + i : 32 * i + lane);
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
/// Queries that do not exist have dS = 0.
/// @param sdS  [Bc, Br] dS^T
template <class Tile>
__device__ __forceinline__ void add_dq(float* sums, const typename Tile::T* sdS, const typename Tile::T* sK) {
  using T = typename Tile::T;
  using Rows = typename Tile::Rows;
  using PRows = typename Tile::PRows;
  const int lane = threadIdx.x % 32;
  const Coord part = place_in_dq<Tile>(0, 0, 0), corner = element_of_c(lane, 0);
  // dS^T is read as A transposed: the quarters of A to the right and then down are those of A^T down, then right.
  const Coord from_a = row_for_b(lane), from_b = row_for_a(lane);
  const int at_a = PRows::advance(PRows::offset(from_a.row, from_a.col), 0, part.row - corner.row);
  const int at_b = Rows::advance(Rows::offset(from_b.row, from_b.col), 0, part.col - corner.col);
  float rdQ[Tile::kDqRowTiles][4][4] = {};
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step) {
    std::uint32_t a[Tile::kDqRowTiles][4];
#pragma unroll
    for (int m = 0; m < Tile::kDqRowTiles; ++m) {
      ldmatrix_transposed(a[m], sdS + PRows::advance(at_a, 16 * step, 16 * m));
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
      if constexpr (kHasQuads && Tile::kQuads) {
        add_quad(sums + place_in_sums<Tile>(m, n, 0), rdQ[m][n]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) atomicAdd(sums + place_in_sums<Tile>(m, n, i), rdQ[m][n][i]);
      }
    }
  }
}

/// dK and dV of a key tile, which stays while the query tiles of all heads that share it come by.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads: kSharing warps for kWarpRows keys
///   shared  Tile::kSharedBytes: K and V; kStages tiles of Q, dO, LSE and D; P^T and dS^T
///   HBM     reads K and V once; Q, dO, LSE and D for each key tile, from the first query tile that sees it on;
///           writes dK and dV. With kFused, adds a whole tile to dq_sum each time that it reads one of Q
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_key_gradients(Backward<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc, kSlice = Tile::kSlice;
  const int key_tiles = (a.seq_k + Bc - 1) / Bc, query_tiles = (a.seq_q + Br - 1) / Br;
  const int kv_head = blockIdx.x / key_tiles, first_key = blockIdx.x % key_tiles * Bc;
  // From one lane for all: now the compiler knows that it is the same in all, and keeps addresses in uniform registers.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  const int warp_key = warp / Tile::kSharing * Tile::kWarpRows;
  const int part = warp % Tile::kSharing;  // slices of queries, and columns of dK and dV
  const size_t first_row = size_t(kv_head) * a.seq_k + first_key;  // of K, V, dK and dV

  extern __shared__ float4 smem[];
  T* sK = reinterpret_cast<T*>(smem);
  T* sV = sK + Tile::kKeyTile;
  T* sQ = sV + Tile::kKeyTile;                                              // [kStages]
  T* sdO = sQ + Tile::kStages * Tile::kQueryTile;                           // [kStages]
  T* sP = sdO + Tile::kStages * Tile::kQueryTile;                           // [Bc, Br], transposed
  T* sdS = sP + Tile::kStoresP * Bc * Br;                                   // [Bc, Br], transposed
  float* sLse = reinterpret_cast<float*>(sdS + Tile::kStoresDs * Bc * Br);  // [kStages, Br]
  float* sD = sLse + Tile::kStages * Br;                                    // [kStages, Br]

  // A visit: a query tile of one of the heads that share the key tile, from the first on that sees it.
  const int first_tile = max(0, a.first_query(first_key)) / Br;
  const int group = a.heads / a.kv_heads, end_head = (kv_head + 1) * group;
  int head = kv_head * group, tile = first_tile;
  const auto send = [&](int stage) {
    const int first_query = tile * Br, rows = a.seq_q - first_query;
    const size_t first = size_t(head) * a.seq_q + first_query;
    send_rows<Tile, Br>(sQ + stage * Tile::kQueryTile, a.q + first * d, rows);
    send_rows<Tile, Br>(sdO + stage * Tile::kQueryTile, a.d_o + first * d, rows);
    if (threadIdx.x < Br) {
      const bool inside = int(threadIdx.x) < rows;
      const size_t row = first + (inside ? threadIdx.x : 0);
      cp_async_4_or_zero(sLse + stage * Br + threadIdx.x, a.lse + row, inside);
      cp_async_4_or_zero(sD + stage * Br + threadIdx.x, a.d + row, inside);
    }
  };
  const auto next = [&] {
    if (++tile == query_tiles) {
      tile = first_tile;
      ++head;
    }
  };
  send_rows<Tile, Bc>(sK, a.k + first_row * d, a.seq_k - first_key);
  send_rows<Tile, Bc>(sV, a.v + first_row * d, a.seq_k - first_key);
  if (Tile::kStages > 1) send(0);
  cp_async_commit();

  Fragments<Tile, Tile::kCols> rdK = {}, rdV = {};
  int stage = 0;
#pragma unroll 1
  while (head < end_head) {
    if constexpr (Tile::kStages == 1) {
      __syncthreads();  // no warp uses the query tile before any more
      send(0);
      cp_async_commit();
    }
    cp_async_wait<0>();
    __syncthreads();  // the query tile is there; and no warp uses the one before, nor P and dS
    const int first_query = tile * Br;
    float* sums = a.dq_sum + (size_t(head) * query_tiles + tile) * Tile::kQueryTile;
    next();
    if (Tile::kStages > 1 && head < end_head) {
      send(1 - stage);
      cp_async_commit();
    }
    const T *q = sQ + stage * Tile::kQueryTile, *d_o = sdO + stage * Tile::kQueryTile;
#pragma unroll 1
    for (int n = 0; n < Br / kSlice / Tile::kSharing; ++n) {
      const int query = (n * Tile::kSharing + part) * kSlice;
      Fragments<Tile, kSlice> rP, rdS;
      Operand<Tile> p, ds;
      mma_nt<Tile>(rP, sK + warp_key * d, q + query * d);
      probabilities<Tile>(rP, sLse + stage * Br + query, a, first_query + query, first_key + warp_key);
      to_operand<Tile>(p, rP);
      mma_nt<Tile>(rdS, sV + warp_key * d, d_o + query * d);
      if constexpr (Tile::kStoresP) store_operand<Tile>(sP + warp_key * Br, query, p);
      minus_d<Tile>(rdS, rP, sD + stage * Br + query);
      to_operand<Tile>(ds, rdS);
      if constexpr (Tile::kStoresDs) store_operand<Tile>(sdS + warp_key * Br, query, ds);
      mma_nn<Tile>(rdV, p, d_o + query * d + part * Tile::kCols);
      mma_nn<Tile>(rdK, ds, q + query * d + part * Tile::kCols);
    }
    if constexpr (Tile::kStoresDs) __syncthreads();  // P and dS of all warps are there
    if constexpr (Tile::kFused) add_dq<Tile>(sums, sdS, sK);
    if constexpr (Tile::kSharing > 1) {
      static_assert(Br == Tile::kSharing * kSlice && Tile::kSharing == 2);
      const int query = (1 - part) * kSlice;  // of the warp with which this one shares its keys
      Operand<Tile> other;
      load_operand<Tile>(other, sP + warp_key * Br, query);
      mma_nn<Tile>(rdV, other, d_o + query * d + part * Tile::kCols);
      load_operand<Tile>(other, sdS + warp_key * Br, query);
      mma_nn<Tile>(rdK, other, q + query * d + part * Tile::kCols);
    }
    if (Tile::kStages > 1) stage = 1 - stage;
  }

  __syncthreads();  // no warp uses K any more: its place and that of V take dK and dV
  const int rows = a.seq_k - first_key - warp_key, part_of_tile = warp_key * d + part * Tile::kCols;
  const size_t part_of_all = first_row * d + part_of_tile;
  store_rows<Tile>(a.dk + part_of_all, sK + part_of_tile, rdK, a.scale, rows);
  store_rows<Tile>(a.dv + part_of_all, sV + part_of_tile, rdV, 1.0f, rows);
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
      const float* from = sums + place_in_sums<Tile>(m, n, 0);
      alignas(16) float x[4];
      for (int i = 0; i < 4; i += 2) {
        const Coord at = place_in_dq<Tile>(m, n, i);  // where i is 2, 8 rows further down
        if (first_query + at.row >= a.seq_q) break;
        if constexpr (kHasQuads && Tile::kQuads) {
          if (i == 0) *reinterpret_cast<float4*>(x) = load_float4(from);
        } else {
          x[i] = from[32 * i], x[i + 1] = from[32 * (i + 1)];
        }
        *reinterpret_cast<std::uint32_t*>(dq + at.row * Tile::kHeadDim + at.col) =
            pack<typename Tile::T>(a.scale * x[i], a.scale * x[i + 1]);
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
  const float factor = a.scale * kLog2e;

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
    lse[row] = inside ? a.lse[size_t(head) * a.seq_q + query] * kLog2e : 0.0f;
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

}  // namespace fa::ch08
