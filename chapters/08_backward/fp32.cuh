/// @file
/// The gradients of attention in fp32, with P recomputed and never stored in HBM; and delta, for both element
/// types.
///
/// Q, O, dO and dQ are [batch, heads, seq_q, head_dim], K, V, dK and dV [batch, kv_heads, seq_k, head_dim],
/// LSE and delta [batch, heads, seq_q]. Any lengths >= 1 and any kv_heads that divides heads. A row that sees
/// no key has gradient 0.
///
/// With S = scale * Q K^T, for each element, and delta = rowsum(dO * O), the D of Dao et al. 2022, appendix
/// B.2:
///   P = exp(S - LSE)    dP = dO V^T    dS = P * (dP - delta)
///   dV = P^T dO         dK = scale * dS^T Q         dQ = scale * dS K
///
/// query_gradients.cuh and tensor_cores.cuh do the same on tensor cores. chapter.cu has the formulas of the
/// traffic.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

#include "backward.cuh"
#include "device/declare_rows.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"
#include "fp32_products.cuh"

namespace fa::ch08 {

// --- before the gradients ----------------------------------------------------------------------------------

/// Adjacent elements, which one instruction loads if they are 16 bytes or fewer.
template <class T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Pack {
  T x[kCount];
};

/// How compute_delta() divides its rows: as few lanes for each as can load it 16 bytes at a time, 32 at most.
template <class T, int kHeadDim>
struct DeltaRows {
  static constexpr int kOf16Bytes = 16 / int(sizeof(T)), kOfWarp = kHeadDim / 32;
  static constexpr int kCount = kOf16Bytes > kOfWarp ? kOf16Bytes : kOfWarp;  ///< elements of a lane
  static constexpr int kLanes = kHeadDim / kCount;                            ///< of a row
  static constexpr int kThreads = 256, kRowsOfBlock = kThreads / kLanes;
};

/// delta = rowsum(dO * O): the per-row term that the softmax gradient subtracts from dP (`delta` in
/// FlashAttention).
///
///   grid    ceil(batch * heads * seq_q / DeltaRows::kRowsOfBlock)
///   block   DeltaRows::kThreads: kLanes lanes per row
///   HBM     reads O and dO, writes delta
template <class T, int kHeadDim>
__global__ void __launch_bounds__(DeltaRows<T, kHeadDim>::kThreads) compute_delta(Backward<T> a) {
  using Rows = DeltaRows<T, kHeadDim>;
  constexpr int kCount = Rows::kCount, kLanes = Rows::kLanes;
  const unsigned row = blockIdx.x * Rows::kRowsOfBlock + threadIdx.x / kLanes;
  const bool exists = row < unsigned(a.batch * a.heads) * unsigned(a.seq_q);
  const int lane = threadIdx.x % kLanes, col = lane * kCount;
  Pack<T, kCount> o = {}, d_o = {};
  if (exists && col < a.head_dim) {
    const int head = int(row / a.seq_q), query = int(row % a.seq_q);
    o = *reinterpret_cast<const Pack<T, kCount>*>(a.o_rows(head)[query] + col);
    const auto rows_of_d_o = a.rows_of_query_head(a.d_o, a.d_o_strides, head);
    d_o = *reinterpret_cast<const Pack<T, kCount>*>(rows_of_d_o[query] + col);
  }
  // EXERCISE 1: Compute `sum`, the dot product of the row's O and dO. This lane has kCount elements of each.
  float sum = 0.0f;
  for (int i = 0; i < kCount; ++i) sum += float(o.x[i]) * float(d_o.x[i]);
  sum = warp_reduce<kLanes>(sum, Sum());
  // END 1
  if (exists && lane == 0) a.delta[row] = sum;
}

/// Writes zeros, 16 bytes per thread. @param count  number of float4s
__global__ void __launch_bounds__(256) fill_with_zeros(float* x, size_t count) {
  const size_t n = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n < count) store_float4(x + 4 * n, {0.0f, 0.0f, 0.0f, 0.0f});
}

/// The same for dQ, whatever its strides.
__global__ void __launch_bounds__(256) fill_dq_with_zeros(Backward<float> a) {
  const int fours = a.head_dim / 4;  // of a row
  const size_t n = size_t(blockIdx.x) * blockDim.x + threadIdx.x, row = n / fours;
  if (row >= size_t(a.batch) * a.heads * a.seq_q) return;
  const int head = int(row / a.seq_q), query = int(row % a.seq_q), col = int(n % fours) * 4;
  store_float4(a.rows_of_query_head(a.dq, a.dq_strides, head)[query] + col, {0.0f, 0.0f, 0.0f, 0.0f});
}

// --- tiles ----------------------------------------------------------------------------------------

/// The tiles of a block in shared memory.
template <class Tile>
struct SharedTiles {
  float *q, *d_o;      ///< [Br, kStride]; Q is scaled
  float *k, *v;        ///< [Bc, kStride]
  float* p;            ///< [Br, kPStride], P and then dS
  float *lse, *delta;  ///< [Br]

  __device__ __forceinline__ explicit SharedTiles(float4* smem) {
    q = reinterpret_cast<float*>(smem);
    d_o = q + Tile::Br * Tile::kStride;
    k = d_o + Tile::Br * Tile::kStride;
    v = k + Tile::Bc * Tile::kStride;
    p = v + Tile::Bc * Tile::kStride;
    lse = p + Tile::Br * Tile::kPStride;
    delta = lse + Tile::Br;
    declare_rows<Tile::kStride>(q, d_o, k, v);
    declare_rows<Tile::kPStride>(p);
  }
};

/// Loads Br = Bc rows of a matrix from row `first` on, times `factor`. Rows from `end` on and columns from
/// head_dim on do not exist: they become zeros.
template <class Tile>
__device__ __forceinline__ void load_rows(float* s, HeadRows<const float> g, int first, int end,
                                          const Backward<float>& a, float factor = 1.0f) {
  for (int n = threadIdx.x; n < Tile::Br * Tile::kHeadDim / 4; n += Tile::kThreads) {
    const int row = 4 * n / Tile::kHeadDim, col = 4 * n % Tile::kHeadDim;
    float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
    if (first + row < end && col < cols_of<Tile>(a)) x = load_float4(g[first + row] + col);
    x = {factor * x.x, factor * x.y, factor * x.z, factor * x.w};
    *reinterpret_cast<float4*>(s + row * Tile::kStride + col) = x;
  }
}

/// Loads Q, dO, LSE and delta of a query tile. @param head  counted over all batches
template <class Tile>
__device__ __forceinline__ void load_queries(const SharedTiles<Tile>& s, const Backward<float>& a, int head,
                                             int first_query) {
  const auto gQ = known_rows<Tile>(a.q_rows(head));
  const auto gdO = known_rows<Tile>(a.rows_of_query_head(a.d_o, a.d_o_strides, head));
  load_rows<Tile>(s.q, gQ, first_query, a.seq_q, a, a.scale);
  load_rows<Tile>(s.d_o, gdO, first_query, a.seq_q, a);
  const size_t first = size_t(head) * a.seq_q + first_query;
  if (threadIdx.x < Tile::Br) {
    const bool inside = first_query + int(threadIdx.x) < a.seq_q;
    s.lse[threadIdx.x] = inside ? resolved_lse(a.lse[first + threadIdx.x]) : 0.0f;
    s.delta[threadIdx.x] = inside ? a.delta[first + threadIdx.x] : 0.0f;
  }
}

/// P and dS of a query tile and a key tile: this thread's [kRows, kCols].
template <class Tile>
__device__ __forceinline__ void p_and_ds(float (&rP)[Tile::kRows][Tile::kCols],
                                         float (&rdS)[Tile::kRows][Tile::kCols], const SharedTiles<Tile>& s,
                                         const Backward<float>& a, int first_query, int first_key) {
  const ThreadPart<Tile> my;
  multiply_nt<Tile>(rP, s.q, s.k);
  multiply_nt<Tile>(rdS, s.d_o, s.v);
  for (int r = 0; r < Tile::kRows; ++r) {
    const int row = my.strided_row(r), query = first_query + row;
    const int visible = query < a.seq_q ? a.visible_keys(query) - first_key : 0;
    const float lse = s.lse[row], delta = s.delta[row];
    for (int c = 0; c < Tile::kCols; ++c) {
      // EXERCISE 2: rP[r][c] is a scaled score. Turn it into P, or into 0 if the query does not see the key.
      rP[r][c] = my.strided_col(c) < visible ? __expf(rP[r][c] - lse) : 0.0f;
      // END 2
      // EXERCISE 3: rdS[r][c] is dP. Turn it into dS.
      rdS[r][c] = rP[r][c] * (rdS[r][c] - delta);
      // END 3
    }
  }
}

template <class Tile>
__device__ __forceinline__ void store_p(float* sP, const float (&rP)[Tile::kRows][Tile::kCols]) {
  const ThreadPart<Tile> my;
  for (int r = 0; r < Tile::kRows; ++r) {
    for (int c = 0; c < Tile::kCols; ++c)
      sP[my.strided_row(r) * Tile::kPStride + my.strided_col(c)] = rP[r][c];
  }
}

// --- dQ: one block per query tile --------------------------------------------------------------------

/// dQ of a query tile, which stays on the chip while the block loops over the keys that the tile sees.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads
///   shared  Tile::kSharedBytes: Q, dO, K and V; P and then dS; LSE and delta
///   HBM     reads Q, dO, LSE and delta once, and the keys and values that the tile's last query sees; writes
///           dQ
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) query_gradients(Backward<float> a) {
  constexpr int Br = Tile::Br, Bc = Tile::Bc;
  const int tiles = (a.seq_q + Br - 1) / Br;
  const int head = blockIdx.x / tiles;
  const int first_query = (tiles - 1 - int(blockIdx.x % tiles)) * Br;  // under a mask, the longest first
  const int keys = a.visible_keys(min(first_query + Br, a.seq_q) - 1);
  const auto gK = known_rows<Tile>(a.k_rows(head)), gV = known_rows<Tile>(a.v_rows(head));
  const ThreadPart<Tile> my;
  extern __shared__ float4 smem[];
  const SharedTiles<Tile> s(smem);

  load_queries(s, a, head, first_query);
  float rdQ[Tile::kRows][Tile::kDims] = {};
  for (int first_key = 0; first_key < keys; first_key += Bc) {
    load_rows<Tile>(s.k, gK, first_key, keys, a);
    load_rows<Tile>(s.v, gV, first_key, keys, a);
    __syncthreads();  // the key tile and the query tile are loaded
    float rP[Tile::kRows][Tile::kCols], rdS[Tile::kRows][Tile::kCols];
    p_and_ds(rP, rdS, s, a, first_query, first_key);
    store_p<Tile>(s.p, rdS);
    __syncthreads();  // dS is stored
    multiply_nn<Tile>(rdQ, s.p, s.k);
    __syncthreads();  // no warp reads the key tile or dS any more
  }

  const auto gdQ = known_rows<Tile>(a.rows_of_query_head(a.dq, a.dq_strides, head));
  for (int r = 0; r < Tile::kRows; ++r) {
    const int query = first_query + my.strided_row(r);
    if (query >= a.seq_q) continue;
    for (int c = 0; c < Tile::kDims; c += 4) {
      if (my.adjacent_col(c) >= cols_of<Tile>(a)) continue;
      const float* x = rdQ[r] + c;
      store_float4(gdQ[query] + my.adjacent_col(c),
                   {a.scale * x[0], a.scale * x[1], a.scale * x[2], a.scale * x[3]});
    }
  }
}

// --- dK and dV: one block per key tile ---------------------------------------------------------------

/// The query tiles that see a key tile: of heads [head, end_head), in each head from first_query on.
struct QueryRange {
  int head, end_head, first_query;
};
template <class Tile>
__device__ __forceinline__ QueryRange queries_that_see(const Backward<float>& a, int kv_head, int first_key) {
  constexpr int Br = Tile::Br;
  // EXERCISE 4: Compute how many query heads share the block's keys, and where the first query tile that sees one begins.
  const int group = a.heads / a.kv_heads;
  const int begin = max(0, a.first_query(first_key)) / Br * Br;
  // END 4
  return {kv_head * group, (kv_head + 1) * group, begin};
}

/// dV += P^T dO and dK += scale * dS^T Q, for the query tile in shared memory. s.p holds P first, dS later.
template <class Tile>
__device__ __forceinline__ void add_dv_and_dk(float (&rdV)[Tile::kRows][Tile::kDims],
                                              float (&rdK)[Tile::kRows][Tile::kDims],
                                              const SharedTiles<Tile>& s,
                                              const float (&rP)[Tile::kRows][Tile::kCols],
                                              const float (&rdS)[Tile::kRows][Tile::kCols]) {
  // EXERCISE 5: Add P^T dO to rdV, and dS^T Q to rdK. s.p has room for only one of P and dS at a time.
  store_p<Tile>(s.p, rP);
  __syncthreads();  // P is stored
  multiply_tn<Tile>(rdV, s.p, s.d_o);
  __syncthreads();  // no warp reads P any more
  store_p<Tile>(s.p, rdS);
  __syncthreads();  // dS is stored
  // Q is already scaled, so dK is too.
  multiply_tn<Tile>(rdK, s.p, s.q);
  // END 5
}

/// Stores what exists of dK and dV. @param head  one of those that share the keys
template <class Tile>
__device__ __forceinline__ void store_dk_and_dv(const ThreadPart<Tile>& my, const Backward<float>& a,
                                                int head, int first_key,
                                                const float (&rdK)[Tile::kRows][Tile::kDims],
                                                const float (&rdV)[Tile::kRows][Tile::kDims]) {
  const auto gdK = known_rows<Tile>(a.rows_of_kv_head(a.dk, a.dk_strides, head));
  const auto gdV = known_rows<Tile>(a.rows_of_kv_head(a.dv, a.dv_strides, head));
  for (int r = 0; r < Tile::kRows; ++r) {
    const int key = first_key + my.adjacent_row(0) + r;
    if (key >= a.seq_k) continue;
    for (int c = 0; c < Tile::kDims; c += 4) {
      const int col = my.adjacent_col(c);
      if (col >= cols_of<Tile>(a)) continue;
      const float *dk = rdK[r] + c, *dv = rdV[r] + c;
      store_float4(gdK[key] + col, {dk[0], dk[1], dk[2], dk[3]});
      store_float4(gdV[key] + col, {dv[0], dv[1], dv[2], dv[3]});
    }
  }
}

/// dK and dV of a key tile, which stays on the chip while the block loops over the query tiles of all heads
/// that share it.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads
///   shared  Tile::kSharedBytes: Q, dO, K and V; P and then dS; LSE and delta
///   HBM     reads K and V once; Q, dO, LSE and delta for each key tile, from the first query tile that sees
///           it on; writes dK and dV
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) key_gradients(Backward<float> a) {
  constexpr int Br = Tile::Br, Bc = Tile::Bc;
  const int tiles = (a.seq_k + Bc - 1) / Bc;
  const int kv_head = blockIdx.x / tiles, first_key = blockIdx.x % tiles * Bc;
  const ThreadPart<Tile> my;
  extern __shared__ float4 smem[];
  const SharedTiles<Tile> s(smem);

  const QueryRange range = queries_that_see<Tile>(a, kv_head, first_key);
  load_rows<Tile>(s.k, known_rows<Tile>(a.k_rows(range.head)), first_key, a.seq_k, a);
  load_rows<Tile>(s.v, known_rows<Tile>(a.v_rows(range.head)), first_key, a.seq_k, a);
  float rdK[Tile::kRows][Tile::kDims] = {}, rdV[Tile::kRows][Tile::kDims] = {};
  for (int head = range.head; head < range.end_head; ++head) {
    for (int first_query = range.first_query; first_query < a.seq_q; first_query += Br) {
      __syncthreads();  // no warp reads the previous query tile or dS any more
      load_queries(s, a, head, first_query);
      __syncthreads();  // the query tile and the key tile are loaded
      float rP[Tile::kRows][Tile::kCols], rdS[Tile::kRows][Tile::kCols];
      p_and_ds(rP, rdS, s, a, first_query, first_key);
      add_dv_and_dk(rdV, rdK, s, rP, rdS);
    }
  }
  store_dk_and_dv(my, a, range.head, first_key, rdK, rdV);
}

// --- dQ in the same kernel, by atomic additions ------------------------------------------------------

/// dQ += scale * dS K, for the queries and columns that exist. dS is in s.p.
template <class Tile>
__device__ __forceinline__ void add_dq(const ThreadPart<Tile>& my, const Backward<float>& a,
                                       const SharedTiles<Tile>& s, int head, int first_query) {
  const auto gdQ = known_rows<Tile>(a.rows_of_query_head(a.dq, a.dq_strides, head));
  // EXERCISE 6: Add scale * dS K to gdQ, for the queries and columns that exist. Other blocks add to the same rows.
  float rdQ[Tile::kRows][Tile::kDims] = {};
  multiply_nn<Tile>(rdQ, s.p, s.k);
  for (int r = 0; r < Tile::kRows; ++r) {
    const int query = first_query + my.strided_row(r);
    if (query >= a.seq_q) continue;
    for (int c = 0; c < Tile::kDims; ++c) {
      const int col = my.adjacent_col(c) + c % 4;
      if (col < cols_of<Tile>(a)) atomicAdd(gdQ[query] + col, a.scale * rdQ[r][c]);
    }
  }
  // END 6
}

/// dK and dV as in key_gradients(); and dQ += scale * dS K, since dS is already there. Several blocks add to
/// the same rows of dQ, in an order that differs from run to run.
///
///   grid, block, shared   as key_gradients()
///   HBM     as key_gradients(), and adds to dQ each time it reads Q
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) fused_gradients(Backward<float> a) {
  constexpr int Br = Tile::Br, Bc = Tile::Bc;
  const int tiles = (a.seq_k + Bc - 1) / Bc;
  const int kv_head = blockIdx.x / tiles, first_key = blockIdx.x % tiles * Bc;
  const ThreadPart<Tile> my;
  extern __shared__ float4 smem[];
  const SharedTiles<Tile> s(smem);

  const QueryRange range = queries_that_see<Tile>(a, kv_head, first_key);
  load_rows<Tile>(s.k, known_rows<Tile>(a.k_rows(range.head)), first_key, a.seq_k, a);
  load_rows<Tile>(s.v, known_rows<Tile>(a.v_rows(range.head)), first_key, a.seq_k, a);
  float rdK[Tile::kRows][Tile::kDims] = {}, rdV[Tile::kRows][Tile::kDims] = {};
  for (int head = range.head; head < range.end_head; ++head) {
    for (int first_query = range.first_query; first_query < a.seq_q; first_query += Br) {
      __syncthreads();  // no warp reads the previous query tile or dS any more
      load_queries(s, a, head, first_query);
      __syncthreads();  // the query tile and the key tile are loaded
      float rP[Tile::kRows][Tile::kCols], rdS[Tile::kRows][Tile::kCols];
      p_and_ds(rP, rdS, s, a, first_query, first_key);
      add_dv_and_dk(rdV, rdK, s, rP, rdS);
      add_dq(my, a, s, head, first_query);
    }
  }
  store_dk_and_dv(my, a, range.head, first_key, rdK, rdV);
}

}  // namespace fa::ch08
