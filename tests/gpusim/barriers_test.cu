/// @file
/// Barriers that some threads do not reach, and threads that never end.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
constexpr unsigned kFull = 0xffffffffu;

Told divergence(std::vector<int> lines) { return {DefectKind::kBarrierDivergence, std::move(lines), 1}; }

// ---- __syncthreads ------------------------------------------------------------------------------------------

__global__ void some_wait(int* out) {
  if (threadIdx.x < 96) {
    __syncthreads();  // some wait
  } else {
    while (atomicAdd(out, 0) == 0) {
    }
  }
}
__global__ void half_a_warp_waits(float* out) {
  if (threadIdx.x % 2 == 0) __syncthreads();  // half waits
  out[threadIdx.x] = 1.0f;
}

TEST(Barriers, ThreadsThatLeaveTheKernelAreNotWaitedFor) {
  const Buffer<float> out("out", 128);
  EXPECT_TRUE(is_clean(run({1, 128}, half_a_warp_waits, out.get())));
  EXPECT_EQ(out.host()[126], 1.0f);
}

__global__ void early_exit(const float* in, float* out, int n) {
  __shared__ float tile[64];
  if (int(threadIdx.x) >= n) return;
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[unsigned(n) - 1 - threadIdx.x];
}

TEST(Barriers, NeitherAreThoseThatReturnEarly) {
  const auto in = Buffer<float>::zeros("in", 64);
  const Buffer<float> out("out", 64);
  for (int n : {1, 31, 32, 33, 50, 64}) {
    const gpusim::Report report = run({1, 64}, early_exit, in.get(), out.get(), n);
    EXPECT_TRUE(is_clean(report));
    EXPECT_EQ(report.ops.barriers, n > 32 ? 2 : 1) << "counted per warp that is still there, n = " << n;
  }
}

TEST(Barriers, AThreadThatSpinsWhileOthersWait) {
  const auto out = Buffer<int>::zeros("out", 1);
  const auto start = std::chrono::steady_clock::now();
  const gpusim::Report report = run({1, 97}, some_wait, out.get());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(told(report), Defects{divergence({line_of("some wait")})});
  EXPECT_TRUE(says(report, "Barrier error detected. Divergent thread(s) in block (0,0,0): 96 of 97 threads"));
  EXPECT_TRUE(says(report, "the others keep running"));
}

__global__ void two_barriers(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();  // barrier: first
  } else {
    __syncthreads();  // barrier: second
  }
  out[threadIdx.x] = 1.0f;
}

TEST(Barriers, DifferentBarriersOfOneBlock) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 128);
  const gpusim::Report report = run({2, 128}, two_barriers, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kBarrierDivergence,
                                    {line_of("barrier: second"), line_of("barrier: first")},
                                    2}}));
  EXPECT_TRUE(says(report, "Divergent thread(s) in block (0,0,0): 96 of 128 threads"));
  EXPECT_TRUE(says(report, "the others are at barriers_test.cu:"));
}

__global__ void one_round_too_few(float* out) {
  const int rounds = threadIdx.x == 5 ? 2 : 3;
  for (int i = 0; i < rounds; ++i) __syncthreads();  // rounds
  if (threadIdx.x == 5) __syncthreads();             // instead
  out[threadIdx.x] = 1.0f;
}

TEST(Barriers, OneThreadIsAtAnotherBarrier) {
  const Buffer<float> out("out", 64);
  const gpusim::Report report = run({1, 64}, one_round_too_few, out.get());
  EXPECT_EQ(told(report), Defects{divergence({line_of("rounds"), line_of("instead")})});
  EXPECT_TRUE(says(report, "63 of 64 threads"));
}

__global__ void counts(int* out) {
  const int even = __syncthreads_count(threadIdx.x % 2 == 0);
  const int all = __syncthreads_and(threadIdx.x < 1000);
  const int not_all = __syncthreads_and(threadIdx.x < 40);
  const int some = __syncthreads_or(threadIdx.x == 47);
  const int none = __syncthreads_or(threadIdx.x == 48);
  out[threadIdx.x] = even + 100 * (all != 0) + 200 * (not_all != 0) + 400 * (some != 0) + 800 * (none != 0);
}

TEST(Barriers, CountAndOr) {
  const Buffer<int> out("out", 48);
  EXPECT_TRUE(is_clean(run({1, 48}, counts, out.get())));
  for (int value : out.host()) EXPECT_EQ(value, 24 + 100 + 400);
}

// ---- GPUSIM_SKIP_BARRIER ----------------------------------------------------------------------------------------

/// Passes values on to the next thread. Inlined at each call.
__device__ __forceinline__ int next(int* sValue, int value) {
  sValue[threadIdx.x] = value;
  __syncthreads();  // skip: helper
  const int next = sValue[(threadIdx.x + 1) % blockDim.x];
  __syncthreads();  // skip: kept
  return next;
}

template <int kAdd>
__global__ void passes_twice(int* out) {
  __shared__ int sValue[64];
  out[threadIdx.x] = next(sValue, next(sValue, int(threadIdx.x)) + kAdd);
}

/// The rest of the test in a process that is told to skip a barrier of this file.
class SkippedBarriers : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }  // a process of its own
  void TearDown() override { unsetenv("GPUSIM_SKIP_BARRIER"); }
  static void skip(const std::string& folder, const std::string& tag) {
    const std::string name = folder + "barriers_test.cu:" + std::to_string(line_of(tag));
    setenv("GPUSIM_SKIP_BARRIER", name.c_str(), 0);
  }
};

template <int kAdd>
gpusim::Report pass_twice() {
  const Buffer<int> out("out", 64);
  return run({1, 64}, passes_twice<kAdd>, out.get());
}

TEST_F(SkippedBarriers, EveryCallOnTheLineIsSkippedAndNoOther) {
  const auto both = [] {
    for (const gpusim::Report& report : {pass_twice<1>(), pass_twice<2>()}) {
      const bool race = says(report, "Race reported between Write access");
      std::fprintf(stderr, "race %d, barriers %d\n", race, int(report.ops.barriers));
    }
    std::exit(0);
  };
  EXPECT_EXIT(both(), testing::ExitedWithCode(0), "race 0, barriers 8\nrace 0, barriers 8\n");
  skip("", "skip: helper");
  EXPECT_EXIT(both(), testing::ExitedWithCode(0), "race 1, barriers 4\nrace 1, barriers 4\n");
}

TEST_F(SkippedBarriers, AFileMayBeNamedWithItsFolder) {
  const auto once = [] {
    std::fprintf(stderr, "barriers %d\n", int(pass_twice<1>().ops.barriers));
    std::exit(0);
  };
  skip("gpusim/", "skip: kept");
  EXPECT_EXIT(once(), testing::ExitedWithCode(0), "barriers 4");
}

TEST_F(SkippedBarriers, ABarrierThatNoThreadReachesIsAnError) {
  const auto once = [] {
    std::fprintf(stderr, "barriers %d\n", int(pass_twice<1>().ops.barriers));
    std::exit(0);
  };
  skip("shared", "skip: helper");  // of no such file
  EXPECT_EXIT(once(), testing::ExitedWithCode(1),
              "barriers 8\ngpusim: GPUSIM_SKIP_BARRIER=.* no thread reached");
  unsetenv("GPUSIM_SKIP_BARRIER");
  skip("", "rounds");  // of another kernel
  EXPECT_EXIT(once(), testing::ExitedWithCode(1),
              "barriers 8\ngpusim: GPUSIM_SKIP_BARRIER=.* no thread reached");
}

// ---- __syncwarp and what else a warp does together ------------------------------------------------------------

__global__ void a_lane_is_missing(int* out, unsigned mask) {
  if (threadIdx.x % 32 != 7) __syncwarp(mask);  // missing lane
  if (threadIdx.x % 32 == 7) __syncthreads();   // at the block's
  out[threadIdx.x] = 1;
}

TEST(Barriers, ALaneThatTheMaskNamesIsElsewhere) {
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, a_lane_is_missing, out.get(), kFull);
  EXPECT_EQ(told(report), Defects{divergence({line_of("missing lane"), line_of("at the block's")})});
  EXPECT_TRUE(says(
      report, "Divergent thread(s) in warp 0 of block (0,0,0): 31 of 32 threads named in mask 0xffffffff"));
}

__global__ void leaves_its_warp(int* out) {
  if (threadIdx.x == 7) return;
  __syncwarp();
  out[threadIdx.x] = __shfl_sync(kFull, int(threadIdx.x), 3);
}

TEST(Barriers, LanesThatHaveReturnedAreNotMissed) {
  const Buffer<int> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, leaves_its_warp, out.get())));
  EXPECT_EQ(out.host()[0], 3);
}

__global__ void shuffle_in_a_branch(int* out) {
  int v = int(threadIdx.x);
  if (threadIdx.x < 16) v = __shfl_sync(kFull, v, 0);  // branch: shuffle
  __syncthreads();                                     // branch: after
  out[threadIdx.x] = v;
}

TEST(Barriers, AShuffleThatHalfTheWarpReaches) {
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, shuffle_in_a_branch, out.get());
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kBarrierDivergence);
  EXPECT_TRUE(says(report, "16 of 32 threads"));
}

__global__ void not_in_its_own_mask(int* out) {
  out[threadIdx.x] = int(__ballot_sync(0x0000ffffu, 1));  // not mine
}

TEST(Barriers, ALaneThatItsOwnMaskDoesNotName) {
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, not_in_its_own_mask, out.get());
  EXPECT_EQ(told(report), Defects{divergence({line_of("not mine")})});
  EXPECT_TRUE(
      says(report, "Mask 0x0000ffff in block (0,0,0) does not name thread (16,0,0), which has reached"));
}

__global__ void different_masks(int* out) {
  __syncwarp(threadIdx.x < 8 ? 0x0000ffffu : kFull);  // masks
  out[threadIdx.x] = 1;
}

TEST(Barriers, LanesThatDisagreeAboutTheMask) {
  const Buffer<int> out("out", 32);
  EXPECT_EQ(told(run({1, 32}, different_masks, out.get())), Defects{divergence({line_of("masks")})});
}

// ---- threads that never end -----------------------------------------------------------------------------------

__global__ void waits_for_ever(volatile int* flag) {
  while (flag[0] == 0) {  // for ever
  }
}

TEST(Barriers, AllThreadsSpin) {
  const auto flag = Buffer<int>::zeros("flag", 1);
  const gpusim::Report report = run({1, 1}, waits_for_ever, flag.get());
  EXPECT_EQ(told(report), Defects{divergence({line_of("for ever")})});
  EXPECT_TRUE(says(report, "Thread(s) in block (0,0,0) do not end"));
}

/// Warp 0 waits for warp 1, lane 0 for lane 1: both get their turn.
__global__ void producer_and_consumer(int* flags, int* out) {
  if (threadIdx.x == 32) atomicExch(&flags[0], 1);
  if (threadIdx.x == 1) {
    while (atomicAdd(&flags[0], 0) == 0) {
    }
    atomicExch(&flags[1], 1);
  }
  if (threadIdx.x == 0) {
    while (atomicAdd(&flags[1], 0) == 0) {
    }
    out[0] = 1;
  }
}

TEST(Barriers, SpinningThreadsLetOthersRun) {
  const auto flags = Buffer<int>::zeros("flags", 2);
  const auto out = Buffer<int>::zeros("out", 1);
  EXPECT_TRUE(is_clean(run({1, 64}, producer_and_consumer, flags.get(), out.get())));
  EXPECT_EQ(out.host()[0], 1);
}

TEST(Barriers, TheSimulatorIsFitForUseAfterwards) {
  const auto in = Buffer<float>::zeros("in", 64);
  const Buffer<float> out("out", 128);
  run({20, 128}, two_barriers, out.get());
  EXPECT_TRUE(is_clean(run({1, 64}, early_exit, in.get(), out.get(), 64)));
}

}  // namespace
}  // namespace gpusim_test
