/// @file
/// Attention without its matrix: a warp computes one row of O and keeps no more than that row.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], LSE [batch,
/// heads, seq_q], all fp32. Every kernel takes any lengths >= 1 and any kv_heads that divides heads. A row
/// that sees no key has O = 0 and LSE = -inf.
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

constexpr int kWarps = 4;                   ///< of a block, each with a row of its own
constexpr int kBlockThreads = 32 * kWarps;  ///< the same for both kernels

/// One row of Q and O, and the keys that it sees.
struct Row {
  const float* q;  ///< [head_dim]
  const float* k;  ///< [visible, head_dim]
  const float* v;  ///< [visible, head_dim]
  float* o;        ///< [head_dim]
  float* lse;
  int visible;  ///< keys 0 .. visible - 1, none for 0
};

/// @param row  counts through the queries of all heads of all batches
template <int kHeadDim>
__device__ __forceinline__ Row row_of(const Attention<float>& a, size_t row) {
  const int head = int(row / a.seq_q);  // counts through all batches, and so does kv_head(head)
  const size_t first_key = size_t(a.kv_head(head)) * a.seq_k;
  return {a.q + row * kHeadDim,
          a.k + first_key * kHeadDim,
          a.v + first_key * kHeadDim,
          a.o + row * kHeadDim,
          a.lse + row,
          a.visible_keys(int(row % a.seq_q))};
}

/// scale * q: what lane i holds of the query, its columns i, i + 32, ...
template <int kCols>
__device__ __forceinline__ void load_query(float (&rQ)[kCols], const float* q, float scale) {
  for (int c = 0; c < kCols; ++c) rQ[c] = scale * q[threadIdx.x % 32 + 32 * c];
}

/// The score of a key, scale * q.k, in every lane: kCols loads of 128 bytes, and five shuffles.
///
/// @param rQ  scale * q     @param k  [32 * kCols], the key
template <int kCols>
__device__ __forceinline__ float score(const float (&rQ)[kCols], const float* k) {
  const int lane = threadIdx.x % 32;
  // EXERCISE 1: Multiply this lane's columns of the query with those of the key, and add up over all lanes.
  float s = 0.0f;
  for (int c = 0; c < kCols; ++c) s += rQ[c] * k[lane + 32 * c];
  return warp_reduce(s, Sum());
  // END 1
}

/// Writes the row of O, o / l, and its LSE.
template <int kCols>
__device__ __forceinline__ void store_row(const Row& row, const float (&rO)[kCols], MaxSum all) {
  const int lane = threadIdx.x % 32;
  // EXERCISE 2: Write the row of O and its LSE. rO[c] is column lane + 32 * c, not yet divided by l.
  const float inv_l = inverse_or_zero(all.l);
  for (int c = 0; c < kCols; ++c) row.o[lane + 32 * c] = rO[c] * inv_l;
  if (lane == 0) *row.lse = log_sum_exp(all);
  // END 2
}

/// Attention in two passes over the keys. No score is stored: the second pass computes each of them again.
///
/// One change from three kernels with S and P in HBM: all that the second pass needs of the first is the row's
/// statistics (m, l). (Rabe & Staats 2021 for the memory; Milakov & Gimelshein 2018 for (m, l).)
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
  if (index >= size_t(a.batch) * a.heads * a.seq_q) return;  // all lanes of the warp
  const Row row = row_of<kHeadDim>(a, index);
  float rQ[kCols];
  load_query(rQ, row.q, a.scale);

  // Pass 1, over K: the statistics of the row, as in chapter 02. All lanes hold the same pair.
  MaxSum all = {-FLT_MAX, 0.0f};
  for (int key = 0; key < row.visible; ++key) {
    all = merge(all, {score(rQ, row.k + size_t(key) * kHeadDim), 1.0f});
  }

  // Pass 2, over K and V: the sum of exp(score - m) * v, of which lane i holds columns i, i + 32, ...
  float rO[kCols] = {};
  for (int key = 0; key < row.visible; ++key) {
    // EXERCISE 3: Add what this key contributes to the lane's columns of o. The division by l comes at the end.
    const float p = expf(score(rQ, row.k + size_t(key) * kHeadDim) - all.m);
    const float* v = row.v + size_t(key) * kHeadDim;
    for (int c = 0; c < kCols; ++c) rO[c] += p * v[lane + 32 * c];
    // END 3
  }
  store_row(row, rO, all);
}

/// Attention in one pass over the keys.
///
/// One change: o is summed together with m and l, and rescaled to the new maximum whenever that grows.
/// (Dao et al. 2022, the recurrence of section 3.1 for tiles of one key.)
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

  // m, l and o of the keys so far: o is the sum of exp(score - m) * v, relative to the same m as l.
  float m = -FLT_MAX, l = 0.0f;
  float rO[kCols] = {};
  for (int key = 0; key < row.visible; ++key) {
    const float s = score(rQ, row.k + size_t(key) * kHeadDim);
    const float* v = row.v + size_t(key) * kHeadDim;
    // EXERCISE 4: Take this key into m, l and rO.
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
