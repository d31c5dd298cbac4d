#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gpus.hpp"

namespace fa::ch13 {

std::optional<Complaint> take_gpu(Ranks& ranks) {
  std::string found;
  std::optional<Complaint> complaint;
  int gpus = 0;
  cudaError_t error = cudaGetDeviceCount(&gpus);
  if (error == cudaSuccess && gpus > 0) error = cudaSetDevice(ranks.local_rank() % gpus);
  if (error != cudaSuccess) {
    complaint = {3, std::string("no usable CUDA device: ") + cudaGetErrorString(error)};
  } else {
    int device = 0;
    char bus[32] = {};
    cudaGetDevice(&device);
    cudaDeviceGetPCIBusId(bus, sizeof bus, device);
    found = ranks.host() + " " + bus;
  }
  const std::vector<std::string> all = ranks.all(found);
  for (int rank = 0; rank < ranks.rank() && !complaint; ++rank) {
    if (all[std::size_t(rank)] != found) continue;
    complaint = {3, "ranks " + std::to_string(rank) + " and " + std::to_string(ranks.rank()) + " of " +
                        ranks.host() + " would share a GPU: it has " + std::to_string(gpus) + " for " +
                        std::to_string(ranks.local_count()) + " ranks"};
  }
  return complaint;
}

std::optional<std::int64_t> take_sent_bytes() { return std::nullopt; }

}  // namespace fa::ch13
