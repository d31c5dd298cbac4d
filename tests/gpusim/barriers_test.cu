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

/// "barriers_test.cu:48": the line with this tag.
std::string at(const std::string& tag) { return "barriers_test.cu:" + std::to_string(line_of(tag)); }

// ---- __syncthreads ----------------------------------------------------------------------------------------

__global__ void some_wait(int* out) {
  if (threadIdx.x < 96) {
    __syncthreads();  // some wait
  } else {
    while (atomicAdd(out, 0) == 0) {  // some spin
    }
  }
}
__global__ void half_a_warp_waits(float* out) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
    out[threadIdx.x] = 1.0f;
  }
}

TEST(Barriers, ThreadsThatLeaveTheKernelAreNotWaitedFor) {
  const Buffer<float> out("out", 128);
  EXPECT_TRUE(is_clean(run({1, 128}, half_a_warp_waits, out.get())));
  EXPECT_EQ(out.host()[126], 1.0f);
}

__global__ void half_a_warp_goes_on(float* out) {
  if (threadIdx.x % 2 == 0) __syncthreads();  // half waits
  out[threadIdx.x] = 1.0f;                    // half goes on
}

// On a GPU, this ends too; synccheck calls it "Divergent thread(s) in warp".
TEST(Barriers, UnlessTheyHaveGoneOnWithoutIt) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 128);
  const gpusim::Report report = run({1, 128}, half_a_warp_goes_on, out.get());
  EXPECT_EQ(told(report), Defects{divergence({line_of("half waits"), line_of("half goes on")})});
  EXPECT_TRUE(says(report, "64 of 128 threads reached __syncthreads() at " + at("half waits") +
                               "\n=========     threads 0, 2, 4, 6 and 60 more wait there"
                               "\n=========     threads 1, 3, 5, 7 and 60 more have gone on to " +
                               at("half goes on") + ", and returned"));
}

/// The sum of a block, as in a reduction whose barriers have slipped into a branch.
__global__ void sum_of_block(const float* in, float* out) {
  __shared__ float sPartial[4];
  const bool first_lane = threadIdx.x % 32 == 0;
  if (first_lane) {
    sPartial[threadIdx.x / 32] = in[threadIdx.x];
    __syncthreads();  // inside: first
    sPartial[threadIdx.x / 32] += 1.0f;
    __syncthreads();  // inside: second
  }
  float sum = 0.0f;
  for (int warp = 0; warp < 4; ++warp) {
    sum += sPartial[warp];  // inside: read
  }
  out[threadIdx.x] = sum;  // inside: write
}

TEST(Barriers, InABranchOfTheFirstLanes) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto in = Buffer<float>::zeros("in", 128);
  const Buffer<float> out("out", 128);
  const gpusim::Report report = run({1, 128}, sum_of_block, in.get(), out.get());
  EXPECT_TRUE(says(report,
                   "Barrier error detected. Divergent thread(s) in block (0,0,0): 4 of 128 threads reached "
                   "__syncthreads() at " +
                       at("inside: first") +
                       "\n=========     threads 0, 32, 64 and 96 wait there"
                       "\n=========     threads 1 to 31, 33 to 63, 65 to 95 and 97 to 127 have gone on to " +
                       at("inside: write") + ", and returned  [1 hazard]"));
}

__global__ void leaves_in_a_loop(const float* in, float* out, int n) {
  __shared__ float tile[64];
  const int thread = int(threadIdx.x);
  for (int i = 0; i < 4; ++i) {
    tile[thread] = in[64 * i + thread];
    __syncthreads();
    if (thread >= n)
      out[thread] = tile[thread];  // later in the loop than the barrier that it does not come to
    if (thread >= n + i) return;
    out[thread] = tile[(thread + 1) % 64];
    __syncthreads();
  }
}

TEST(Barriers, AThreadMayReturnFromALoop) {
  const auto in = Buffer<float>::zeros("in", 4 * 64);
  const Buffer<float> out("out", 64);
  for (int n : {1, 31, 33, 60}) EXPECT_TRUE(is_clean(run({1, 64}, leaves_in_a_loop, in.get(), out.get(), n)));
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
  EXPECT_EQ(told(report), Defects{divergence({line_of("some wait"), line_of("some spin")})});
  EXPECT_TRUE(says(report, "Barrier error detected. Divergent thread(s) in block (0,0,0): 96 of 97 threads"));
  EXPECT_TRUE(says(report, "thread 96 keeps running at " + at("some spin")));
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
  EXPECT_TRUE(says(report, "reached __syncthreads() at " + at("barrier: second") +
                               "\n=========     threads 32 to 127 wait there"
                               "\n=========     threads 0 to 31 wait in __syncthreads() at " +
                               at("barrier: first")));
}

__global__ void three_places(int* out) {
  const unsigned thread = threadIdx.x + 8 * threadIdx.y;
  if (thread == 60) return;
  if (threadIdx.y == 7) {
    __syncthreads();  // three: last row
  } else {
    __syncthreads_count(1);  // three: other rows
  }
  out[thread] = 1;
}

TEST(Barriers, ThreadsOfAPlaneAndThreadsThatHaveReturned) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<int> out("out", 64);
  EXPECT_TRUE(says(
      run({1, dim3(8, 8)}, three_places, out.get()),
      "56 of 64 threads reached __syncthreads_count() at " + at("three: other rows") +
          "\n=========     threads (0,0,0) to (7,6,0) wait there"
          "\n=========     threads (0,7,0) to (3,7,0) and (5,7,0) to (7,7,0) wait in __syncthreads() at " +
          at("three: last row") + "\n=========     thread (4,7,0) has returned"));
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

/// Inlined into its callers, as are all functions of a kernel.
__device__ int all_even(int value) {
  return __syncthreads_and(value % 2 == 0);  // helper: barrier
}
__device__ int none_odd(int value) {
  return all_even(value);  // helper: caller
}
__global__ void calls_a_helper(int* out) {
  if (threadIdx.x < 40) out[threadIdx.x] = none_odd(int(threadIdx.x));  // helper: kernel
  out[threadIdx.x] = all_even(2);                                       // helper: others
}

TEST(Barriers, InAHelperItsCallersAreNamed) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<int> out("out", 64);
  const gpusim::Report report = run({1, 64}, calls_a_helper, out.get());
  EXPECT_TRUE(says(report, "40 of 64 threads reached __syncthreads_and() at " + at("helper: barrier") +
                               " (from " + at("helper: caller") + ", " + at("helper: kernel") + ")"));
  EXPECT_TRUE(says(report, "threads 40 to 63 wait in __syncthreads_and() at " + at("helper: barrier") +
                               " (from " + at("helper: others") + ")"));
}

TEST(Barriers, CountAndOr) {
  const Buffer<int> out("out", 48);
  EXPECT_TRUE(is_clean(run({1, 48}, counts, out.get())));
  for (int value : out.host()) EXPECT_EQ(value, 24 + 100 + 400);
}

// ---- GPUSIM_SKIP_BARRIER ----------------------------------------------------------------------------------

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

// ---- __syncwarp and what else a warp does together --------------------------------------------------------

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
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(says(
      report, "warp 0 of block (0,0,0): 16 of 32 threads named in mask 0xffffffff reached __shfl_sync() at " +
                  at("branch: shuffle") +
                  "\n=========     lanes 0 to 15 wait there"
                  "\n=========     lanes 16 to 31 wait in __syncthreads() at " +
                  at("branch: after")));
}

__device__ __forceinline__ int sum_of_warp(int v) {
  for (int mask = 16; mask > 0; mask /= 2) v += __shfl_xor_sync(kFull, v, mask);  // loop: sum
  return v;
}
template <bool kSum>
__global__ void shuffles_in_a_loop(int* out, int n) {
  int v = 0;
  for (int i = int(threadIdx.x); i < n; i += 32) {
    v += __shfl_xor_sync(kFull, i, 1);  // loop: shuffle
  }
  if (kSum) v = sum_of_warp(v);  // loop: after
  out[threadIdx.x] = v;          // loop: write
}

// A GPU goes on with the values of lanes that are elsewhere.
TEST(Barriers, AShuffleInALoopThatSomeLanesHaveLeft) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<int> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, shuffles_in_a_loop<true>, out.get(), 64)));
  gpusim::Report report = run({1, 32}, shuffles_in_a_loop<true>, out.get(), 40);
  EXPECT_EQ(told(report),
            Defects{divergence({line_of("loop: sum"), line_of("loop: after"), line_of("loop: shuffle")})});
  EXPECT_TRUE(says(report, "24 of 32 threads named in mask 0xffffffff reached __shfl_xor_sync() at " +
                               at("loop: sum") + " (from " + at("loop: after") +
                               ")\n=========     lanes 8 to 31 wait there"
                               "\n=========     lanes 0 to 7 wait in __shfl_xor_sync() at " +
                               at("loop: shuffle")));
  report = run({1, 32}, shuffles_in_a_loop<false>, out.get(), 40);
  EXPECT_EQ(told(report), Defects{divergence({line_of("loop: shuffle"), line_of("loop: write")})});
  EXPECT_TRUE(says(report, "8 of 32 threads named in mask 0xffffffff reached __shfl_xor_sync() at " +
                               at("loop: shuffle") +
                               "\n=========     lanes 0 to 7 wait there"
                               "\n=========     lanes 8 to 31 have gone on to " +
                               at("loop: write") + ", and returned"));
}

__global__ void two_votes(int* out) {
  int votes = 0;
  if (threadIdx.x < 16) {
    votes = __any_sync(kFull, 1);  // votes: any
  } else {
    votes = __all_sync(kFull, 1);  // votes: all
  }
  out[threadIdx.x] = votes;
}

TEST(Barriers, TheSameVoteHasToBeReached) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, two_votes, out.get());
  EXPECT_TRUE(says(report, "16 of 32 threads named in mask 0xffffffff reached __any_sync() at " +
                               at("votes: any") +
                               "\n=========     lanes 0 to 15 wait there"
                               "\n=========     lanes 16 to 31 wait in __all_sync() at " +
                               at("votes: all")));
}

__global__ void two_warp_barriers(int* out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = 1;
    __syncwarp();
  } else {
    __syncwarp();
    out[threadIdx.x] = out[threadIdx.x - 16];
  }
}

TEST(Barriers, WhileBranchesMayMeetInDifferentWarpBarriers) {
  const Buffer<int> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, two_warp_barriers, out.get())));
  EXPECT_EQ(out.host()[31], 1);
}

__global__ void reads_a_lane(int* out, int lane) {
  if (threadIdx.x % 32 == 7) return;
  out[threadIdx.x] = __shfl_sync(kFull, 5, lane);  // absent
}

TEST(Barriers, AShuffleFromALaneThatHasReturned) {
  const Buffer<int> out("out", 48);
  EXPECT_TRUE(is_clean(run({1, 48}, reads_a_lane, out.get(), 8)));
  gpusim::Report report = run({1, 32}, reads_a_lane, out.get(), 7);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kBarrierDivergence, {line_of("absent")}, 31}}));
  EXPECT_TRUE(
      says(report,
           "Barrier error detected. Lane 0 of warp 0 in block (0,0,0) reads the value of lane 7, which has "
           "returned, in __shfl_sync() at " +
               at("absent")));
  EXPECT_TRUE(
      says(report,
           "    mask 0xffffffff says that lane 7 takes part: it must reach the shuffle, or be left out "
           "of the mask"));
  EXPECT_EQ(out.host()[0], -1) << "undefined";
  report = run({1, 48}, reads_a_lane, out.get(), 20);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kBarrierDivergence, {line_of("absent")}, 15}}));
  EXPECT_TRUE(says(
      report, "Lane 0 of warp 1 in block (0,0,0) reads the value of lane 20, which does not exist, in "));
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
  const gpusim::Report report = run({1, 32}, different_masks, out.get());
  EXPECT_EQ(told(report), Defects{divergence({line_of("masks"), line_of("masks")})});
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(says(report, "24 of 32 threads named in mask 0xffffffff reached __syncwarp() at " +
                               at("masks") +
                               "\n=========     lanes 8 to 31 wait there"
                               "\n=========     lanes 0 to 7 wait in __syncwarp() at " +
                               at("masks") + " with mask 0x0000ffff"));
}

// ---- threads that never end -------------------------------------------------------------------------------

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
