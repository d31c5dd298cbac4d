/// @file
/// Softmax with one pass less, then with fewer instructions, then with a block for each row. on_chip.cuh has the last
/// variant, whose rows never leave the chip.
///
/// x and y are [rows, cols], fp32, row-major, and begin at a multiple of 16 bytes. Every kernel takes any
/// rows >= 1 and any cols >= 1. A row of -inf only becomes zeros; a row that holds a NaN or +inf becomes NaN.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

#include "device/math.cuh"
#include "device/reduce.cuh"

namespace fa::ch02 {

constexpr int kBlockThreads = 256;          ///< of every kernel up to `block_per_row`
constexpr int kWarps = kBlockThreads / 32;  ///< warps of such a block

/// Statistics of part of a row: its maximum, and the sum of exp(x - m) over that part.
///
/// An empty part is {-FLT_MAX, 0}: m begins at the lowest finite number, because (-inf) - (-inf) is NaN.
struct MaxSum {
  float m;
  float l;
};

/// The statistics of two parts taken together. Associative and commutative, so elements, lanes and warps may
/// be merged in any order (Milakov & Gimelshein 2018, section 3.1).
///
/// One element x is the part {x, 1}. If it may be -inf, merge it into a part that began empty: such a part
/// has m >= -FLT_MAX, and exp(-inf - m) = 0.
__device__ __forceinline__ MaxSum merge(MaxSum a, MaxSum b) {
  // EXERCISE 1: Both sums were taken against their own maximum. Bring them to the common one, and add.
  const float m = fmaxf(a.m, b.m);
  return {m, a.l * expf(a.m - m) + b.l * expf(b.m - m)};
  // END 1
}

/// A pair travels between lanes in two shuffles. With this, warp_reduce() and block_reduce() take pairs.
__device__ __forceinline__ MaxSum shuffle_xor(MaxSum part, int mask) {
  return {fa::shuffle_xor(part.m, mask), fa::shuffle_xor(part.l, mask)};
}

/// Online softmax: y[r, c] = exp(x[r, c] - m_r) / l_r in two passes over x instead of three.
///
/// One change from chapter 01's `row_per_warp`: the maximum and the sum are found together.
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

/// Whether columns col .. col + count - 1 are all among columns 0 .. end - 1. Decides every ragged edge below.
__device__ __forceinline__ bool inside(int col, int count, int end) { return col >= 0 && col + count <= end; }

/// Whether these bytes of x will be read once more. If not, the L2 may drop them before others.
enum class Read { kAgain, kLast };

/// Four neighbouring floats by one load of 16 bytes. @param address  a multiple of 16 bytes
template <Read kRead>
__device__ __forceinline__ float4 load_float4(const float* address) {
  const float4* x = reinterpret_cast<const float4*>(address);
  return kRead == Read::kLast ? __ldcs(x) : *x;
}

/// Four neighbouring floats by one store of 16 bytes. Nobody reads y here: the L2 may drop it before x.
__device__ __forceinline__ void store_float4(float* address, float4 x) {
  __stcs(reinterpret_cast<float4*>(address), x);
}

/// The four columns of a row from `col` on. Columns outside 0 .. end - 1 are not read; they are -inf, which adds
/// exp(-inf) = 0 to a sum.
///
/// If the length of rows is no multiple of 4, a row may begin or end within 16 aligned bytes: its first four columns
/// then have col < 0, its last four reach past `end`, and only these are loaded one by one.
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

/// Writes those of four columns that are among columns 0 .. end - 1.
__device__ __forceinline__ void store_columns(float* y, int col, int end, float4 x) {
  if (inside(col, 4, end)) {
    store_float4(y + col, x);
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

/// The pair of the columns that a thread takes: four from `col` on, four from col + kStride on, ... Each of the four has
/// a pair of its own until the end, so that four merges are in flight at a time and none waits for another.
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
/// One change: a lane takes four columns per step, and has a pair (m, l) for each of them. That is a quarter of
/// the load and store instructions, and four independent chains of merges instead of one.
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
  const int lead = int(row * cols % 4);  // columns of the previous row in the 16 bytes where this one begins
  x += row * cols;
  y += row * cols;

  // Pass 1: in each step the lanes take 4 columns each, 512 neighbouring bytes.
  const MaxSum all = warp_reduce(merge_columns<4 * 32>(x, 4 * lane - lead, cols), merge);

  // Pass 2.
  const float inv_l = inverse_or_zero(all.l);
  for (int col = 4 * lane - lead; col < cols; col += 4 * 32) {
    store_columns(y, col, cols, probabilities(load_columns(x, col, cols), all.m, inv_l));
  }
}

/// Online softmax with a block on each row.
///
/// One change: the mapping, for rows that are few and long. The same merge() serves elements, lanes and warps.
///
///   grid    rows                     one block per row
///   block   kBlockThreads
///   shared  kWarps * 8 bytes         the pair of each warp
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

  // Pass 1: in each step the threads take 4 columns each.
  const MaxSum mine = merge_columns<4 * kBlockThreads>(x, 4 * thread - lead, cols);
  // EXERCISE 3: The threads hold the pairs of their parts. Merge them into the pair of the row, in every thread.
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
