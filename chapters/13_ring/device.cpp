#include "device.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "device/launch.cuh"
#include "nccl.hpp"
#include "ranks.hpp"

namespace fa::ch13 {

const Device& Device::instance() {
  static const Device device;
  return device;
}

Device::Device() : meeting_("meeting", kMeetingBytes * std::size_t(Ranks::instance().count())) {
  int least = 0, greatest = 0;
  FA_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  FA_CUDA_CHECK(cudaStreamCreateWithPriority(&kernels_, cudaStreamNonBlocking, least));
  for (int priority = std::min(greatest + 1, least); priority <= least; ++priority)
    FA_CUDA_CHECK(cudaStreamCreateWithPriority(&lanes_.emplace_back(), cudaStreamNonBlocking, priority));
  FA_CUDA_CHECK(cudaStreamCreateWithPriority(&transfers_, cudaStreamNonBlocking, least));
  FA_CUDA_CHECK(cudaStreamCreateWithPriority(&first_, cudaStreamNonBlocking, greatest));
  plain_ = communicator(0);
  wide_ = communicator(32);
  meeting_.poison();
}

Streams Device::streams(const Method& method, int head_start_us) const {
  return {.kernels = kernels_,
          .transfers = method.has_changes() ? first_ : transfers_,
          .lanes = lanes_,
          .comm = method.has_changes() ? wide_ : plain_,
          .head_start_us = head_start_us};
}

void Device::meet() const {
  auto* const all = static_cast<std::byte*>(meeting_.get());
  const std::byte* const mine = all + std::size_t(Ranks::instance().rank()) * kMeetingBytes;
  FA_NCCL_CHECK(ncclAllGather(mine, all, kMeetingBytes, ncclUint8, plain_, kernels_));
}

void Device::end_transfers(ncclComm_t comm) {
  const Device& device = instance();
  void* const none = device.meeting_.get();
  FA_NCCL_CHECK(ncclAllGather(none, none, 0, ncclUint8, comm, device.kernels_));
}

void Device::wait() const {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    const cudaError_t status = cudaStreamQuery(kernels_);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) FA_CUDA_CHECK(status);
    for (ncclComm_t comm : {plain_, wide_}) {
      ncclResult_t error = ncclSuccess;
      if (comm != nullptr) FA_NCCL_CHECK(ncclCommGetAsyncError(comm, &error));
      if (error != ncclSuccess) FA_NCCL_CHECK(error);
    }
    if (Clock::now() - begin > std::chrono::seconds(60))
      throw std::runtime_error("nothing has moved for 60 s: a rank waits for a transfer that nobody makes");
  }
}

ncclComm_t Device::communicator(int channels) {
  Ranks& ranks = Ranks::instance();
  ncclUniqueId id = {};
  if (ranks.rank() == 0) FA_NCCL_CHECK(ncclGetUniqueId(&id));
  ranks.broadcast(&id, sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (channels > 0) config.minCTAs = config.maxCTAs = channels;
  ncclComm_t comm = nullptr;
  FA_NCCL_CHECK(ncclCommInitRankConfig(&comm, ranks.count(), id, ranks.rank(), &config));
  return comm;
}

}  // namespace fa::ch13
