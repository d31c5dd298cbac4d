#include <cuda_runtime.h>

#include <string>

#include "gpus.hpp"

namespace fa::ch13 {

std::optional<Complaint> take_gpu(const Ranks& ranks) {
  int gpus = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&gpus); error != cudaSuccess)
    return Complaint{3, std::string("no usable CUDA device: ") + cudaGetErrorString(error)};
  if (ranks.local_rank() >= gpus) {
    return Complaint{3, std::to_string(ranks.local_count()) + " ranks on " + ranks.host() + ", which has " +
                            std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
                            ": start at most one rank per GPU"};
  }
  if (const cudaError_t error = cudaSetDevice(ranks.local_rank()); error != cudaSuccess)
    return Complaint{
        3, std::string("GPU ") + std::to_string(ranks.local_rank()) + ": " + cudaGetErrorString(error)};
  return std::nullopt;
}

std::optional<std::int64_t> take_sent_bytes() { return std::nullopt; }

}  // namespace fa::ch13
