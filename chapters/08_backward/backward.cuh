/// @file
/// What the kernels of chapter 08 are given.
#pragma once

#include <cuda_runtime.h>

#include "device/attention.cuh"

namespace fa::ch08 {

/// The backward pass, passed to a kernel by value. O and LSE are what the forward pass left.
template <class T>
struct Backward : Attention<T> {
  const T* d_o;  ///< [batch, heads, seq_q, head_dim]
  float* delta;  ///< [batch, heads, seq_q]: rowsum(dO * O), the papers' D
  T *dq, *dk, *dv;
  float* dq_sum;  ///< where blocks add up dQ, if they do: zeros at first

  /// The first query that sees a key, and with it all later ones. Negative where the mask would begin before query 0.
  __device__ __forceinline__ int first_query(int key) const {
    return this->causal ? key - this->seq_k + this->seq_q : 0;
  }
};

}  // namespace fa::ch08
