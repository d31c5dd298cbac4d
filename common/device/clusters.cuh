/// @file
/// Clusters: blocks that run at the same time and can access each other's shared memory. Taught by chapter
/// 02.
///
/// The functions have the names of PTX. Like ptx.cuh, this is a place where GPU code differs from the
/// simulator's code, which has functions of the same names. Devices before sm_90 have no clusters; see
/// mma_m16n8k16_f16() in ptx.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "device/mbarrier.cuh"

#ifdef GPUSIM
#include <gpusim_cluster.h>
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

/// One half of the cluster's barrier: every thread of every block arrives once, and goes on at once. All 32
/// lanes of a warp execute it.
__device__ __forceinline__ void barrier_cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
  __trap();
#endif
}

/// The same for a thread that has nothing to publish: what it did before may become visible later. The other
/// one first waits until all of this thread's writes have reached the L2.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#else
  __trap();
#endif
}

/// The other half: waits until every thread of the cluster has arrived. What they did before they arrived is
/// done, and visible, unless the arrival was relaxed. Between the two halves a thread does not arrive again.
__device__ __forceinline__ void barrier_cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __trap();
#endif
}

/// The address of the same variable in another block of the cluster. It can be used like any other pointer,
/// until that block ends.
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

// --- mbarriers of other blocks ----------------------------------------------------------------------------
// mbarriers are those of mbarrier.cuh. Other blocks may use one when they have waited at a barrier of the
// cluster after its fence_mbarrier_init(), and until its block ends. Their pointers come from mapa().

/// Arrives at an mbarrier of any block of the cluster. What this thread did before is visible to those who
/// wait with mbarrier_wait_cluster().
__device__ __forceinline__ void mbarrier_arrive_cluster(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                   std::uint32_t(__cvta_generic_to_shared(barrier)))
               : "memory");
#else
  __trap();
#endif
}

/// The same for a thread that has only read: what it has written may become visible later. The other one
/// first waits until all of this thread's writes have reached the L2.
__device__ __forceinline__ void mbarrier_arrive_cluster_relaxed(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                   std::uint32_t(__cvta_generic_to_shared(barrier)))
               : "memory");
#else
  __trap();
#endif
}

/// mbarrier_wait() for an mbarrier of this block at which threads of other blocks arrive, or to which they
/// send bytes.
__device__ __forceinline__ void mbarrier_wait_cluster(std::uint64_t* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%0], %1;\n"
      "@!complete bra again;\n"
      "}" ::"r"(std::uint32_t(__cvta_generic_to_shared(barrier))),
      "r"(parity)
      : "memory");
#else
  __trap();
#endif
}

/// Sends a value of 4, 8 or 16 bytes to the shared memory of a block of the cluster, which may be the own
/// one, and does not wait until it is there. Its bytes count in the current phase of an mbarrier of that
/// block: whoever waits for this phase sees the value. The address is a multiple of the size.
template <class T>
__device__ __forceinline__ void st_async(T* s, const T& value, std::uint64_t* barrier) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
#if __CUDA_ARCH__ >= 900
  const auto to = std::uint32_t(__cvta_generic_to_shared(s));
  const auto mbar = std::uint32_t(__cvta_generic_to_shared(barrier));
  std::uint32_t v[sizeof(T) / 4];
  memcpy(v, &value, sizeof(T));
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
                 "r"(v[0]), "r"(mbar)
                 : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to),
        "r"(v[0]), "r"(v[1]), "r"(mbar)
        : "memory");
  } else {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::
            "r"(to),
        "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(mbar)
        : "memory");
  }
#else
  __trap();
#endif
}

/// Starts a copy of contiguous bytes from this block's shared memory to another block's: addresses and size
/// are multiples of 16. Its bytes count in the current phase of an mbarrier of that block. It reads what
/// ordinary stores have written only after fence_proxy_async(), and until that phase is complete.
__device__ __forceinline__ void bulk_copy_cluster(void* to, const void* from, int bytes,
                                                  std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          std::uint32_t(__cvta_generic_to_shared(to))),
      "r"(std::uint32_t(__cvta_generic_to_shared(from))), "r"(bytes),
      "r"(std::uint32_t(__cvta_generic_to_shared(barrier)))
      : "memory");
#else
  __trap();
#endif
}

}  // namespace fa::ptx

#endif
