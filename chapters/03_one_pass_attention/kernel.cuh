/// @file
/// Attention without an N x N matrix: each warp computes one row of O and stores nothing but that row and its
/// LSE.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], LSE [batch,
/// heads, seq_q], all fp32. Every kernel accepts any lengths >= 1 and any kv_heads that divides heads. A row
/// that sees no key gets O = 0 and LSE = -inf.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstddef>

#include "device/attention.cuh"
#include "device/math.cuh"
#include "device/max_sum.cuh"
#include "device/reduce.cuh"

namespace fa::ch03 {

constexpr int kWarps = 4;                   ///< warps per block; each computes a row of its own
constexpr int kBlockThreads = 32 * kWarps;  ///< for both kernels

/// One row of Q and O, and the keys that it sees.
struct Row {
  const float* q;  ///< [head_dim]
  const float* k;  ///< [visible, head_dim]
  const float* v;  ///< [visible, head_dim]
  float* o;        ///< [head_dim]
  float* lse;
  int visible;  ///< the row sees keys 0 .. visible - 1, or none if this is 0
};

/// @param row  number of a query, counted across all heads of all batches
template <int kHeadDim>
__device__ __forceinline__ Row row_of(const Attention<float>& a, size_t row) {
  const int head = int(row / a.seq_q);  // counted across all batches, as is kv_head(head)
  const size_t first_key = size_t(a.kv_head(head)) * a.seq_k;
  return {a.q + row * kHeadDim,
          a.k + first_key * kHeadDim,
          a.v + first_key * kHeadDim,
          a.o + row * kHeadDim,
          a.lse + row,
          a.visible_keys(int(row % a.seq_q))};
}

/// Loads lane i's share of scale * q: columns i, i + 32, ...
template <int kCols>
__device__ __forceinline__ void load_query(float (&rQ)[kCols], const float* q, float scale) {
  for (int c = 0; c < kCols; ++c) rQ[c] = scale * q[threadIdx.x % 32 + 32 * c];
}

/// Returns the score of a key, scale * q.k, to every lane. Takes kCols loads of 128 bytes and five shuffles.
///
/// @param rQ  scale * q     @param k  [32 * kCols], the key
template <int kCols>
__device__ __forceinline__ float score(const float (&rQ)[kCols], const float* k) {
  const int lane = threadIdx.x % 32;
  // EXERCISE 1: Multiply this lane's columns of the query and the key, and add up the products over all lanes.
  float s = 0.0f;
  for (int c = 0; c < kCols; ++c) s += rQ[c] * k[lane + 32 * c];
  return warp_reduce(s, Sum());
  // END 1
}

/// Writes o / l to the row of O, and the row's LSE.
template <int kCols>
__device__ __forceinline__ void store_row(const Row& row, const float (&rO)[kCols], MaxSum all) {
  const int lane = threadIdx.x % 32;
  // EXERCISE 2: Write the row of O and its LSE. rO[c] is column lane + 32 * c, not yet divided by l.
  const float inv_l = inverse_or_zero(all.l);
  for (int c = 0; c < kCols; ++c) row.o[lane + 32 * c] = rO[c] * inv_l;
  if (lane == 0) *row.lse = log_sum_exp(all);
  // END 2
}

/// Attention in two passes over the keys. No score is stored: the second pass computes every score again.
///
/// One change from three kernels with S and P in HBM: the second pass needs only the row's statistics (m, l)
/// from the first. (The memory is due to Rabe & Staats 2021, (m, l) to Milakov & Gimelshein 2018.)
///
///   grid    ceil(batch * heads * seq_q / kWarps)   one warp per row
///   block   kBlockThreads = 32 * kWarps
///   shared  none
///   HBM     per row with n visible keys: reads q once, n keys twice and n values once, writes o and LSE:
///           (3 * n + 2) * head_dim * 4 + 4 bytes
template <int kHeadDim>
__global__ void __launch_bounds__(kBlockThreads) two_pass_attention(Attention<float> a) {
  constexpr int kCols = kHeadDim / 32;
  const int lane = threadIdx.x % 32;
  const size_t index = size_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (index >= size_t(a.batch) * a.heads * a.seq_q) return;  // holds for all lanes of a warp or for none
  const Row row = row_of<kHeadDim>(a, index);
  float rQ[kCols];
  load_query(rQ, row.q, a.scale);

  // Pass 1, over K: find the statistics of the row, as in chapter 02. All lanes hold the same pair.
  MaxSum all = {-FLT_MAX, 0.0f};
  for (int key = 0; key < row.visible; ++key) {
    all = merge(all, {score(rQ, row.k + size_t(key) * kHeadDim), 1.0f});
  }

  // Pass 2, over K and V: add up exp(score - m) * v. Lane i holds columns i, i + 32, ... of the sum.
  float rO[kCols] = {};
  for (int key = 0; key < row.visible; ++key) {
    // EXERCISE 3: Add this key's contribution to the lane's columns of o. store_row() divides by l at the end.
    const float p = expf(score(rQ, row.k + size_t(key) * kHeadDim) - all.m);
    const float* v = row.v + size_t(key) * kHeadDim;
    for (int c = 0; c < kCols; ++c) rO[c] += p * v[lane + 32 * c];
    // END 3
  }
  store_row(row, rO, all);
}

/// Attention in one pass over the keys.
///
/// One change: o accumulates along with m and l, and is rescaled whenever the maximum grows.
/// (Dao et al. 2022, the recurrence of section 3.1 with one key per tile.)
///
///   grid    ceil(batch * heads * seq_q / kWarps)   one warp per row
///   block   kBlockThreads = 32 * kWarps
///   shared  none
///   HBM     per row with n visible keys: reads q once, n keys and n values once, writes o and LSE:
///           (2 * n + 2) * head_dim * 4 + 4 bytes
template <int kHeadDim>
__global__ void __launch_bounds__(kBlockThreads) one_pass_attention(Attention<float> a) {
  constexpr int kCols = kHeadDim / 32;
  const int lane = threadIdx.x % 32;
  const size_t index = size_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (index >= size_t(a.batch) * a.heads * a.seq_q) return;
  const Row row = row_of<kHeadDim>(a, index);
  float rQ[kCols];
  load_query(rQ, row.q, a.scale);

  // m, l and o of the keys so far. o is the sum of exp(score - m) * v, relative to the same m as l.
  float m = -FLT_MAX, l = 0.0f;
  float rO[kCols] = {};
  for (int key = 0; key < row.visible; ++key) {
    const float s = score(rQ, row.k + size_t(key) * kHeadDim);
    const float* v = row.v + size_t(key) * kHeadDim;
    // EXERCISE 4: Update m, l and rO with this key.
    const float m_new = fmaxf(m, s);
    const float correction = expf(m - m_new);  // 0 for the first key: expf(-FLT_MAX - s)
    const float p = expf(s - m_new);
    l = l * correction + p;
    for (int c = 0; c < kCols; ++c) rO[c] = rO[c] * correction + p * v[lane + 32 * c];
    m = m_new;
    // END 4
  }
  store_row(row, rO, {m, l});
}

}  // namespace fa::ch03
