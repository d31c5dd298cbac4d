/// @file
/// Clusters: blocks that run at the same time and can access each other's shared memory. Taught by chapter 02.
///
/// The functions have the names of PTX. Like ptx.cuh, this is a place where GPU code differs from the simulator's code,
/// which has functions of the same names. Devices before sm_90 have no clusters; see mma_m16n8k16_f16() in ptx.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifdef GPUSIM
#include <gpusim_cluster.h>
namespace fa {
namespace ptx = gpusim::ptx;
}
#else

namespace fa::ptx {

/// The number of this block in its cluster, from 0 on.
__device__ __forceinline__ int cluster_ctarank() {
#if __CUDA_ARCH__ >= 900
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return int(rank);
#else
  __trap();
  return 0;
#endif
}

/// One half of the cluster's barrier: every thread of every block arrives once, and goes on at once. All 32 lanes of a warp
/// execute it.
__device__ __forceinline__ void barrier_cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
  __trap();
#endif
}

/// The same for a thread that has nothing to publish: what it did before may become visible later. The other one first waits
/// until all of this thread's writes have reached the L2.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#else
  __trap();
#endif
}

/// The other half: waits until every thread of the cluster has arrived. What they did before they arrived is done, and
/// visible, unless the arrival was relaxed. Between the two halves a thread does not arrive again.
__device__ __forceinline__ void barrier_cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __trap();
#endif
}

/// The address of the same variable in another block of the cluster. It can be used like any other pointer, until that
/// block ends.
///
/// @param s  in this block's shared memory
template <class T>
__device__ __forceinline__ T* mapa(T* s, int rank) {
#if __CUDA_ARCH__ >= 900
  std::uint64_t address;
  asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(s), "r"(rank));
  return reinterpret_cast<T*>(address);
#else
  __trap();
  return s;
#endif
}

}  // namespace fa::ptx

#endif
