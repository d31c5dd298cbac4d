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
  float* dq_sum;  ///< where the fused kernels accumulate dQ: must start as zeros

  /// The first query that sees a key; all later queries see it too. Negative if the mask would begin before query 0.
  __device__ __forceinline__ int first_query(int key) const {
    return this->causal ? key - this->seq_k + this->seq_q : 0;
  }
};

}  // namespace fa::ch08
