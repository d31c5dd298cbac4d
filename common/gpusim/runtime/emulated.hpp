/// @file
/// The device that the simulator emulates: GPUSIM_DEVICE names it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace gpusim {

/// What CUDA says about a device. All of them have 64 Ki registers and 1024 threads in the largest block.
struct EmulatedDevice {
  const char* key;         ///< the value of GPUSIM_DEVICE: "rtx4090"
  const char* name;        ///< "GeForce RTX 4090"
  int compute_capability;  ///< 89 for 8.9
  int multiprocessors;
  int shared_kib_per_block;  ///< the most that a block may have
  int shared_kib_per_multiprocessor;
  int threads_per_multiprocessor;
  int l2_mib;
  int clock_mhz, memory_clock_mhz, memory_bus_bits;

  std::size_t shared_bytes_per_block() const { return std::size_t(shared_kib_per_block) * 1024; }
  int blocks_per_multiprocessor() const {
    switch (compute_capability) {
      case 75:
      case 86: return 16;
      case 89:
      case 120: return 24;
      default: return 32;
    }
  }
};

/// The device that GPUSIM_DEVICE names, or an H100. If there is no such device, the program says so and ends
/// with status 2.
const EmulatedDevice& emulated_device();

}  // namespace gpusim
