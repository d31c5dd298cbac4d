/// @file
/// Copies from shared to global memory: the fence before them, when they read, and when others may use what
/// they write.
#include <cuda_runtime.h>
#include <gpusim_hopper.h>

#include <string>
#include <vector>

#include "hopper.hpp"
#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

constexpr int kThreads = 64;

std::string at(const std::string& tag) { return "hopper_stores_test.cu:" + std::to_string(line_of(tag)); }

/// The possible mistakes in the kernel below.
struct Right {
  static constexpr bool kFence = true;
  static constexpr bool kFenceOfOne = false;  ///< only the thread that stores executes it
  static constexpr bool kFenceLate = false;   ///< after the barrier
  static constexpr bool kBarrier = true;
  static constexpr bool kWaitRead = true;
  static constexpr bool kBarrierAfter = true;
  static constexpr int kPending = 0;
};

/// Two tiles one after the other: all threads write them, thread 0 stores them.
template <class Plan>
__global__ void store_tiles(float* out) {
  __shared__ __align__(128) float tile[kThreads];
  const int i = int(threadIdx.x);
  for (int round = 0; round < 2; ++round) {
    tile[i] = float(100 * round + i);  // tiles: write
    if (Plan::kFence || (Plan::kFenceOfOne && i == 0)) ptx::fence_proxy_async();
    if (Plan::kBarrier) __syncthreads();
    if (Plan::kFenceLate) ptx::fence_proxy_async();
    if (i == 0) {
      ptx::bulk_store(out + round * kThreads, tile, sizeof tile);  // tiles: store
      ptx::bulk_commit();
      if (Plan::kWaitRead) ptx::bulk_wait_read<Plan::kPending>();
    }
    if (Plan::kBarrierAfter) __syncthreads();
  }
  if (i == 0) ptx::bulk_wait<0>();
}

template <class Plan>
gpusim::Report run_stores() {
  const Buffer<float> out("out", 2 * kThreads);
  return run({1, kThreads}, store_tiles<Plan>, out.get());
}

TEST(BulkStores, Right) {
  const Buffer<float> out("out", 2 * kThreads);
  const gpusim::Report report = run({1, kThreads}, store_tiles<Right>, out.get());
  EXPECT_TRUE(is_clean(report));
  for (int i = 0; i < 2 * kThreads; ++i)
    EXPECT_EQ(out.host()[std::size_t(i)], float(i / kThreads * 100 + i % kThreads));
  EXPECT_EQ(report.tensors.at("out").write_bytes, 2 * kThreads * 4);
  EXPECT_EQ(report.tensors.at("out").write_sectors, 2 * kThreads / 8);
  EXPECT_EQ(report.tensors.at("out").write_requests, 2);
  EXPECT_EQ(report.ops.bulk_stores, 2);
}

struct NoFence : Right {
  static constexpr bool kFence = false;
};
struct FenceOfOne : NoFence {
  static constexpr bool kFenceOfOne = true;
};
struct FenceLate : NoFence {
  static constexpr bool kFenceLate = true;
};
TEST(BulkStores, WritersHaveToFence) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto missing = [](const gpusim::Report& report, int writer) {
    ASSERT_EQ(told(report).size(), 1u) << gpusim::format_defects(report);
    EXPECT_EQ(told(report)[0].kind, DefectKind::kMissingFence);
    EXPECT_TRUE(says(report, "Missing fence reported between Write access by thread (" +
                                 std::to_string(writer) + ",0,0) at " + at("tiles: write") +
                                 " and Async read access by thread (0,0,0) at " + at("tiles: store")));
    EXPECT_TRUE(says(
        report,
        place("tile[" + std::to_string(writer) + "]", "byte " + std::to_string(4 * writer) + " of \"tile\"") +
            " in block (0,0,0): the writer executes no fence_proxy_async() between its write and "
            "the barrier  ["));
  };
  missing(run_stores<NoFence>(), 0);
  missing(run_stores<FenceOfOne>(), 1);
  missing(run_stores<FenceLate>(), 1);  // thread 0 itself is right
}

struct NoBarrier : Right {
  static constexpr bool kBarrier = false;
};
TEST(BulkStores, NeedABarrierAfterTheWrites) {
  // The store came first here, and found nothing written.
  EXPECT_TRUE(says(run_stores<NoBarrier>(), "Race reported between Async read access by thread (0,0,0) at " +
                                                at("tiles: store") + " and Write access by thread ("));
}

struct NoWaitRead : Right {
  static constexpr bool kWaitRead = false;
};
struct OnePending : Right {
  static constexpr int kPending = 1;
};
struct NoBarrierAfter : Right {
  static constexpr bool kBarrierAfter = false;
};
TEST(BulkStores, ReadUntilTheyAreWaitedFor) {
  for (const gpusim::Report& report : {run_stores<NoWaitRead>(), run_stores<OnePending>()}) {
    EXPECT_TRUE(says(report, "Race reported between Async read access by thread (0,0,0) at " +
                                 at("tiles: store") + " and Write access by thread (0,0,0) at " +
                                 at("tiles: write")));
    EXPECT_TRUE(says(report, "the bulk store may still be reading: no bulk_wait_read() between the two  ["));
  }
  EXPECT_TRUE(
      says(run_stores<NoBarrierAfter>(),
           "the bulk store may still be reading: no barrier between the bulk_wait_read() and the write"));
}

/// What is stored is what shared memory holds at the wait.
__global__ void overwrites(float* out) {
  __shared__ __align__(128) float tile[32];
  tile[threadIdx.x] = 1.0f;
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    ptx::bulk_store(out, tile, sizeof tile);
    ptx::bulk_commit();
    tile[0] = 2.0f;
    ptx::bulk_wait<0>();
  }
}
TEST(BulkStores, ReadAsLateAsPossible) {
  const Buffer<float> out("out", 32);
  EXPECT_FALSE(is_clean(run({1, 32}, overwrites, out.get())));
  EXPECT_EQ(out.host()[0], 2.0f);
  EXPECT_EQ(out.host()[1], 1.0f);
}

__global__ void never_waits(float* out, bool commits) {
  __shared__ __align__(128) float tile[32];
  tile[threadIdx.x] = 1.0f;
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    ptx::bulk_store(out, tile, sizeof tile);  // never waits: store
    if (commits) ptx::bulk_commit();
    if (!commits) ptx::bulk_wait<0>();
  }
}
TEST(BulkStores, MustNotOutliveTheirSharedMemory) {
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, never_waits, out.get(), true);
  ASSERT_EQ(told(report), (Defects{{DefectKind::kMisuse, {line_of("never waits: store")}, 1}}));
  EXPECT_TRUE(says(report,
                   "the block ends while the copy may still read its shared memory: its thread has not "
                   "waited with bulk_wait_read()"));
  EXPECT_EQ(out.host()[5], 1.0f);
  EXPECT_TRUE(says(run({1, 32}, never_waits, out.get(), false), "shared memory: no bulk_commit() after it"));
}

__global__ void never_commits(float* out) {
  __shared__ __align__(128) float tile[32];
  tile[threadIdx.x] = 1.0f;
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    ptx::bulk_store(out, tile, sizeof tile);  // never commits: store
    ptx::bulk_wait<0>();
    tile[0] = 2.0f;  // never commits: write
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
  }
}
TEST(BulkStores, AreWaitedForInGroups) {
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, never_commits, out.get());
  EXPECT_TRUE(says(report, "Race reported between Async read access by thread (0,0,0) at " +
                               at("never commits: store") + " and Write access by thread (0,0,0) at " +
                               at("never commits: write")));
  EXPECT_EQ(out.host()[0], 2.0f);
}

/// Stores a tile, and reads it again from global memory.
__global__ void reads_back(float* out, bool waits, bool only_read, bool barrier) {
  __shared__ __align__(128) float tile[kThreads];
  const int i = int(threadIdx.x);
  tile[i] = float(i);
  ptx::fence_proxy_async();
  __syncthreads();
  if (i == 0) {
    ptx::bulk_store(out, tile, sizeof tile);  // reads back: store
    ptx::bulk_commit();
    if (waits && only_read) ptx::bulk_wait_read<0>();
    if (waits && !only_read) ptx::bulk_wait<0>();
  }
  if (barrier) __syncthreads();
  const float other = out[kThreads - 1 - i];  // reads back: read
  if (i == 0) ptx::bulk_wait<0>();
  __syncthreads();
  out[i] = other;
}
TEST(BulkStores, AreVisibleAfterTheWaitAndABarrier) {
  const Buffer<float> out("out", kThreads);
  EXPECT_TRUE(is_clean(run({1, kThreads}, reads_back, out.get(), true, false, true)));
  EXPECT_EQ(out.host()[3], float(kThreads - 4));
  const std::string between = "Race reported between Async copy access by thread (0,0,0) at " +
                              at("reads back: store") + " and Read access by thread (";
  for (const bool waits : {false, true}) {
    const gpusim::Report report = run({1, kThreads}, reads_back, out.get(), waits, true, true);
    EXPECT_TRUE(says(report, between));
    EXPECT_TRUE(says(report, "no bulk_wait() between the two  ["));
  }
  const gpusim::Report report = run({1, kThreads}, reads_back, out.get(), true, false, false);
  EXPECT_TRUE(says(report, "no barrier between the bulk_wait() and the other access  ["));
}

/// All blocks add the same numbers to an array.
__global__ void add_up(float* sums, int rounds) {
  __shared__ __align__(128) float tile[32];
  tile[threadIdx.x] = float(threadIdx.x);
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    for (int i = 0; i < rounds; ++i) ptx::bulk_reduce_add(sums, tile, sizeof tile);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
  }
}
TEST(BulkStores, MayAddToTheSameNumbers) {
  const auto sums = Buffer<float>::zeros("sums", 32);
  const gpusim::Report report = run({4, 32}, add_up, sums.get(), 3);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(sums.host()[7], 84.0f);
  EXPECT_EQ(report.tensors.at("sums").atomic_sectors, 4 * 3 * 4);
  EXPECT_EQ(report.tensors.at("sums").atomic_requests, 4 * 3);
  EXPECT_EQ(report.tensors.at("sums").write_bytes, 4 * 3 * 128);
}

/// What the copy engine has written, it may read without a fence; what it is still writing, it may not.
__global__ void pass_on(const float* in, float* out, bool waits) {
  __shared__ __align__(128) float tile[32];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, sizeof tile);
    ptx::bulk_load(tile, in, sizeof tile, &full);  // pass on: load
    if (waits) ptx::mbarrier_wait(&full, 0);
    ptx::bulk_store(out, tile, sizeof tile);  // pass on: store
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
    ptx::mbarrier_wait(&full, 0);
  }
}
TEST(BulkStores, OfWhatWasLoaded) {
  const Buffer<float> in("in", std::vector<float>(32, 5.0f));
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, pass_on, in.get(), out.get(), true)));
  EXPECT_EQ(out.host()[31], 5.0f);
  const gpusim::Report report = run({1, 32}, pass_on, in.get(), out.get(), false);
  EXPECT_TRUE(says(report, "Race reported between Async copy access by thread (0,0,0) at " +
                               at("pass on: load") + " and Async read access by thread (0,0,0) at " +
                               at("pass on: store")));
  EXPECT_TRUE(says(report, "data read while its load is in flight: no wait for full between the two  ["));
}

/// A block that is given up while copies of it are in flight leaves nothing behind.
__global__ void stops_halfway(const float* in, float* out, bool stops) {
  __shared__ __align__(128) float tiles[2][32];
  __shared__ std::uint64_t full;
  tiles[1][threadIdx.x] = 1.0f;
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, 128);
    ptx::bulk_load(tiles[0], in, 128, &full);
    ptx::bulk_store(out, tiles[1], 128);
    ptx::bulk_commit();
    if (stops) out[32] = 0.0f;
    ptx::mbarrier_wait(&full, 0);
    ptx::bulk_wait<0>();
    out[0] = tiles[0][0];
  }
}
TEST(BulkStores, OfABlockThatIsGivenUp) {
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({20, 32}, stops_halfway, in.get(), out.get(), true);
  EXPECT_TRUE(says(report, "Invalid __global__ write of size 4 bytes"));
  EXPECT_FALSE(says(report, "in flight"));
  EXPECT_TRUE(is_clean(run({1, 32}, stops_halfway, in.get(), out.get(), false)));
}

__global__ void store_in_all_blocks(float* out) {
  __shared__ __align__(128) float tile[32];
  tile[threadIdx.x] = float(blockIdx.x);
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    ptx::bulk_store(out, tile, sizeof tile);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
  }
}
TEST(BulkStores, OfSeveralBlocksRace) {
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(says(run({2, 32}, store_in_all_blocks, out.get()), "blocks are not ordered"));
}

__global__ void store_with(float* out, int offset, int bytes, int unwritten) {
  __shared__ __align__(128) float tile[64];
  if (int(threadIdx.x) >= unwritten) tile[threadIdx.x] = 1.0f;
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::bulk_store(out + offset, tile + offset, bytes);  // store with
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
  }
}
TEST(BulkStores, CheckTheirOperands) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 64);
  const auto report_of = [&](int offset, int bytes, int unwritten) {
    return run({1, 64}, store_with, out.get(), offset, bytes, unwritten);
  };
  EXPECT_TRUE(is_clean(report_of(4, 240, 0)));
  EXPECT_TRUE(says(report_of(1, 16, 0), "Misuse at " + at("store with") + " by thread (0,0,0)"));
  EXPECT_TRUE(says(report_of(1, 16, 0), "the copy needs a shared address that is a multiple of 16: tile[1]"));
  EXPECT_TRUE(says(report_of(0, 24, 0), "a copy of 24 bytes: must be a multiple of 16"));
  EXPECT_TRUE(says(report_of(0, 0, 0), "a copy of 0 bytes: must be a multiple of 16"));
  EXPECT_TRUE(says(report_of(4, 256, 0), "Invalid __shared__"));
  EXPECT_TRUE(says(report_of(0, 256, 3), "Uninitialized __shared__ memory read of size 4 bytes at " +
                                             at("store with") + " by thread (0,0,0)"));
}

}  // namespace
}  // namespace gpusim_test
