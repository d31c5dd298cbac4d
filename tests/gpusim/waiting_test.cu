/// @file
/// Blocks that wait for others of their launch: flags, tickets, locks, barriers of the grid made of atomic
/// operations.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

constexpr int kBlocks = 12;

/// @param from  the block that stores the data
template <bool kFence>
__global__ void hand_over(int* data, volatile int* flag, int* out, unsigned from) {
  if (blockIdx.x == from) {
    data[threadIdx.x] = int(threadIdx.x);  // gives
    if (kFence) __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *flag = 1;
  } else {
    if (threadIdx.x == 0) {
      while (*flag == 0) {
      }
    }
    __syncthreads();
    __threadfence();
    out[blockIdx.x * 32 + threadIdx.x] = data[threadIdx.x];  // takes
  }
}

template <class Kernel>
gpusim::Report run_hand_over(Kernel* kernel, unsigned from, std::vector<int>& result) {
  const auto flag = Buffer<int>::zeros("flag", 1);
  const Buffer<int> data("data", 32);
  const auto out = Buffer<int>::zeros("out", kBlocks * 32);
  const gpusim::Report report = run({kBlocks, 32}, kernel, data.get(), flag.get(), out.get(), from);
  result = out.host();
  return report;
}

TEST(Waiting, ForAFlag) {
  std::vector<int> out;
  for (const unsigned from : {0u, unsigned(kBlocks - 1)}) {  // also for a block that begins last
    EXPECT_TRUE(is_clean(run_hand_over(hand_over<true>, from, out)));
    EXPECT_EQ(out[5 * 32 + 7], 7);
  }
}

TEST(Waiting, AFlagWithoutAFenceReleasesNothing) {
  std::vector<int> out;
  const gpusim::Report report = run_hand_over(hand_over<false>, 0, out);
  std::vector<std::vector<int>> lines;
  for (const Told& defect : told(report)) lines.emplace_back(defect.lines.begin(), defect.lines.begin() + 2);
  const std::vector<int> data{line_of("gives"), line_of("takes")};
  EXPECT_NE(std::find(lines.begin(), lines.end(), data), lines.end()) << gpusim::format_defects(report);
}

__global__ void wait_forever(volatile int* flag) {
  while (*flag == 0) {  // forever
  }
}

TEST(Waiting, ForAFlagThatNobodySets) {
  const auto flag = Buffer<int>::zeros("flag", 1);
  const gpusim::Report report = run({4, 32}, wait_forever, flag.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kBarrierDivergence, {line_of("forever")}, 4}}));
  EXPECT_TRUE(says(report, "wait for something that no block changes"));
}

/// A scan in one pass: each block takes the sum of the blocks before it from its neighbour.
__global__ void scan(const int* in, int* out, volatile int* ready, volatile int* sums) {
  __shared__ int tile[64];
  __shared__ int before;
  const int b = int(blockIdx.x), t = int(threadIdx.x), i = b * 64 + t;
  tile[t] = in[i];
  __syncthreads();
  for (int distance = 1; distance < 64; distance *= 2) {
    const int other = t >= distance ? tile[t - distance] : 0;
    __syncthreads();
    tile[t] += other;
    __syncthreads();
  }
  if (t == 0) {
    int sum = 0;
    if (b > 0) {
      while (ready[b - 1] == 0) {
      }
      __threadfence();
      sum = sums[b - 1];
    }
    sums[b] = sum + tile[63];
    __threadfence();
    ready[b] = 1;
    before = sum;
  }
  __syncthreads();
  out[i] = before + tile[t];
}

TEST(Waiting, AScanInOnePass) {
  const Buffer<int> in("in", std::vector<int>(kBlocks * 64, 1)), out("out", kBlocks * 64);
  const auto ready = Buffer<int>::zeros("ready", kBlocks), sums = Buffer<int>::zeros("sums", kBlocks);
  ASSERT_TRUE(is_clean(run({kBlocks, 64}, scan, in.get(), out.get(), ready.get(), sums.get())));
  for (int i = 0; i < kBlocks * 64; ++i) ASSERT_EQ(out.host()[std::size_t(i)], i + 1);
}

/// @tparam kPolls  with atomic operations, or as volatile
template <bool kPolls>
__global__ void pass_barrier(int* arrived, int* data, int* out) {
  data[blockIdx.x * 32 + threadIdx.x] = int(blockIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1);
    while ((kPolls ? atomicAdd(arrived, 0) : *static_cast<volatile int*>(arrived)) < int(gridDim.x)) {
    }
    __threadfence();
  }
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = data[(blockIdx.x + 1) % gridDim.x * 32 + threadIdx.x];
}

TEST(Waiting, ABarrierOfTheGrid) {
  for (auto* kernel : {pass_barrier<true>, pass_barrier<false>}) {
    const auto arrived = Buffer<int>::zeros("arrived", 1);
    const Buffer<int> data("data", kBlocks * 32), out("out", kBlocks * 32);
    ASSERT_TRUE(is_clean(run({kBlocks, 32}, kernel, arrived.get(), data.get(), out.get())));
    for (int i = 0; i < kBlocks * 32; ++i) ASSERT_EQ(out.host()[std::size_t(i)], (i / 32 + 1) % kBlocks);
  }
}

/// Block 0 collects the flags of all, and then lets them go: the order passes through it.
__global__ void pass_through(volatile int* arrived, volatile int* go, int* data, int* out) {
  data[blockIdx.x * 32 + threadIdx.x] = int(blockIdx.x);
  __threadfence();
  __syncthreads();
  if (blockIdx.x == 0) {
    if (threadIdx.x > 0 && threadIdx.x < gridDim.x) {
      while (arrived[threadIdx.x] == 0) {
      }
    }
    __syncthreads();
    if (threadIdx.x < gridDim.x) go[threadIdx.x] = 1;
  } else if (threadIdx.x == 0) {
    arrived[blockIdx.x] = 1;
    while (go[blockIdx.x] == 0) {
    }
  }
  __syncthreads();
  __threadfence();
  out[blockIdx.x * 32 + threadIdx.x] = data[(blockIdx.x + 1) % gridDim.x * 32 + threadIdx.x];
}

TEST(Waiting, TheOrderMayPassThroughAThirdBlock) {
  const auto arrived = Buffer<int>::zeros("arrived", kBlocks), go = Buffer<int>::zeros("go", kBlocks);
  const Buffer<int> data("data", kBlocks * 32), out("out", kBlocks * 32);
  ASSERT_TRUE(is_clean(run({kBlocks, 32}, pass_through, arrived.get(), go.get(), data.get(), out.get())));
  for (int i = 0; i < kBlocks * 32; ++i) ASSERT_EQ(out.host()[std::size_t(i)], (i / 32 + 1) % kBlocks);
}

template <bool kLocks>
__global__ void count(int* lock, int* counter) {
  if (threadIdx.x != 0) return;
  if (kLocks) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
  }
  *counter = *counter + 1;  // counts
  if (kLocks) {
    __threadfence();
    atomicExch(lock, 0);
  }
}

TEST(Waiting, ForALock) {
  const auto lock = Buffer<int>::zeros("lock", 1), counter = Buffer<int>::zeros("counter", 1);
  ASSERT_TRUE(is_clean(run({kBlocks, 32}, count<true>, lock.get(), counter.get())));
  EXPECT_EQ(counter.host()[0], kBlocks);
  EXPECT_EQ(told(run({kBlocks, 32}, count<false>, lock.get(), counter.get())).size(), 1u);
}

/// Each block has a lock of its own, and the sum is volatile: neither helps.
__global__ void add_under_own_lock(int* locks, volatile int* sum) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(locks + blockIdx.x, 0, 1) != 0) {
  }
  __threadfence();
  *sum = *sum + 1;  // sums
  __threadfence();
  atomicExch(locks + blockIdx.x, 0);
}

TEST(Waiting, VolatileDataNeedsALockAsWell) {
  const auto locks = Buffer<int>::zeros("locks", kBlocks), sum = Buffer<int>::zeros("sum", 1);
  const gpusim::Report report = run({kBlocks, 32}, add_under_own_lock, locks.get(), sum.get());
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  const std::vector<int> lines = told(report)[0].lines;  // the third one is that of a fence
  EXPECT_EQ(std::vector<int>(lines.begin(), lines.begin() + 2), std::vector<int>(2, line_of("sums")));
}

/// The threads of a block take a lock in turn: none of them waits in vain, and their accesses are ordered.
template <bool kLocks>
__global__ void add_in_turn(int* out) {
  __shared__ int lock, sum;
  if (threadIdx.x == 0) lock = sum = 0;
  __syncthreads();
  for (bool is_done = false; !is_done;) {
    if (kLocks && atomicExch(&lock, 1) != 0) continue;
    sum += 1;  // in turn
    __threadfence_block();
    if (kLocks) atomicExch(&lock, 0);
    is_done = true;
  }
  __syncthreads();
  if (threadIdx.x == 0) *out = sum;
}

TEST(Waiting, ForALockOfTheBlock) {
  const Buffer<int> out("out", 1);
  const gpusim::Report report = run({1, 96}, add_in_turn<true>, out.get());
  ASSERT_TRUE(is_clean(report));
  EXPECT_TRUE(report.notes.empty()) << gpusim::format_defects(report);
  EXPECT_EQ(out.host()[0], 96);
  EXPECT_EQ(told(run({1, 96}, add_in_turn<false>, out.get())).size(), 1u);
}

__device__ unsigned tickets = 0;

/// The last block to take a ticket adds up what all have stored. No fence comes after the ticket, as in most
/// programs.
__global__ void add_up(const float* in, float* parts, float* out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = in[blockIdx.x];
    __threadfence();
    is_last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float sum = 0.0f;
    for (unsigned b = 0; b < gridDim.x; ++b) sum += parts[b];
    *out = sum;
  }
}

TEST(Waiting, ATicketWithoutAFenceAfterItIsWorthANote) {
  const Buffer<float> in("in", std::vector<float>(kBlocks, 1.0f)), parts("parts", kBlocks), out("out", 1);
  const gpusim::Report report = run({kBlocks, 32}, add_up, in.get(), parts.get(), out.get());
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.notes.size(), 1u);
  EXPECT_EQ(out.host()[0], float(kBlocks));
}

}  // namespace
}  // namespace gpusim_test
