/// @file
/// Optional: softmax whose rows stay on the chip. No later chapter needs this kernel.
///
/// Inputs, outputs and ragged edges are as in kernel.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

#include "device/math.cuh"
#include "device/reduce.cuh"
#include "kernel.cuh"

namespace fa::ch02 {

/// How `on_chip` distributes a row over threads. The longer the row, the more threads share it. A thread that
/// has 64 registers can keep 32 floats in them, and a multiprocessor has enough registers for 1024 such
/// threads.
template <int kThreadsOfRow, int kFloat4sOfThread>
struct OnChip {
  static constexpr int kThreads = kThreadsOfRow;                  ///< that share a row: a warp or a block
  static constexpr int kFloat4s = kFloat4sOfThread;               ///< that each thread keeps in registers
  static constexpr int kRowsPerBlock = kThreads == 32 ? 4 : 1;    ///< four warps with a row each, or one row
  static constexpr int kBlockThreads = kThreads * kRowsPerBlock;  ///< 64 to 1024
  static constexpr int kBlocksPerSm = 1024 / kBlockThreads;       ///< leaves 64 registers per thread
  static constexpr bool kUsesShared = kThreads >= 512;            ///< for what the registers cannot hold
  static constexpr Read kRead =
      kThreads == 1024 ? Read::kLast : Read::kAgain;  ///< the longest rows need room in the L2
};

/// Loads a batch: kFloat4s float4s per thread. The first starts at column `col`, and they are kStride columns
/// apart. If the whole batch is inside the row, no branch separates the loads: 8 float4s in each of 1024
/// threads are 128 KiB in flight.
template <Read kRead, int kStride, int kFloat4s>
__device__ __forceinline__ void load_batch(float4 (&rX)[kFloat4s], const float* x, int col, int end) {
  if (inside(col, (kFloat4s - 1) * kStride + 4, end)) {
    for (int k = 0; k < kFloat4s; ++k) rX[k] = load_float4<kRead>(x + col + k * kStride);
  } else {
    for (int k = 0; k < kFloat4s; ++k) rX[k] = load_columns<kRead>(x, col + k * kStride, end);
  }
}

/// Stores the probabilities of a batch, which load_batch() loaded from the same columns.
template <int kStride, Write kWrite = Write::kEvictFirst, int kFloat4s>
__device__ __forceinline__ void store_batch(float* y, int col, int end, const float4 (&rX)[kFloat4s], float m,
                                            float inv_l) {
  if (inside(col, (kFloat4s - 1) * kStride + 4, end)) {
    for (int k = 0; k < kFloat4s; ++k)
      store_float4<kWrite>(y + col + k * kStride, probabilities(rX[k], m, inv_l));
  } else {
    for (int k = 0; k < kFloat4s; ++k)
      store_columns<kWrite>(y, col + k * kStride, end, probabilities(rX[k], m, inv_l));
  }
}

/// The pair (m, l) of the values that a thread holds: first their maximum, then the sum relative to it.
/// Reading registers twice is free, and each value costs one exp() here instead of two in merge().
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
/// shared memory. Only the rest of a very long row is read a second time. An H100 keeps 90112 of 131072
/// columns. With one row on each of its 132 multiprocessors, the rest is 22 MB, which may still be in the L2
/// of 50 MB.
///
///   grid    ceil(rows / Row::kRowsPerBlock)
///   block   Row::kBlockThreads
///   shared  dynamic: shared_float4s * 16 bytes per thread; static: 8 bytes per warp where a block has one
///           row
///   HBM     reads x once, writes y once: 2 * rows * cols * 4 bytes, and 4 more for each column that does not
///           fit on the chip: on_chip_reread() in chapter.cu counts these
///
/// @param x  [rows, cols] logits          @param y  [rows, cols] probabilities
/// @param shared_float4s  how many float4s of the row each thread keeps in shared memory; 0 unless
///   Row::kUsesShared
template <class Row>
__global__ void __launch_bounds__(Row::kBlockThreads, Row::kBlocksPerSm)
    on_chip_softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols,
                    int shared_float4s) {
  constexpr int kStep = 4 * Row::kThreads;           // columns, if every thread takes one float4
  constexpr int kBatchCols = kStep * Row::kFloat4s;  // columns, if every thread takes one batch
  const int thread = threadIdx.x % Row::kThreads;
  const size_t row = size_t(blockIdx.x) * Row::kRowsPerBlock + threadIdx.x / Row::kThreads;
  if (row >= size_t(rows)) return;  // a whole warp returns, and only if no barrier follows
  const int lead = int(row * cols % 4);
  x += row * cols;
  y += row * cols;

  extern __shared__ float4 smem[];
  float4* sX = smem + thread;  // this thread alone uses every kThreads-th float4 from here: no barrier
  float4 rX[Row::kFloat4s];

  // This thread's first column in registers, in shared memory, and in the rest, which is read again.
  const int in_registers = 4 * thread - lead;
  const int in_shared = in_registers + kBatchCols;
  const int in_rest = in_shared + shared_float4s * kStep;

  // Pass 1 begins with the end of the row: the batch that is loaded last stays in the registers.
  MaxSum part = {-FLT_MAX, 0.0f};
  if constexpr (Row::kUsesShared) {
    for (int col = in_rest; col < cols; col += kBatchCols) {
      load_batch<Read::kAgain, kStep>(rX, x, col, cols);
      part = merge(part, max_sum(rX));
    }
    const int end = min(in_rest - 4 * thread, cols);
    for (int s = 0; s < shared_float4s; s += Row::kFloat4s) {
      load_batch<Row::kRead, kStep>(rX, x, in_shared + s * kStep, end);
      part = merge(part, max_sum(rX));
      for (int k = 0; k < Row::kFloat4s && s + k < shared_float4s; ++k) sX[(s + k) * Row::kThreads] = rX[k];
    }
  }
  load_batch<Row::kRead, kStep>(rX, x, in_registers, cols);
  part = merge(part, max_sum(rX));

  MaxSum all;
  if constexpr (Row::kThreads == 32) {
    all = warp_reduce(part, merge);
  } else {
    __shared__ MaxSum sPartial[Row::kThreads / 32];
    all = block_reduce(part, merge, sPartial);
  }

  // Pass 2, from the start of the row to its end.
  const float inv_l = inverse_or_zero(all.l);
  // EXERCISE 5: Store the probabilities of all columns. Read only those again that are not on the chip.
  store_batch<kStep>(y, in_registers, cols, rX, all.m, inv_l);
  if constexpr (Row::kUsesShared) {
    for (int s = 0; s < shared_float4s; ++s) {
      store_columns(y, in_shared + s * kStep, cols, probabilities(sX[s * Row::kThreads], all.m, inv_l));
    }
    for (int col = in_rest; col < cols; col += kBatchCols) {
      load_batch<Read::kLast, kStep>(rX, x, col, cols);
      store_batch<kStep>(y, col, cols, rX, all.m, inv_l);
    }
  }
  // END 5
}

}  // namespace fa::ch02
