/// @file
/// Optional, for Hopper: softmax whose rows stay on several multiprocessors. No later chapter needs this
/// kernel.
///
/// Inputs, outputs and ragged edges are as in kernel.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "device/clusters.cuh"
#include "device/math.cuh"
#include "device/mbarrier.cuh"
#include "device/reduce.cuh"
#include "kernel.cuh"
#include "on_chip.cuh"

namespace fa::ch02 {

/// How `cluster` distributes a row: over the threads of a cluster of 2, 4 or 8 blocks. Every device that has
/// clusters can run such sizes.
template <int kBlocksOfCluster, int kThreadsOfBlock, int kFloat4sOfThread>
struct Clustered {
  static constexpr int kBlocks = kBlocksOfCluster;           ///< of the cluster
  static constexpr int kBlockThreads = kThreadsOfBlock;      ///< of each block
  static constexpr int kThreads = kBlocks * kBlockThreads;   ///< that share a row
  static constexpr int kFloat4s = kFloat4sOfThread;          ///< that each of them keeps in registers
  static constexpr int kBlocksPerSm = 1024 / kBlockThreads;  ///< leaves 64 registers per thread
};

/// Softmax of a row that stays on the chip, on up to 8 multiprocessors.
///
/// One change: the threads that share a row are those of a cluster. Each block merges the pairs of its
/// threads and sends the result to all blocks, into their shared memory; there every warp merges the pairs of
/// all blocks.
///
///   grid    rows * Row::kBlocks      one cluster per row
///   block   Row::kBlockThreads
///   shared  dynamic: shared_float4s * 16 bytes per thread; static: 8 bytes per warp, 8 per block of the
///           cluster, and 8
///   HBM     reads x once, writes y once: 2 * rows * cols * 4 bytes
///
/// @param x  [rows, cols] logits, with (row * cols % 4) + cols <= 4 * Row::kThreads * (Row::kFloat4s +
///   shared_float4s)
/// @param y  [rows, cols] probabilities
/// @param shared_float4s  how many float4s of the row each thread keeps in shared memory
template <class Row>
__global__ void __launch_bounds__(Row::kBlockThreads, Row::kBlocksPerSm)
    cluster_softmax(const float* __restrict__ x, float* __restrict__ y, int /*rows*/, int cols,
                    int shared_float4s) {
  constexpr int kStep = 4 * Row::kThreads;           // columns, if every thread takes one float4
  constexpr int kBatchCols = kStep * Row::kFloat4s;  // columns, if every thread takes one batch
  const int rank = ptx::cluster_ctarank();
  const int thread = rank * Row::kBlockThreads + threadIdx.x;  // its number in the cluster
  const size_t row = blockIdx.x / Row::kBlocks;
  const int lead = int(row * cols % 4);
  x += row * cols;
  y += row * cols;

  __shared__ __align__(8) MaxSum sBlocks[Row::kBlocks];  // the pairs of all blocks of the cluster, by rank
  __shared__ std::uint64_t full;  // an mbarrier: its phase ends when the bytes of all pairs are there
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);  // for the arrival below
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, sizeof(sBlocks));
  }
  __syncwarp();
  ptx::barrier_cluster_arrive_relaxed();  // this block has started; the fence has published its mbarrier

  extern __shared__ float4 smem[];
  float4* sX = smem + threadIdx.x;  // as in on_chip: this thread alone uses every kBlockThreads-th float4
  float4 rX[Row::kFloat4s];
  const int in_registers = 4 * thread - lead;
  const int in_shared = in_registers + kBatchCols;

  // Pass 1: the batch that is loaded last stays in the registers.
  MaxSum part = {-FLT_MAX, 0.0f};
  for (int s = 0; s < shared_float4s; s += Row::kFloat4s) {
    load_batch<Read::kAgain, kStep>(rX, x, in_shared + s * kStep, cols);
    part = merge(part, max_sum(rX));
    for (int k = 0; k < Row::kFloat4s && s + k < shared_float4s; ++k)
      sX[(s + k) * Row::kBlockThreads] = rX[k];
  }
  load_batch<Read::kAgain, kStep>(rX, x, in_registers, cols);
  part = merge(part, max_sum(rX));

  __shared__ MaxSum sPartial[Row::kBlockThreads / 32];
  const MaxSum of_block = block_reduce(part, merge, sPartial);  // in every thread
  ptx::barrier_cluster_wait();  // all blocks of the cluster have started and initialised their mbarriers
  // EXERCISE 6: Send of_block to all blocks of the cluster, and merge the pairs of all into `all`, in every thread.
  if (const int to = int(threadIdx.x); to < Row::kBlocks)
    ptx::st_async(&ptx::mapa(sBlocks, to)[rank], of_block, ptx::mapa(&full, to));
  ptx::mbarrier_wait_cluster(&full, 0);  // the pairs of all blocks are here, and no block ends before
  const MaxSum all = warp_reduce<Row::kBlocks>(sBlocks[threadIdx.x % Row::kBlocks], merge);
  // END 6

  // Pass 2.
  const float inv_l = inverse_or_zero(all.l);
  store_batch<kStep, Write::kUsual>(y, in_registers, cols, rX, all.m, inv_l);
  for (int s = 0; s < shared_float4s; s += Row::kFloat4s) {
    for (int k = 0; k < Row::kFloat4s && s + k < shared_float4s; ++k)
      rX[k] = sX[(s + k) * Row::kBlockThreads];
    store_batch<kStep, Write::kUsual>(y, in_shared + s * kStep, cols, rX, all.m, inv_l);
  }
}

}  // namespace fa::ch02
