/// @file
/// Softmax with one pass fewer, then with fewer instructions, then with one block per row. The last two
/// variants, whose rows never leave the chip, are in on_chip.cuh and cluster.cuh.
///
/// x and y are [rows, cols], fp32, row-major, and start at a multiple of 16 bytes. Every kernel takes any
/// rows >= 1 and any cols >= 1. A row that holds only -inf becomes zeros; a row that holds a NaN or +inf
/// becomes NaN.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

#include "device/math.cuh"
#include "device/reduce.cuh"

namespace fa::ch02 {

constexpr int kBlockThreads = 256;          ///< threads per block, in every kernel of this file
constexpr int kWarps = kBlockThreads / 32;  ///< warps per block

/// Statistics of part of a row: its maximum, and the sum of exp(x - m) over that part.
///
/// The empty part is {-FLT_MAX, 0}: m starts at the lowest finite number, because (-inf) - (-inf) is NaN.
struct MaxSum {
  float m;
  float l;
};

/// The statistics of two parts taken together. The operation is associative and commutative, so elements,
/// lanes and warps may be merged in any order (Milakov & Gimelshein 2018, section 3.1).
///
/// A single element x is the part {x, 1}. If x may be -inf, merge it into a part that started empty: such a
/// part has m >= -FLT_MAX, so that exp(-inf - m) = 0.
__device__ __forceinline__ MaxSum merge(MaxSum a, MaxSum b) {
  // EXERCISE 1: Each sum is relative to its own part's maximum. Rescale both to the common maximum, and add them.
  const float m = fmaxf(a.m, b.m);
  return {m, a.l * expf(a.m - m) + b.l * expf(b.m - m)};
  // END 1
}

/// A pair moves between lanes in two shuffles. This overload lets warp_reduce() and block_reduce() reduce
/// pairs.
__device__ __forceinline__ MaxSum shuffle_xor(MaxSum part, int mask) {
  return {fa::shuffle_xor(part.m, mask), fa::shuffle_xor(part.l, mask)};
}

/// Online softmax: y[r, c] = exp(x[r, c] - m_r) / l_r in two passes over x instead of three.
///
/// One change from chapter 01's `row_per_warp`: one pass finds both the maximum and the sum.
/// (Milakov & Gimelshein 2018, algorithm 3.)
///
///   grid    ceil(rows / kWarps)   one warp per row
///   block   kBlockThreads = 32 * kWarps
///   shared  none
///   HBM     reads x twice, writes y once: 3 * rows * cols * 4 bytes
///
/// @param x  [rows, cols] logits          @param y  [rows, cols] probabilities
__global__ void __launch_bounds__(kBlockThreads)
    online_softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int lane = threadIdx.x % 32;
  const size_t row = size_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= size_t(rows)) return;
  x += row * cols;
  y += row * cols;

  // Pass 1: maximum and sum together. Lane i takes columns i, i + 32, ...: 128 neighbouring bytes a step.
  MaxSum part = {-FLT_MAX, 0.0f};
  for (int first = 0; first < cols; first += 32) part = merge(part, {at(x, first + lane, cols), 1.0f});
  const MaxSum all = warp_reduce(part, merge);

  // Pass 2: the second and last read of x.
  const float inv_l = inverse_or_zero(all.l);
  for (int first = 0; first < cols; first += 32) {
    if (const int col = first + lane; col < cols) y[col] = expf(x[col] - all.m) * inv_l;
  }
}

/// Whether all of the columns col .. col + count - 1 are among the columns 0 .. end - 1. All code below that
/// handles ragged edges calls this function.
__device__ __forceinline__ bool inside(int col, int count, int end) { return col >= 0 && col + count <= end; }

/// Whether these bytes of x will be read again. If not, the L2 may evict them before others. Where no bytes
/// are read twice, nothing needs that room, and an ordinary load (kAgain) is faster.
enum class Read { kAgain, kLast };

/// Four neighbouring floats, in one load of 16 bytes. @param address  a multiple of 16 bytes
template <Read kRead>
__device__ __forceinline__ float4 load_float4(const float* address) {
  const float4* x = reinterpret_cast<const float4*>(address);
  return kRead == Read::kLast ? __ldcs(x) : *x;
}

/// Whether the L2 may evict these bytes of y before others: no kernel here reads y, but most read x twice.
enum class Write { kEvictFirst, kUsual };

/// Stores four neighbouring floats, 16 bytes at once.
template <Write kWrite>
__device__ __forceinline__ void store_float4(float* address, float4 x) {
  float4* y = reinterpret_cast<float4*>(address);
  if constexpr (kWrite == Write::kEvictFirst) {
    __stcs(y, x);
  } else {
    *y = x;
  }
}

/// The columns col .. col + 3 of a row. Columns outside 0 .. end - 1 are not read; they count as -inf, which
/// adds exp(-inf) = 0 to a sum.
///
/// If the row length is not a multiple of 4, a row may start or end in the middle of 16 aligned bytes. The
/// first four columns then start at col < 0, or the last four extend past `end`. Only at these two ends are
/// columns loaded one by one.
///
/// @param x  the row; x + col is a multiple of 16 bytes
template <Read kRead = Read::kAgain>
__device__ __forceinline__ float4 load_columns(const float* x, int col, int end) {
  // EXERCISE 2: Load those of the four columns that belong to the row, and read nothing else.
  if (inside(col, 4, end)) return load_float4<kRead>(x + col);
  const auto value = [x, end](int c) { return inside(c, 1, end) ? x[c] : -INFINITY; };
  return {value(col), value(col + 1), value(col + 2), value(col + 3)};
  // END 2
}

/// Stores the columns col .. col + 3 of a row, except those outside 0 .. end - 1.
template <Write kWrite = Write::kEvictFirst>
__device__ __forceinline__ void store_columns(float* y, int col, int end, float4 x) {
  if (inside(col, 4, end)) {
    store_float4<kWrite>(y + col, x);
  } else {
    if (inside(col, 1, end)) y[col] = x.x;
    if (inside(col + 1, 1, end)) y[col + 1] = x.y;
    if (inside(col + 2, 1, end)) y[col + 2] = x.z;
    if (inside(col + 3, 1, end)) y[col + 3] = x.w;
  }
}

/// exp(x - m) of four columns.
__device__ __forceinline__ float4 exp_minus(float4 x, float m) {
  return {expf(x.x - m), expf(x.y - m), expf(x.z - m), expf(x.w - m)};
}

/// exp(x - m) / l of four columns.
__device__ __forceinline__ float4 probabilities(float4 x, float m, float inv_l) {
  const float4 e = exp_minus(x, m);
  return {e.x * inv_l, e.y * inv_l, e.z * inv_l, e.w * inv_l};
}

/// The pair (m, l) of the columns that one thread processes: four from `col` on, four from col + kStride on,
/// and so on. Each of the four has a separate pair until the end: four merges are in flight at a time,
/// and none waits for another.
template <int kStride>
__device__ __forceinline__ MaxSum merge_columns(const float* x, int col, int cols) {
  MaxSum part[4];
  for (MaxSum& p : part) p = {-FLT_MAX, 0.0f};
  for (; col < cols; col += kStride) {
    const float4 next = load_columns(x, col, cols);
    part[0] = merge(part[0], {next.x, 1.0f});
    part[1] = merge(part[1], {next.y, 1.0f});
    part[2] = merge(part[2], {next.z, 1.0f});
    part[3] = merge(part[3], {next.w, 1.0f});
  }
  return merge(merge(part[0], part[1]), merge(part[2], part[3]));
}

/// Online softmax, four columns at a time.
///
/// One change: a lane processes four columns per step, and keeps a pair (m, l) for each of them. It takes a
/// quarter of the load and store instructions, and makes four independent chains of merges out of one.
///
///   grid    ceil(rows / kWarps)   one warp per row
///   block   kBlockThreads = 32 * kWarps
///   shared  none
///   HBM     reads x twice, writes y once: 3 * rows * cols * 4 bytes
///
/// @param x  [rows, cols] logits          @param y  [rows, cols] probabilities
__global__ void __launch_bounds__(kBlockThreads)
    vectorized_softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int lane = threadIdx.x % 32;
  const size_t row = size_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= size_t(rows)) return;
  const int lead = int(row * cols % 4);  // columns between a multiple of 16 bytes and the row's first
  x += row * cols;
  y += row * cols;

  // Pass 1: in each step, each lane takes 4 columns. Together these are 512 consecutive bytes.
  const MaxSum all = warp_reduce(merge_columns<4 * 32>(x, 4 * lane - lead, cols), merge);

  // Pass 2.
  const float inv_l = inverse_or_zero(all.l);
  for (int col = 4 * lane - lead; col < cols; col += 4 * 32) {
    store_columns(y, col, cols, probabilities(load_columns(x, col, cols), all.m, inv_l));
  }
}

/// Online softmax with one block per row.
///
/// One change: the mapping, which suits a few long rows. The same merge() combines elements, lanes and warps.
///
///   grid    rows                     one block per row
///   block   kBlockThreads
///   shared  kWarps * 8 bytes         one pair per warp
///   HBM     reads x twice, writes y once: 3 * rows * cols * 4 bytes
///
/// @param x  [rows, cols] logits          @param y  [rows, cols] probabilities
__global__ void __launch_bounds__(kBlockThreads)
    block_per_row_softmax(const float* __restrict__ x, float* __restrict__ y, int /*rows*/, int cols) {
  const int thread = threadIdx.x;
  const size_t row = blockIdx.x;
  const int lead = int(row * cols % 4);
  x += row * cols;
  y += row * cols;

  // Pass 1: in each step, each thread takes 4 columns.
  const MaxSum mine = merge_columns<4 * kBlockThreads>(x, 4 * thread - lead, cols);
  // EXERCISE 3: Each thread has the pair of its own columns. Merge them into the pair of the row, in every thread.
  __shared__ MaxSum sPartial[kWarps];
  const MaxSum all = block_reduce(mine, merge, sPartial);
  // END 3

  // Pass 2.
  const float inv_l = inverse_or_zero(all.l);
  for (int col = 4 * thread - lead; col < cols; col += 4 * kBlockThreads) {
    store_columns(y, col, cols, probabilities(load_columns(x, col, cols), all.m, inv_l));
  }
}

}  // namespace fa::ch02
