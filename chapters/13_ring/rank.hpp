/// @file
/// What one rank has, and what the steps do with it.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attend.hpp"
#include "attention/attention.hpp"
#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "harness/device_buffer.hpp"
#include "nccl.hpp"
#include "schedule.cuh"

namespace fa::ch13 {

/// Buffers by name, allocated when they are first asked for.
class Scratch {
 public:
  /// @param comm  if not null, its ranks reach the buffers directly: NCCL copies from one GPU's memory to
  ///     another's, without a buffer of its own in between
  explicit Scratch(ncclComm_t comm = nullptr) : comm_(comm) {}

  /// @param name  for reports; @param number  tells buffers of the same name apart
  void* get(const std::string& name, std::size_t bytes, int number = 0) {
    auto& buffer = buffers_[{name, number}];
    if (!buffer.memory || buffer.bytes < bytes) {
      if (buffer.memory) FA_CUDA_CHECK(cudaDeviceSynchronize());  // kernels may still use the smaller one
      buffer = {};
      buffer = {comm_ && bytes > 0 ? registered(name, bytes) : plain(name, bytes), bytes};
      FA_CUDA_CHECK(
          cudaStreamSynchronize(nullptr));  // which has poisoned it; the rank's streams do not wait for it
    }
    return buffer.memory.get();
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& [name, buffer] : buffers_) sum += buffer.bytes;
    return sum;
  }

 private:
  using Memory = std::shared_ptr<void>;
  struct Buffer {
    Memory memory;
    std::size_t bytes = 0;
  };

  static Memory plain(const std::string& name, std::size_t bytes) {
    const auto buffer = std::make_shared<DeviceBuffer>(name, bytes);
    buffer->poison();
    return Memory(buffer, buffer->get());
  }
  Memory registered(const std::string& name, std::size_t bytes) const {
    void *address = nullptr, *handle = nullptr;
    FA_NCCL_CHECK(ncclMemAlloc(&address, bytes));
    const Memory memory(address, [](void* of) { ncclMemFree(of); });
    backend::name_allocation(address, name);
    poison(address, bytes);
    FA_NCCL_CHECK(ncclCommRegister(comm_, address, bytes, &handle));
    return Memory(address, [memory, handle, comm = comm_](void*) { ncclCommDeregister(comm, handle); });
  }

  ncclComm_t comm_;
  std::map<std::pair<std::string, int>, Buffer> buffers_;
};

/// The rank's tokens of each tensor: [tokens, batch, heads, head_dim], and LSE [batch, heads, tokens].
struct Tensors {
  void *q, *k, *v, *o, *d_o, *dq, *dk, *dv;
  float* lse;
};

struct KeysValues {
  void *k, *v;
};

/// One process with its GPU.
struct Rank {
  const Engine* engine;
  AttentionShape shape;  ///< of the whole problem: as many queries as keys
  Split split;
  int rank;
  ncclComm_t comm;
  cudaStream_t compute, copies;     ///< kernels; transfers between GPUs
  std::vector<cudaStream_t> turns;  ///< kernels of one step after the other, of falling priority
  cudaEvent_t event;
  int head_start_us;  ///< of a transfer, in microseconds; 0: whoever comes first
  Tensors tensors;
  Scratch* scratch;
  std::function<void()> end_step;  ///< called after the transfers of a step have been enqueued
  int distance = 1;                ///< of the rank to which it sends
  int key_buffers = 2;             ///< K and V of how many other ranks it has room for
  int part_buffers = 1;            ///< O of how many steps it has room for
  int turn = 0;                    ///< which of the buffers that two steps need at the same time

  int ranks() const { return split.ranks; }
  int next() const { return (rank + distance + ranks()) % ranks(); }
  int previous() const { return (rank - distance + ranks()) % ranks(); }
  /// How many parts are merged at once: while a step computes another one, if there is room.
  int parts_at_once() const { return std::max(1, part_buffers - 1); }
  std::int64_t tokens() const { return split.tokens_of(rank); }
  std::size_t element_bytes() const { return size_of(shape.dtype); }

  /// Elements of a token.
  std::int64_t query_row() const { return shape.batch * shape.heads * shape.head_dim; }
  std::int64_t key_row() const { return shape.batch * shape.kv_heads * shape.head_dim; }

  /// The same rank with the stream and the buffers of a step, which need not wait for the step before.
  Rank in_turn(int number) const {
    Rank mine = *this;
    mine.compute = turns[std::size_t(number) % turns.size()];
    mine.turn = number % 2;
    return mine;
  }
  /// The same, once the step two before, which had the same buffers, is complete; after the stream of the
  /// lowest priority, once the step before is.
  Rank begin_turn(int number) const {
    const int last = number - (std::size_t(number) % turns.size() == 0 ? 1 : 2);
    const Rank mine = in_turn(number);
    follow(mine.compute, last < 0 ? compute : in_turn(last).compute);
    return mine;
  }

  /// Whatever is enqueued on `later` from now on waits for all that is enqueued on `earlier` now.
  void follow(cudaStream_t later, cudaStream_t earlier) const {
    FA_CUDA_CHECK(cudaEventRecord(event, earlier));
    FA_CUDA_CHECK(cudaStreamWaitEvent(later, event, 0));
  }
};

/// One way to distribute attention.
struct Method {
  std::string name, summary;
  bool zigzag;
  /// Bytes that a rank sends in each of its steps.
  using Links = std::vector<std::int64_t>;
  void (*forward)(const Rank&);
  void (*backward)(const Rank&);
  Links (*forward_links)(const Rank&);
  Links (*backward_links)(const Rank&);
  Traffic (*traffic)(const Rank&, bool backward);  ///< with the memory of the GPU
  bool priority = false;                           ///< transfers before kernels, and on --channels of NCCL
  int key_buffers = 2, part_buffers = 1;           ///< those of Rank
  bool trades_heads = false;
};

/// The steps of the chapter, in its order.
const std::vector<Method>& methods();

}  // namespace fa::ch13
