/// @file
/// The parameters of attention, as a kernel receives them. Taught by chapter 03.
#pragma once

#include <cuda_runtime.h>

namespace fa {

/// O = softmax(scale * Q K^T) V, passed to a kernel by value. All tensors are dense and row-major.
///
/// A query that sees no key has O = 0 and LSE = -inf.
template <class T>
struct Attention {
  const T* q;  ///< [batch, heads, seq_q, head_dim]
  const T* k;  ///< [batch, kv_heads, seq_k, head_dim]
  const T* v;  ///< [batch, kv_heads, seq_k, head_dim]
  T* o;        ///< [batch, heads, seq_q, head_dim]
  float* lse;  ///< [batch, heads, seq_q]: natural log of the sum over visible keys of exp(scale * q.k)
  int batch, heads, kv_heads, seq_q, seq_k;
  float scale;
  bool causal;  ///< query i sees key j only when j <= i + seq_k - seq_q

  /// The head of K and V that a head of Q reads: heads / kv_heads neighbouring heads share one.
  __host__ __device__ int kv_head(int head) const { return head / (heads / kv_heads); }

  /// The number of keys that a query sees, which are the first ones. Never negative, never more than seq_k;
  /// rows of a ragged tile past the last query see as many as the last one.
  __host__ __device__ int visible_keys(int query) const {
    if (!causal || query >= seq_q) return seq_k;
    const int later = seq_q - 1 - query;  // queries after this one; the last query sees every key
    return later < seq_k ? seq_k - later : 0;
  }
};

}  // namespace fa
