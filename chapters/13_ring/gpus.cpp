#include "gpus.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace fa::ch13 {
namespace {

bool asks_nvlink = true;

}  // namespace

std::optional<Error> take_gpu(Ranks& ranks) {
  std::string found;
  std::optional<Error> why;
  int gpus = 0;
  cudaError_t error = cudaGetDeviceCount(&gpus);
  if (error == cudaSuccess && gpus > 0) error = cudaSetDevice(ranks.local_rank() % gpus);
  if (error != cudaSuccess) {
    why = {3, std::string("no usable CUDA device: ") + cudaGetErrorString(error)};
  } else {
    int device = 0;
    char bus[32] = {};
    cudaGetDevice(&device);
    cudaDeviceGetPCIBusId(bus, sizeof bus, device);
    found = ranks.host() + " " + bus;
  }
  const std::vector<std::string> all = ranks.all(found);
  for (int rank = 0; rank < ranks.rank() && !why; ++rank) {
    if (all[std::size_t(rank)] != found) continue;
    why = {3, "ranks " + std::to_string(rank) + " and " + std::to_string(ranks.rank()) + " of " +
                  ranks.host() + " would share a GPU: it has " + std::to_string(gpus) + " for " +
                  std::to_string(ranks.local_count()) + " ranks"};
  }
  return why;
}

void ignore_nvlink() { asks_nvlink = false; }

std::optional<std::int64_t> nvlink_sent_bytes() {
  if (!asks_nvlink) return std::nullopt;
  int device = 0;
  char bus[32] = {};
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess)
    return std::nullopt;
  const std::string command = std::string("nvidia-smi nvlink -gt d -i ") + bus + " 2>/dev/null";
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return std::nullopt;
  std::int64_t kibibytes = 0;
  bool counts = false;
  char line[256];
  while (std::fgets(line, sizeof line, output) != nullptr) {  // "Link 0: Data Tx: 4096 KiB"
    constexpr std::string_view kSent = "Data Tx:";
    const std::string_view text = line;
    const std::size_t place = text.find(kSent);
    if (place == text.npos || text.find("KiB") == text.npos) continue;
    kibibytes += std::strtoll(line + place + kSent.size(), nullptr, 10);
    counts = true;
  }
  pclose(output);
  return counts ? std::optional(kibibytes * 1024) : std::nullopt;
}

}  // namespace fa::ch13
