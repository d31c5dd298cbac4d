/// @file
/// The parameters of decoding, as kernels receive them, and the unit of their work.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "device/ptx.cuh"

namespace fa::ch14 {

/// O = softmax(scale * Q K^T) V for the last seq_q tokens of each sequence, passed to kernels by value.
///
/// The heads of Q that share a head of K are neighbours, so their queries are `rows` neighbouring rows of Q:
/// row r is query r % seq_q of head r / seq_q among those that share. O and LSE have the same rows.
template <class T>
struct Decoding {
  const T* q;                       ///< [batch, kv_heads, rows, head_dim]
  T* o;                             ///< the same shape
  float* lse;                       ///< [batch, kv_heads, rows]
  const std::int32_t* key_lengths;  ///< [batch]; null: every sequence has seq_k keys
  int batch, kv_heads, rows, seq_q, seq_k;
  float exp2_scale;                ///< exp(scale * x) = 2^(exp2_scale * x)
  const float *k_scale, *v_scale;  ///< [kv_heads]; null: 1

  /// The keys of a sequence.
  __host__ __device__ int length(int of_batch) const {
    return key_lengths == nullptr ? seq_k : key_lengths[of_batch];
  }
  /// The keys that a row does not see, at the end of its sequence: those of later queries.
  __device__ __forceinline__ int hidden_keys(int row) const { return seq_q - 1 - row % seq_q; }
  /// 2^(score_factor * q.k) is the weight of a key.
  __device__ __forceinline__ float score_factor(int kv_head) const {
    return k_scale == nullptr ? exp2_scale : exp2_scale * k_scale[kv_head];
  }
};

/// A score as an exponent of 2, rounded.
__device__ __forceinline__ float exponent(float score, float factor) { return __fmul_rn(score, factor); }

/// The weight of a key relative to m, which is a rounded exponent. So is this one: a fused multiply-add would
/// subtract m from the exact product, and where scores are huge, what m has lost by rounding is not small.
/// Elsewhere such a multiplication is dear; here the memory is the limit.
__device__ __forceinline__ float weight(float score, float factor, float m) {
  return ptx::exp2_approx(exponent(score, factor) - m);
}

/// What a block multiplies at a time: some rows of Q and the keys of one head of one sequence.
struct Unit {
  int batch, kv_head;
  int first_row;  ///< of Decoding::rows
  int rows;       ///< at most a tile's kRows
  int length;     ///< keys of the sequence

  /// The unit's first row among those of all units.
  template <class T>
  __device__ __forceinline__ std::size_t row_in(const Decoding<T>& a) const {
    return (std::size_t(batch) * a.kv_heads + kv_head) * a.rows + first_row;
  }
};

/// The units of a sequence: `head` counts heads of K and, within each, tiles of kRows rows.
template <int kRows, class T>
__host__ __device__ int heads_of_work(const Decoding<T>& a) {
  return a.kv_heads * ((a.rows + kRows - 1) / kRows);
}
template <int kRows, class T>
__device__ __forceinline__ Unit unit_of(const Decoding<T>& a, int batch, int head, int length) {
  const int row_tiles = (a.rows + kRows - 1) / kRows;
  const int first_row = head % row_tiles * kRows;
  return {batch, head / row_tiles, first_row, min(kRows, a.rows - first_row), length};
}

}  // namespace fa::ch14
