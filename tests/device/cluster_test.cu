// Clusters, on a GPU and on the simulator: launches, ranks, the barrier, and the shared memory of other
// blocks.

#include "device/clusters.cuh"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "device/launch.cuh"
#include "device_vector.hpp"

namespace fa::cluster_test {

/// out[block] = 1000 * its rank + the sum of in over its cluster.
__global__ void sums(const float* in, float* out, int blocks) {
  __shared__ float sMine;
  if (threadIdx.x == 0) sMine = in[blockIdx.x];
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  float sum = 0.0f;
  for (int rank = 0; rank < blocks; ++rank) sum += *ptx::mapa(&sMine, rank);
  ptx::barrier_cluster_arrive();
  if (threadIdx.x == 0) out[blockIdx.x] = 1000.0f * float(ptx::cluster_ctarank()) + sum;
  ptx::barrier_cluster_wait();
}

TEST(Cluster, BlocksReadEachOthersSharedMemory) {
  if (compute_capability() < 90) GTEST_SKIP() << "clusters need compute capability 9.0";
  for (const unsigned size : {1u, 2u, 4u, 8u}) {
    const unsigned blocks = 5 * size;
    std::vector<float> values(blocks);
    for (unsigned i = 0; i < blocks; ++i) values[i] = float(i);
    DeviceVector<float> in(values), out(blocks);
    launch_clusters(sums, size, blocks, 64, 0, nullptr, in.get(), out.get(), int(size));
    const std::vector<float> seen = out.host();
    for (unsigned i = 0; i < blocks; ++i) {
      const unsigned first = i / size * size;
      EXPECT_EQ(seen[i], float(1000 * (i % size) + size * first + size * (size - 1) / 2))
          << "block " << i << " of clusters of " << size;
    }
  }
}

TEST(Cluster, LaunchesThatNoDeviceAccepts) {
  if (compute_capability() < 90) GTEST_SKIP() << "clusters need compute capability 9.0";
  DeviceVector<float> in(32), out(32);
  for (const auto& [cluster, grid] : {std::pair{3u, 8u}, std::pair{8u, 4u}, std::pair{32u, 32u}}) {
    EXPECT_THROW(launch_clusters(sums, cluster, grid, 64, 0, nullptr, in.get(), out.get(), 1), CudaError)
        << grid << " blocks in clusters of " << cluster;
    cudaGetLastError();
  }
}

}  // namespace fa::cluster_test
