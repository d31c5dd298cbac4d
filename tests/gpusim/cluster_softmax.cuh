/// @file
/// Chapter 02's cluster_softmax with st.async: the blocks of a cluster send their pairs to an mbarrier's phase instead of
/// meeting at the cluster's barrier a second time. nvcc compiles it for sm_90a.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

#include "../../chapters/02_online_softmax/cluster.cuh"
#include "device/clusters.cuh"
#include "device/hopper.cuh"

namespace gpusim_test {

/// y[r, c] = exp(x[r, c] - m_r) / l_r. The row stays in registers.
///
///   grid    rows * Row::kBlocks      one cluster per row
///   block   Row::kBlockThreads
///   shared  static: 8 bytes per warp, 8 per block of the cluster, 8 for the mbarrier
///   HBM     reads x once, writes y once: 2 * rows * cols * 4 bytes
///
/// @param x  [rows, cols], with (row * cols % 4) + cols <= 4 * Row::kThreads * Row::kFloat4s
template <class Row>
__global__ void __launch_bounds__(Row::kBlockThreads)
    cluster_softmax_async(const float* __restrict__ x, float* __restrict__ y, int cols) {
  using namespace fa;
  using namespace fa::ch02;
  constexpr int kStep = 4 * Row::kThreads;
  const int rank = fa::ptx::cluster_ctarank();
  const size_t row = blockIdx.x / Row::kBlocks;
  const int col = 4 * int(rank * Row::kBlockThreads + threadIdx.x) - int(row * cols % 4);
  x += row * cols;
  y += row * cols;

  __shared__ __align__(8) MaxSum sBlocks[Row::kBlocks];  // the pairs of all blocks of the cluster, by rank
  __shared__ std::uint64_t full;                         // which are all here
  if (threadIdx.x == 0) {
    fa::ptx::mbarrier_init(&full, 1);
    fa::ptx::fence_mbarrier_init();
    fa::ptx::mbarrier_arrive_expect_tx(&full, sizeof(sBlocks));
  }
  __syncwarp();
  fa::ptx::barrier_cluster_arrive_relaxed();  // the fence has published the mbarrier

  float4 rX[Row::kFloat4s];
  load_batch<Read::kAgain, kStep>(rX, x, col, cols);
  __shared__ MaxSum sPartial[Row::kBlockThreads / 32];
  const MaxSum of_block = block_reduce(max_sum(rX), merge, sPartial);  // in every thread
  fa::ptx::barrier_cluster_wait();  // the mbarriers of all blocks are there
  if (threadIdx.x < Row::kBlocks) {
    const int to = int(threadIdx.x);
    fa::ptx::st_async(&fa::ptx::mapa(sBlocks, to)[rank], of_block, fa::ptx::mapa(&full, to));
  }
  fa::ptx::mbarrier_wait_cluster(&full, 0);  // no block ends before all pairs have reached it
  const MaxSum all = warp_reduce<Row::kBlocks>(sBlocks[threadIdx.x % Row::kBlocks], merge);
  store_batch<kStep, Write::kUsual>(y, col, cols, rX, all.m, inverse_or_zero(all.l));
}

}  // namespace gpusim_test
