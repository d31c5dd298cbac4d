/// @file
/// What happens before the products: D, LSE in the form that the kernels need, and zeros for the sums of dQ.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

#include "backward.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"

namespace fa::ch10 {

/// D = rowsum(dO * O) and LSE * log2 e for every padded row; zeros for dQ's sums, if there are any.
///
/// Rows that see no key, and rows past the last query, get +inf instead of LSE: 2^(s - inf) = 0 for every score s.
///
///   grid    enough for batch * heads * padded_queries rows; the first rows come last: the kernel that follows begins with
///           them, and finds them in the L2 cache
///   block   256; a warp has kRowsOfWarp rows
///   HBM     reads O, dO and LSE, writes D, log2_sum and the zeros
template <class T, int d>
struct Prepare {
  static constexpr int kLanes = d / 8;  ///< of a row: 16 bytes each
  static constexpr int kRowsAtOnce = 32 / kLanes, kRounds = 4;
  static constexpr int kRowsOfWarp = kRowsAtOnce * kRounds;
  static constexpr int kThreads = 256, kRowsOfBlock = kThreads / 32 * kRowsOfWarp;
};
template <class T, int d>
__global__ void __launch_bounds__(Prepare<T, d>::kThreads) prepare_rows(Backward<T> a) {
  using P = Prepare<T, d>;
  const size_t rows = size_t(a.batch) * a.heads * a.padded_queries;
  const size_t first =
      (size_t(gridDim.x - 1 - blockIdx.x) * (P::kThreads / 32) + threadIdx.x / 32) * P::kRowsOfWarp;
  const int lane = threadIdx.x % 32, col = lane % P::kLanes * 8;
  uint4 o[P::kRounds] = {}, d_o[P::kRounds] = {};
#pragma unroll
  for (int n = 0; n < P::kRounds; ++n) {
    const size_t row = first + n * P::kRowsAtOnce + lane / P::kLanes;
    const size_t head = row / a.padded_queries, query = row % a.padded_queries;
    if (row < rows && query < size_t(a.seq_q)) {
      const size_t at = (head * a.seq_q + query) * d + col;
      o[n] = *reinterpret_cast<const uint4*>(a.o + at);
      d_o[n] = *reinterpret_cast<const uint4*>(a.d_o + at);
    }
  }
  if (a.dq_sum != nullptr) {
    for (size_t at = first * d + 4 * lane; at < min(first + P::kRowsOfWarp, rows) * d; at += 128)
      store_float4(a.dq_sum + at, {0.0f, 0.0f, 0.0f, 0.0f});
  }
#pragma unroll
  for (int n = 0; n < P::kRounds; ++n) {
    const size_t row = first + n * P::kRowsAtOnce + lane / P::kLanes;
    const T *x = reinterpret_cast<const T*>(&o[n]), *y = reinterpret_cast<const T*>(&d_o[n]);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += float(x[i]) * float(y[i]);
    sum = warp_reduce<P::kLanes>(sum, Sum());
    if (lane % P::kLanes == 0 && row < rows) {
      const size_t head = row / a.padded_queries, query = row % a.padded_queries;
      const float lse = query < size_t(a.seq_q) ? a.lse[head * a.seq_q + query] : -INFINITY;
      a.log2_sum[row] = lse == -INFINITY ? INFINITY : lse * kLog2e;
      a.delta[row] = sum;
    }
  }
}

}  // namespace fa::ch10
