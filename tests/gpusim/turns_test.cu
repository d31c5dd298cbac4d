/// @file
/// Turns: blocks that change the same memory one after the other, and the mistakes that are possible there.
#include <cuda_runtime.h>
#include <gpusim_hopper.h>

#include <cmath>
#include <string>
#include <vector>

#include "hopper.hpp"
#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

constexpr int kThreads = 64, kBlocks = 20, kTiles = 3;
constexpr int kBytes = kThreads * int(sizeof(float));

std::string at(const std::string& tag) { return "turns_test.cu:" + std::to_string(line_of(tag)); }

/// The possible mistakes in the kernel below.
struct Right {
  static constexpr int kAhead = 0;          ///< the block takes the turn of one so much further on
  static constexpr bool kAwaits = true;     ///< a turn
  static constexpr bool kWaits = true;      ///< for all of its additions, before it passes the turn on
  static constexpr bool kWaitsRead = true;  ///< before the tile of shared memory is overwritten
  static constexpr bool kPasses = true;     ///< the turn on
};
struct NextTurn : Right {
  static constexpr int kAhead = 1;
};
struct TurnBefore : Right {
  static constexpr int kAhead = -1;
};
struct NoTurn : Right {
  static constexpr bool kAwaits = false;
};
struct OnlyRead : Right {
  static constexpr bool kWaits = false;
};
struct NoWaitForRead : Right {
  static constexpr bool kWaits = false;
  static constexpr bool kWaitsRead = false;
  static constexpr bool kPasses = false;
};
struct KeepsTurns : Right {
  static constexpr bool kPasses = false;
};

/// Each block adds 2^-block to kTiles tiles of sums, in turns. The first one stores.
template <class Plan>
__global__ void sums_in_turns(float* sums, int* turns) {
  __shared__ __align__(128) float tile[kThreads];
  const int i = int(threadIdx.x), turn = int(blockIdx.x) + Plan::kAhead;
  for (int n = 0; n < kTiles; ++n) {
    tile[i] = ldexpf(1.0f, -int(blockIdx.x));  // turns: write
    ptx::fence_proxy_async();
    __syncthreads();
    if (i == 0) {
      if (Plan::kAwaits) ptx::await_turn(&turns[n], turn);  // turns: await
      if (turn == 0) {
        ptx::bulk_store(sums + n * kThreads, tile, kBytes);  // turns: store
      } else {
        ptx::bulk_reduce_add(sums + n * kThreads, tile, kBytes);  // turns: add
      }
      ptx::bulk_commit();
      if (Plan::kWaitsRead) ptx::bulk_wait_read<0>();
      if (Plan::kWaits) ptx::bulk_wait<0>();
      if (Plan::kPasses) ptx::pass_turn(&turns[n], turn);  // turns: pass
    }
    __syncthreads();
  }
  if (i == 0) ptx::bulk_wait<0>();
}

template <class Plan>
gpusim::Report run_turns(int blocks = kBlocks) {
  const Buffer<float> sums("sums", std::vector<float>(kTiles * kThreads, 0.0f));
  const auto turns = Buffer<int>::zeros("turns", kTiles);
  return run({unsigned(blocks), kThreads}, sums_in_turns<Plan>, sums.get(), turns.get());
}

TEST(Turns, BlocksAddInTheOrderOfTheirTurns) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const Buffer<float> sums("sums", kTiles * kThreads);  // never written: the first turn stores
    const auto turns = Buffer<int>::zeros("turns", kTiles);
    const gpusim::Report report = run({kBlocks, kThreads}, sums_in_turns<Right>, sums.get(), turns.get());
    ASSERT_TRUE(is_clean(report));
    for (const float x : sums.host()) ASSERT_EQ(x, 2.0f - std::ldexp(1.0f, 1 - kBlocks));
    for (const int turn : turns.host()) ASSERT_EQ(turn, kBlocks);
    // Waiting for a turn does not count. Passing it on is a write.
    EXPECT_EQ(report.tensors.at("turns").read_bytes, 0);
    EXPECT_EQ(report.tensors.at("turns").write_bytes, 4 * kTiles * kBlocks);
    EXPECT_EQ(report.tensors.at("turns").atomic_requests, 0);
    EXPECT_EQ(report.tensors.at("sums").write_bytes, kTiles * kBlocks * kBytes);
    EXPECT_EQ(report.tensors.at("sums").read_bytes, kTiles * (kBlocks - 1) * kBytes);
  }
}

TEST(Turns, ATurnThatNobodyPassesOnIsOutOfOrder) {
  const gpusim::Report report = run_turns<NextTurn>();
  EXPECT_TRUE(says(report, "takes turn 1 out of order: no earlier block of the grid passes on turn 0"));
  EXPECT_TRUE(says(report, at("turns: await")));
  EXPECT_TRUE(says(run_turns<KeepsTurns>(),
                   "takes turn 1 out of order: no earlier block of the grid passes on turn 0"));
}

TEST(Turns, ATurnThatIsOverIsOutOfOrder) {
  const gpusim::Report report = run_turns<TurnBefore>(1);
  EXPECT_TRUE(says(report, "takes turn -1 out of order: it is turn 0 already"));
  EXPECT_TRUE(says(report, at("turns: await")));
}

TEST(Turns, OnlyWhoHasWaitedPassesATurnOn) {
  const gpusim::Report report = run_turns<NoTurn>(1);
  EXPECT_TRUE(says(report, "passes on turn 0 out of order: this thread has not waited for it"));
  EXPECT_TRUE(says(report, at("turns: pass")));
}

/// Block 0 adds in its turn, block 1 without waiting for one.
__global__ void one_without_a_turn(float* sums, int* turns) {
  __shared__ __align__(128) float tile[kThreads];
  tile[threadIdx.x] = 1.0f;
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    ptx::await_turn(turns, 0);
    ptx::bulk_reduce_add(sums, tile, kBytes);  // one: in its turn
  } else {
    ptx::bulk_reduce_add(sums, tile, kBytes);  // one: without a turn
  }
  ptx::bulk_commit();
  ptx::bulk_wait<0>();
  if (blockIdx.x == 0) ptx::pass_turn(turns, 0);
}

TEST(Turns, AnAdditionWithoutATurnIsARace) {
  GPUSIM_NEEDS_EXACT_ACCESSES();  // clang++ makes one call of the two
  const Buffer<float> sums("sums", std::vector<float>(kThreads, 0.0f));
  const auto turns = Buffer<int>::zeros("turns", 1);
  const gpusim::Report report = run({2, kThreads}, one_without_a_turn, sums.get(), turns.get());
  EXPECT_TRUE(says(report, "Race reported between Change in turn access by thread (0,0,0)"));
  EXPECT_TRUE(says(report, "one of the blocks waits for its turn, the other does not"));
  EXPECT_TRUE(says(report, at("one: in its turn")));
  EXPECT_TRUE(says(report, at("one: without a turn")));
}

TEST(Turns, ATurnIsPassedOnAfterItsAdditionsAreComplete) {
  const gpusim::Report report = run_turns<OnlyRead>();
  EXPECT_TRUE(says(report, "passes on turn 0 before the store at " + at("turns: store") +
                               " is complete: no bulk_wait() between the two"));
  EXPECT_TRUE(says(report, at("turns: pass")));
}

TEST(Turns, ATileIsKeptUntilItsAdditionHasReadIt) {
  const gpusim::Report report = run_turns<NoWaitForRead>(1);
  EXPECT_TRUE(says(report, "the bulk store may still be reading: no bulk_wait_read()"));
  EXPECT_TRUE(says(report, at("turns: write")));
  EXPECT_TRUE(says(report, at("turns: store")));
}

TEST(Turns, CountersBeginWithZero) {
  const Buffer<float> sums("sums", std::vector<float>(kTiles * kThreads, 0.0f));
  const Buffer<int> turns("turns", kTiles);
  EXPECT_TRUE(says(run({1, kThreads}, sums_in_turns<Right>, sums.get(), turns.get()),
                   "Uninitialized __global__ memory read"));
}

}  // namespace
}  // namespace gpusim_test
