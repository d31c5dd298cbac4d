/// @file
/// A rank's GPU: its streams, and NCCL's communicators.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <vector>

#include "execute.hpp"
#include "harness/device_buffer.hpp"
#include "methods.hpp"

namespace fa::ch13 {

/// Streams and communicators live as long as the process: another rank's error must not wait for them.
class Device {
 public:
  /// The same one for all runs of a process.
  static const Device& instance();

  /// Where a method runs.
  Streams streams(const Method& method, int head_start_us) const;

  /// What is enqueued from now on begins when all ranks have come here.
  void meet() const;

  /// Waits for the kernels' stream, and ends all ranks if a transfer fails or nothing moves.
  void wait() const;

  /// This rank has enqueued its last transfer. The simulator then waits for all ranks, and finds one that
  /// waits for a transfer that nobody makes. A GPU has nothing to gather here.
  static void end_transfers(ncclComm_t comm);

  cudaStream_t kernels() const { return kernels_; }

 private:
  Device();

  /// @param channels  0: as many as NCCL wants
  static ncclComm_t communicator(int channels);

  cudaStream_t kernels_ = nullptr, transfers_ = nullptr, first_ = nullptr;
  std::vector<cudaStream_t> lanes_;
  ncclComm_t plain_ = nullptr, wide_ = nullptr;
  static constexpr std::size_t kMeetingBytes = 16;  // of each rank
  DeviceBuffer meeting_;
};

}  // namespace fa::ch13
