/// @file
/// Attention sinks: a logit of each query head that takes part in the softmax of its rows and has no value.
///
/// With sink t and scores s_j of the keys that row i sees:
///
///   LSE_i = log(exp(t) + sum_j exp(s_j))    O_i = sum_j exp(s_j - LSE_i) v_j
///   dt    = -sum_i exp(t - LSE_i) D_i       D = rowsum(dO o O)
///
/// A row joins its sink at the end, when its keys have been summed: the loops are those without sinks. The
/// backward pass of Q, K and V needs only an LSE that includes it.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstddef>

#include "07_multi_stage/softmax.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"

namespace fa::ch11 {

/// The sink joins a row whose keys have been summed, as chapter 02 merges two parts of a row: it is a part
/// with the maximum `sink`, a sum of 1, and O = 0. Four lanes share a row, and one of them adds the sink.
/// @param m, l  the maximum, times log2 e; this lane's share of the sum of 2^(s - m)
/// @param sink  times log2 e; -inf for none
/// @return  by what the row of O must be multiplied
__device__ __forceinline__ float join_sink(float& m, float& l, float sink) {
  // EXERCISE 12: Bring m and l to the maximum of m and the sink, and add the sink to l in one lane of four. Return the correction.
  const float m_new = fmaxf(m, sink);
  const float correction = ptx::exp2_approx(m - m_new);
  const float of_sink = threadIdx.x % 4 == 0 ? ptx::exp2_approx(sink - m_new) : 0.0f;
  l = l * correction + of_sink;
  m = m_new;
  return correction;
  // END 12
}

/// The sinks of all heads, passed to a kernel by value.
struct WithSinks {
  const float* sinks;  ///< [heads]
  int heads;

  /// The sink of a head, a natural logarithm, and the same as an exponent of 2.
  /// @param head  counts through all batches
  __device__ __forceinline__ float logit(int head) const { return sinks[head % heads]; }
  __device__ __forceinline__ float exponent(int head) const { return logit(head) * kLog2e; }

  /// At the end of a warp's rows, on the fragments of chapter 07.
  template <class Tile>
  __device__ __forceinline__ void join(ch07::Accumulators<Tile>& acc, int head) const {
    const float sink = exponent(head);
#pragma unroll
    for (int row = 0; row < Tile::kLaneRows; ++row) {
      const float correction = join_sink(acc.m[row], acc.l[row], sink);
#pragma unroll
      for (int ni = 0; ni < Tile::kHeadDim / 8; ++ni) {
        float* pair = ch07::row_pair(acc.o, row, ni);
        pair[0] *= correction;
        pair[1] *= correction;
      }
    }
  }
};

/// The gradient of each sink: minus the sum of P of the sink times D, over the rows of its head in all
/// batches. A block adds in the same order in every run.
///
///   grid    heads
///   block   kThreads
///   HBM     reads LSE and D; each warp reads the sink; writes the gradient
/// @param lse    [batch, heads, seq_q]     @param delta  D: [batch, heads, rows_of_delta]
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    sink_gradients(WithSinks sinks, const float* __restrict__ lse, const float* __restrict__ delta,
                   float* __restrict__ dsinks, int batch, int seq_q, int rows_of_delta) {
  const float sink = sinks.logit(blockIdx.x);
  float sum = 0.0f;
  for (int n = 0; n < batch; ++n) {
    const std::size_t head = std::size_t(n) * sinks.heads + blockIdx.x;
    for (int query = threadIdx.x; query < seq_q; query += kThreads) {
      // resolved_lse(): without a key and a sink, LSE is -inf, and P is 0.
      const float of_row = resolved_lse(lse[head * seq_q + query]), d = delta[head * rows_of_delta + query];
      // EXERCISE 13: Add what the row contributes to the gradient of its sink.
      sum -= ptx::exp2_approx((sink - of_row) * kLog2e) * d;
      // END 13
    }
  }
  __shared__ float sPartial[kThreads / 32];
  sum = block_reduce(sum, Sum(), sPartial);
  if (threadIdx.x == 0) dsinks[blockIdx.x] = sum;
}

}  // namespace fa::ch11
