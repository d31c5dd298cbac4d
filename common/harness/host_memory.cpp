#include "harness/host_memory.hpp"

#include <fmt/format.h>

#include <fstream>

#include "harness/errors.hpp"
#include "harness/text.hpp"

namespace fa {

std::optional<double> available_host_bytes() {
  std::ifstream meminfo("/proc/meminfo");  // "MemAvailable:   23456789 kB"
  std::string key, unit;
  double kib = 0;
  while (meminfo >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(meminfo, unit);
  }
  return std::nullopt;
}

void require_host_memory(const std::string& options, double bytes) {
  const std::optional<double> available = available_host_bytes();
  if (!available || bytes <= *available) return;
  throw UsageError(fmt::format("{}: needs {} of memory, {} is available: choose smaller sizes", options,
                               in_bytes(bytes), in_bytes(*available)));
}

}  // namespace fa
