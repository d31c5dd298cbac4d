/// @file
/// Softmax over the rows of a matrix, in four versions. They show why the maximum is subtracted, and what it
/// costs when each thread reads the wrong columns.
///
/// x and y are [rows, cols], fp32, row-major. Every kernel takes any rows >= 1 and any cols >= 1. A row that
/// holds only -inf becomes zeros. A row that holds a NaN or +inf becomes NaN throughout: fmaxf() ignores a
/// NaN, but exp(NaN - m) and exp(inf - inf) are NaN, and so is every sum that contains them. (`unsafe`
/// subtracts no maximum: its exp(inf) is inf.)
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

namespace fa::ch01 {

constexpr int kBlockThreads = 128;           ///< threads per block, in every kernel here
constexpr int kWarps = kBlockThreads / 32;   ///< warps per block
constexpr unsigned kAllLanes = 0xffffffffu;  ///< one bit per lane: all 32 lanes take part in a shuffle

/// 1 / l, or 0 if l = 0. The sum l is 0 only for a row that holds nothing but -inf, where 0 / 0 would be NaN.
__device__ __forceinline__ float inverse_or_zero(float l) { return l == 0.0f ? 0.0f : 1.0f / l; }

/// Softmax as defined: y[r, c] = exp(x[r, c]) / sum_j exp(x[r, j]).
///
/// Correct as long as fp32 can hold the sum: exp(89) overflows, and exp(-104) is 0.
/// (Milakov & Gimelshein 2018, algorithm 1.)
///
///   grid    ceil(rows / kBlockThreads)   one thread per row
///   block   kBlockThreads
///   shared  none
///   HBM     reads x twice, writes y once: 3 * rows * cols * 4 bytes
///
/// @param x  [rows, cols] logits          @param y  [rows, cols] probabilities
__global__ void __launch_bounds__(kBlockThreads)
    unsafe_softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const size_t row = size_t(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (row >= size_t(rows)) return;
  x += row * cols;
  y += row * cols;

  // Pass 1: the sum.
  float l = 0.0f;
  for (int col = 0; col < cols; ++col) l += expf(x[col]);

  // Pass 2: the quotients.
  const float inv_l = inverse_or_zero(l);
  for (int col = 0; col < cols; ++col) y[col] = expf(x[col]) * inv_l;
}

/// Safe softmax: y[r, c] = exp(x[r, c] - m_r) / sum_j exp(x[r, j] - m_r), where m_r is the row's maximum.
///
/// One change: a first pass finds m, and every exponent is relative to it. Any m gives the same quotient, but
/// if m is the maximum, no term exceeds 1 and at least one term is 1, so the sum is between 1 and cols.
/// (Milakov & Gimelshein 2018, algorithm 2.)
///
///   grid    ceil(rows / kBlockThreads)   one thread per row
///   block   kBlockThreads
///   shared  none
///   HBM     reads x three times, writes y once: 4 * rows * cols * 4 bytes
///
/// In one step the 32 lanes of a warp read one column of 32 rows, at addresses that are cols * 4 bytes apart.
/// For cols >= 8 each address is in a different sector: 32 sectors of 32 bytes move, and 128 bytes are used.
///
/// @param x  [rows, cols] logits          @param y  [rows, cols] probabilities
__global__ void __launch_bounds__(kBlockThreads)
    row_per_thread_softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const size_t row = size_t(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (row >= size_t(rows)) return;
  x += row * cols;
  y += row * cols;

  // Pass 1: the maximum.
  // EXERCISE 1: Find the number m that keeps every exponent of the next pass at or below 0.
  float m = -FLT_MAX;  // not -inf, because (-inf) - (-inf) is NaN
  for (int col = 0; col < cols; ++col) m = fmaxf(m, x[col]);
  // END 1

  // Pass 2: the sum.
  float l = 0.0f;
  for (int col = 0; col < cols; ++col) l += expf(x[col] - m);

  // Pass 3: the quotients.
  const float inv_l = inverse_or_zero(l);
  for (int col = 0; col < cols; ++col) y[col] = expf(x[col] - m) * inv_l;
}

/// The largest of the 32 values of a warp, in every lane.
///
/// A butterfly: in each step, lane i gets the value of lane i ^ mask. After masks 16, 8, 4, 2, 1 every lane
/// has the maximum of all 32 values: five shuffles, no memory.
__device__ __forceinline__ float warp_max(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, mask));
  return value;
}

/// The sum of the 32 values of a warp, in every lane. All lanes get exactly the same bits: in every step the
/// two partners add the same two numbers, and a + b = b + a.
__device__ __forceinline__ float warp_sum(float value) {
  // EXERCISE 2: Add up the values of the 32 lanes, so that every lane gets the sum.
  for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(kAllLanes, value, mask);
  // END 2
  return value;
}

/// x[col], or -inf past the end of the row. A -inf changes no maximum and adds exp(-inf) = 0 to a sum.
///
/// With at(), all threads of a row take the same number of steps. If the threads that run out of columns
/// stopped one step early, the warp would diverge: nvcc unrolls loops by four, and the two groups of lanes
/// would run the remaining steps one after the other. At 1003 columns that costs 18 % more sectors.
__device__ __forceinline__ float at(const float* x, int col, int cols) {
  return col < cols ? x[col] : -INFINITY;
}

/// Safe softmax with one warp per row instead of one thread.
///
/// One change: the mapping. In one step the 32 lanes read 32 neighbouring columns of one row: 128 consecutive
/// bytes, 4 sectors (5 if the row does not start on a sector boundary).
///
///   grid    ceil(rows / kWarps)   one warp per row
///   block   kBlockThreads = 32 * kWarps
///   shared  none
///   HBM     reads x three times, writes y once: 4 * rows * cols * 4 bytes
///
/// @param x  [rows, cols] logits          @param y  [rows, cols] probabilities
__global__ void __launch_bounds__(kBlockThreads)
    row_per_warp_softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int lane = threadIdx.x % 32;
  const size_t row = size_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= size_t(rows)) return;  // all lanes of a warp return, or none: a shuffle needs all 32
  x += row * cols;
  y += row * cols;

  // EXERCISE 3: Write the three passes with the columns of the row distributed over the 32 lanes.
  // Pass 1: the maximum. Lane i takes columns i, i + 32, i + 64, ...
  float m = -FLT_MAX;
  for (int first = 0; first < cols; first += 32) m = fmaxf(m, at(x, first + lane, cols));
  m = warp_max(m);

  // Pass 2: the sum.
  float l = 0.0f;
  for (int first = 0; first < cols; first += 32) l += expf(at(x, first + lane, cols) - m);
  l = warp_sum(l);

  // Pass 3: the quotients.
  const float inv_l = inverse_or_zero(l);
  for (int first = 0; first < cols; first += 32) {
    if (const int col = first + lane; col < cols) y[col] = expf(x[col] - m) * inv_l;
  }
  // END 3
}

/// Safe softmax with one block per row instead of one warp.
///
/// One change: the mapping again. Even a few long rows now keep the whole chip busy. But a shuffle cannot
/// reach another warp: the warps exchange their results through shared memory and must wait for each other.
///
///   grid    rows                  one block per row
///   block   kBlockThreads
///   shared  kWarps * 4 bytes, first for the maxima of the warps, then for their sums
///   HBM     reads x three times, writes y once: 4 * rows * cols * 4 bytes
///
/// @param x  [rows, cols] logits          @param y  [rows, cols] probabilities
__global__ void __launch_bounds__(kBlockThreads)
    row_per_block_softmax(const float* __restrict__ x, float* __restrict__ y, int /*rows*/, int cols) {
  __shared__ float sPartial[kWarps];
  const int thread = threadIdx.x;
  const int warp = thread / 32;
  const bool first_lane = thread % 32 == 0;
  x += size_t(blockIdx.x) * cols;
  y += size_t(blockIdx.x) * cols;

  // EXERCISE 4: Write the three passes with the columns of the row distributed over the block's four warps.
  // Pass 1: the maximum.
  float m = -FLT_MAX;
  for (int first = 0; first < cols; first += kBlockThreads) m = fmaxf(m, at(x, first + thread, cols));
  m = warp_max(m);
  if (first_lane) sPartial[warp] = m;
  __syncthreads();  // every warp has written its maximum
  for (int other = 0; other < kWarps; ++other) m = fmaxf(m, sPartial[other]);

  // Pass 2: the sum.
  float l = 0.0f;
  for (int first = 0; first < cols; first += kBlockThreads) l += expf(at(x, first + thread, cols) - m);
  l = warp_sum(l);
  __syncthreads();  // every warp has read the maxima: sPartial may be overwritten
  if (first_lane) sPartial[warp] = l;
  __syncthreads();  // every warp has written its sum
  l = 0.0f;
  for (int other = 0; other < kWarps; ++other) l += sPartial[other];

  // Pass 3: the quotients.
  const float inv_l = inverse_or_zero(l);
  for (int first = 0; first < cols; first += kBlockThreads) {
    if (const int col = first + thread; col < cols) y[col] = expf(x[col] - m) * inv_l;
  }
  // END 4
}

}  // namespace fa::ch01
