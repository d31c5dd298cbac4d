/// @file
/// The instructions of thread-block clusters, as functions with similar names. They need a launch with the
/// attribute cudaLaunchAttributeClusterDimension.
#pragma once

#include <cstdint>

#include "cuda_runtime.h"
#include "gpusim/runtime/device_hopper.hpp"

namespace gpusim::ptx {

/// %cluster_ctarank
GPUSIM_INLINE int cluster_ctarank() { return device::cluster_rank(); }

/// barrier.cluster.arrive.release.aligned
GPUSIM_INLINE void barrier_cluster_arrive() { device::cluster_arrive(false); }

/// barrier.cluster.arrive.relaxed.aligned
GPUSIM_INLINE void barrier_cluster_arrive_relaxed() { device::cluster_arrive(true); }

/// barrier.cluster.wait.acquire.aligned
GPUSIM_INLINE void barrier_cluster_wait() { device::cluster_wait(); }

/// mapa.u64
template <class T>
GPUSIM_INLINE T* mapa(T* s, int rank) {
  return static_cast<T*>(device::map_shared_rank(s, rank));
}

/// mbarrier.arrive.release.cluster.shared::cluster
GPUSIM_INLINE void mbarrier_arrive_cluster(std::uint64_t* barrier) {
  device::mbarrier_arrive_cluster(barrier, false);
}

/// mbarrier.arrive.relaxed.cluster.shared::cluster
GPUSIM_INLINE void mbarrier_arrive_cluster_relaxed(std::uint64_t* barrier) {
  device::mbarrier_arrive_cluster(barrier, true);
}

/// mbarrier.try_wait.parity.acquire.cluster, until it succeeds
GPUSIM_INLINE void mbarrier_wait_cluster(std::uint64_t* barrier, int parity) {
  device::mbarrier_wait_cluster(barrier, parity);
}

/// st.async, of 4, 8 or 16 bytes
template <class T>
GPUSIM_INLINE void st_async(T* s, const T& value, std::uint64_t* barrier) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  device::store_async(s, &value, sizeof(T), barrier);
}

/// cp.async.bulk, from shared memory to that of another block
GPUSIM_INLINE void bulk_copy_cluster(void* to, const void* from, int bytes, std::uint64_t* barrier) {
  device::bulk_copy_cluster(to, from, bytes, barrier);
}

}  // namespace gpusim::ptx
