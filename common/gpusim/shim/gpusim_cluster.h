/// @file
/// The instructions of thread-block clusters, as functions with similar names. They need a launch with the attribute
/// cudaLaunchAttributeClusterDimension.
#pragma once

#include "cuda_runtime.h"

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

}  // namespace gpusim::ptx
