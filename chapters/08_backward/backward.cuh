/// @file
/// The arguments of the kernels of chapter 08.
#pragma once

#include <cuda_runtime.h>

#include "device/attention.cuh"

namespace fa::ch08 {

/// The arguments of the backward pass, passed to a kernel by value. O and LSE come from the forward pass.
template <class T>
struct Backward : Attention<T> {
  const T* d_o;  ///< [batch, heads, seq_q, head_dim]
  float* delta;  ///< [batch, heads, seq_q]: rowsum(dO * O), the papers' D
  T *dq, *dk, *dv;
  Strides d_o_strides, dq_strides, dk_strides, dv_strides;
  float* dq_sum;  ///< where the tensor-core kernels accumulate dQ: must start as zeros

  /// The first query that sees a key; all later queries see it too. Negative if the mask would begin before
  /// query 0.
  __device__ __forceinline__ int first_query(int key) const {
    return this->causal ? key - this->seq_k + this->seq_q : 0;
  }
};

/// Tiles for Q, K, V and dO whose rows follow each other and have kHeadDim elements.
template <class Base>
struct Dense : Base {
  static constexpr bool kDense = true;
};

/// The rows of a head, and how many columns of them exist. With Tile::kDense the stride and the columns are
/// constants, so the addresses of a thread's copies differ by constants as well.
template <class Tile, class T>
__device__ __forceinline__ HeadRows<T> known_rows(HeadRows<T> rows) {
  if (Tile::kDense) rows.stride = Tile::kHeadDim;
  return rows;
}
template <class Tile>
__device__ __forceinline__ int cols_of(const Attention<typename Tile::T>& a) {
  return Tile::kDense ? Tile::kHeadDim : a.head_dim;
}

}  // namespace fa::ch08
