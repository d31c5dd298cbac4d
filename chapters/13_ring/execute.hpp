/// @file
/// Enqueues a plan.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <vector>

#include "attend.hpp"
#include "buffers.hpp"
#include "operations.hpp"

namespace fa::ch13 {

/// Where a plan runs.
struct Streams {
  cudaStream_t kernels;             ///< of lane 0
  cudaStream_t transfers;           ///< between GPUs
  std::vector<cudaStream_t> lanes;  ///< of falling priority
  ncclComm_t comm;
  int head_start_us;  ///< in microseconds; 0: transfers and kernels come as they like

  int count() const { return 2 + int(lanes.size()); }
  /// The number of a lane's stream. After the last one comes the first one again.
  int number_of(int lane) const {
    return lane == kTransfers ? 1 : lane == 0 ? 0 : 2 + (lane - 1) % int(lanes.size());
  }
  cudaStream_t stream(int number) const {
    return number == 0 ? kernels : number == 1 ? transfers : lanes[std::size_t(number) - 2];
  }
};

/// A plan that can be enqueued again and again.
class Execution {
 public:
  /// All of these must live as long as the execution.
  Execution(const Plan& plan, const AttentionShape& whole, const Engine& engine, const Buffers& buffers,
            const Streams& streams);
  ~Execution();
  Execution(Execution&&) noexcept;

  /// Enqueues the plan: it begins when the stream of lane 0 gets there, which then waits for its end.
  /// @param after_transfers  called after the transfers of a step have been enqueued
  void enqueue(const std::function<void()>& after_transfers) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fa::ch13
