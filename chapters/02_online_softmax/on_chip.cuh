/// @file
/// Optional: softmax whose rows never leave the chip. No later chapter needs what this kernel does.
///
/// The rows are those of kernel.cuh, and so are the edges.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

#include "device/math.cuh"
#include "device/reduce.cuh"
#include "kernel.cuh"

namespace fa::ch02 {

/// How `on_chip` splits a row between threads. The longer the row, the more threads share it: each can hold 32
/// floats in registers if it has 64 of them, and then 1024 threads fit a multiprocessor.
template <int kThreadsOfRow, int kFloat4sOfThread>
struct OnChip {
  static constexpr int kThreads = kThreadsOfRow;                  ///< that share a row: a warp, or a block
  static constexpr int kFloat4s = kFloat4sOfThread;               ///< that each of them keeps in registers
  static constexpr int kRowsPerBlock = kThreads == 32 ? 4 : 1;    ///< four warps, or a row
  static constexpr int kBlockThreads = kThreads * kRowsPerBlock;  ///< 64 to 1024
  static constexpr int kBlocksPerSm = 1024 / kBlockThreads;       ///< leaves 64 registers for a thread
  static constexpr bool kUsesShared = kThreads >= 512;            ///< for what the registers cannot hold
};

/// Loads a batch: kFloat4s float4s for each thread, kStride columns apart, from column `col` on. If the whole batch
/// is inside the row, no branch separates the loads: 8 float4s in each of 1024 threads are 128 KiB in flight.
template <Read kRead, int kStride, int kFloat4s>
__device__ __forceinline__ void load_batch(float4 (&rX)[kFloat4s], const float* x, int col, int end) {
  if (inside(col, (kFloat4s - 1) * kStride + 4, end)) {
    for (int k = 0; k < kFloat4s; ++k) rX[k] = load_float4<kRead>(x + col + k * kStride);
  } else {
    for (int k = 0; k < kFloat4s; ++k) rX[k] = load_columns<kRead>(x, col + k * kStride, end);
  }
}

/// Writes the probabilities of a batch, in the same way.
template <int kStride, int kFloat4s>
__device__ __forceinline__ void store_batch(float* y, int col, int end, const float4 (&rX)[kFloat4s], float m,
                                            float inv_l) {
  if (inside(col, (kFloat4s - 1) * kStride + 4, end)) {
    for (int k = 0; k < kFloat4s; ++k) store_float4(y + col + k * kStride, probabilities(rX[k], m, inv_l));
  } else {
    for (int k = 0; k < kFloat4s; ++k)
      store_columns(y, col + k * kStride, end, probabilities(rX[k], m, inv_l));
  }
}

/// The pair of the values that a thread holds: their maximum first, then the sum against it. Reading registers
/// twice is free, and a value costs one exp() here, where merge() would take two.
template <int kFloat4s>
__device__ __forceinline__ MaxSum max_sum(const float4 (&rX)[kFloat4s]) {
  MaxSum part = {-FLT_MAX, 0.0f};
  // EXERCISE 4: Find the maximum of the values in rX[0] .. rX[kFloat4s - 1], then the sum of exp(x - maximum).
  for (int k = 0; k < kFloat4s; ++k) {
    part.m = fmaxf(part.m, fmaxf(fmaxf(rX[k].x, rX[k].y), fmaxf(rX[k].z, rX[k].w)));
  }
  for (int k = 0; k < kFloat4s; ++k) {
    const float4 e = exp_minus(rX[k], part.m);
    part.l += (e.x + e.y) + (e.z + e.w);
  }
  // END 4
  return part;
}

/// Softmax of a row that stays on the chip between the two passes.
///
/// One change: pass 2 finds the row where pass 1 left it, the first columns in registers, the next ones in
/// shared memory. Only the rest of a very long row is read a second time. Of 131072 columns an H100 keeps
/// 90112; its 132 multiprocessors together read 22 MB again, which can still be in their L2 of 50 MB.
///
///   grid    ceil(rows / Row::kRowsPerBlock)
///   block   Row::kBlockThreads
///   shared  16 bytes per thread and shared float4 (dynamic); 8 bytes per warp where a block has one row
///   HBM     reads x once, writes y once: 2 * rows * cols * 4 bytes, and 4 more for each column that does not
///           fit: on_chip_reread() in chapter.cu counts these
///
/// @param x  [rows, cols] logits          @param y  [rows, cols] probabilities
/// @param shared_float4s  of the row, that a thread keeps in shared memory; 0 unless Row::kUsesShared
template <class Row>
__global__ void __launch_bounds__(Row::kBlockThreads, Row::kBlocksPerSm)
    on_chip_softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols,
                    int shared_float4s) {
  constexpr int kStep = 4 * Row::kThreads;           // columns of one float4 of every thread,
  constexpr int kBatchCols = kStep * Row::kFloat4s;  // and of one batch of every thread
  const int thread = threadIdx.x % Row::kThreads;
  const size_t row = size_t(blockIdx.x) * Row::kRowsPerBlock + threadIdx.x / Row::kThreads;
  if (row >= size_t(rows)) return;  // a whole warp, and only where no barrier follows
  const int lead = int(row * cols % 4);
  x += row * cols;
  y += row * cols;

  extern __shared__ float4 smem[];
  float4* sX = smem + thread;  // every kThreads-th float4 from here on is this thread's alone: no barrier
  float4 rX[Row::kFloat4s];

  // The first column that this thread keeps in registers, in shared memory, and not at all.
  const int in_registers = 4 * thread - lead;
  const int in_shared = in_registers + kBatchCols;
  const int in_rest = in_shared + shared_float4s * kStep;

  // Pass 1, from the end of the row to its beginning: the batch that is loaded last stays in the registers.
  MaxSum part = {-FLT_MAX, 0.0f};
  if constexpr (Row::kUsesShared) {
    for (int col = in_rest; col < cols; col += kBatchCols) {
      load_batch<Read::kAgain, kStep>(rX, x, col, cols);
      part = merge(part, max_sum(rX));
    }
    const int end = min(in_rest - 4 * thread, cols);
    for (int s = 0; s < shared_float4s; s += Row::kFloat4s) {
      load_batch<Read::kLast, kStep>(rX, x, in_shared + s * kStep, end);
      part = merge(part, max_sum(rX));
      for (int k = 0; k < Row::kFloat4s && s + k < shared_float4s; ++k) sX[(s + k) * Row::kThreads] = rX[k];
    }
  }
  load_batch<Read::kLast, kStep>(rX, x, in_registers, cols);
  part = merge(part, max_sum(rX));

  MaxSum all;
  if constexpr (Row::kThreads == 32) {
    all = warp_reduce(part, merge);
  } else {
    __shared__ MaxSum sPartial[Row::kThreads / 32];
    all = block_reduce(part, merge, sPartial);
  }

  // Pass 2, from the beginning to the end.
  const float inv_l = inverse_or_zero(all.l);
  // EXERCISE 5: Write the probabilities of the columns that are still in registers. x is not read again.
  store_batch<kStep>(y, in_registers, cols, rX, all.m, inv_l);
  // END 5
  if constexpr (Row::kUsesShared) {
    for (int s = 0; s < shared_float4s; ++s) {
      store_columns(y, in_shared + s * kStep, cols, probabilities(sX[s * Row::kThreads], all.m, inv_l));
    }
    for (int col = in_rest; col < cols; col += kBatchCols) {
      load_batch<Read::kLast, kStep>(rX, x, col, cols);
      store_batch<kStep>(y, col, cols, rX, all.m, inv_l);
    }
  }
}

}  // namespace fa::ch02
