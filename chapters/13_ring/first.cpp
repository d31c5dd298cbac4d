/// @file
/// A whole program with NCCL: rank 0's keys go from each rank to the next one, from GPU to GPU.
///
///   mpirun --quiet -n 4 build/sim/bin/first_ring
#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "device/launch.cuh"
#include "nccl.hpp"

/// What each rank does. @return  its exit status
int run(int argc, char** argv) {
  constexpr int kKeys = 1024;
  int rank = 0, ranks = 1, gpus = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  FA_CUDA_CHECK(cudaGetDeviceCount(&gpus));
  FA_CUDA_CHECK(cudaSetDevice(rank % gpus));

  // Rank 0 makes a number that all ranks need to find each other. MPI carries it to them.
  ncclUniqueId id;
  if (rank == 0) FA_NCCL_CHECK(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm = nullptr;
  FA_NCCL_CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  cudaStream_t stream = nullptr;
  FA_CUDA_CHECK(cudaStreamCreate(&stream));

  std::vector<float> keys(kKeys, rank == 0 ? 42.0f : 0.0f);
  float* gKeys = nullptr;
  FA_CUDA_CHECK(cudaMalloc(&gKeys, sizeof(float) * kKeys));
  FA_CUDA_CHECK(cudaMemcpy(gKeys, keys.data(), sizeof(float) * kKeys, cudaMemcpyHostToDevice));

  // Both calls only enqueue a transfer. In a stream, the second one begins when the first is complete.
  if (rank > 0) FA_NCCL_CHECK(ncclRecv(gKeys, kKeys, ncclFloat32, rank - 1, comm, stream));
  if (rank + 1 < ranks) FA_NCCL_CHECK(ncclSend(gKeys, kKeys, ncclFloat32, rank + 1, comm, stream));
  FA_CUDA_CHECK(cudaStreamSynchronize(stream));

  FA_CUDA_CHECK(cudaMemcpy(keys.data(), gKeys, sizeof(float) * kKeys, cudaMemcpyDeviceToHost));
  int right = 1, all_right = 0;
  for (const float key : keys) right &= key == 42.0f;
  MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d of %d ranks have the keys of rank 0\n", all_right, ranks);

  FA_CUDA_CHECK(cudaFree(gKeys));
  FA_CUDA_CHECK(cudaStreamDestroy(stream));
  FA_NCCL_CHECK(ncclCommDestroy(comm));
  MPI_Finalize();
  return all_right == ranks ? 0 : 1;
}

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;  // without MPI_Finalize(): mpirun ends all ranks
  }
}
