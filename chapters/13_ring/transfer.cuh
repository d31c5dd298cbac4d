/// @file
/// Data for other ranks.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <vector>

#include "nccl.hpp"

namespace fa::ch13 {

/// Bytes that leave for another rank, or arrive from one.
struct Message {
  void* address;
  std::size_t bytes;
  int peer;
};

/// Enqueues the messages of a step at once. They are complete together.
inline void transfer(const std::vector<Message>& leaving, const std::vector<Message>& arriving,
                     ncclComm_t comm, cudaStream_t stream) {
  // EXERCISE 3: Send what is leaving, each message to its peer, and receive what is arriving, each from its peer, on `stream`. No rank may wait for another one.
  FA_NCCL_CHECK(ncclGroupStart());
  for (const Message& m : leaving)
    FA_NCCL_CHECK(ncclSend(m.address, m.bytes, ncclUint8, m.peer, comm, stream));
  for (const Message& m : arriving)
    FA_NCCL_CHECK(ncclRecv(m.address, m.bytes, ncclUint8, m.peer, comm, stream));
  FA_NCCL_CHECK(ncclGroupEnd());
  // END 3
}

}  // namespace fa::ch13
