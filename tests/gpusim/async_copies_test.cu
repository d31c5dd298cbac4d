/// @file
/// Asynchronous copies: they land when they are waited for, and are visible to others after the barrier.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

constexpr int kThreads = 64;
constexpr int kTiles = 6;

/// The possible mistakes in the pipeline below.
struct Right {
  static constexpr bool kWaits = true;
  static constexpr int kPending = 1;            ///< groups that may be in flight while a tile is used
  static constexpr bool kBarrierEarly = false;  ///< before the wait
  static constexpr bool kBarrierBefore = true;  ///< between the wait and the use
  static constexpr bool kBarrierAfter = true;   ///< between the use and the copy that overwrites it
};
struct NoWait : Right {
  static constexpr bool kWaits = false;
};
struct TooLax : Right {
  static constexpr int kPending = 2;
};
struct TooStrict : Right {
  static constexpr int kPending = 0;
};
struct NoBarrierBefore : Right {
  static constexpr bool kBarrierBefore = false;
};
struct BarrierTooEarly : NoBarrierBefore {
  static constexpr bool kBarrierEarly = true;
};
struct NoBarrierAfter : Right {
  static constexpr bool kBarrierAfter = false;
};

/// out[tile * kThreads + i] = in[tile * kThreads + kThreads - 1 - i], a tile at a time, with the next one in
/// flight.
template <class Plan>
__global__ void pipeline(const float* in, float* out) {
  __shared__ float tiles[2][kThreads];
  const int i = int(threadIdx.x);
  __pipeline_memcpy_async(&tiles[0][i], &in[i], sizeof(float));  // pipeline: first copy
  __pipeline_commit();
  for (int tile = 0; tile < kTiles; ++tile) {
    if (tile + 1 < kTiles) {
      const float* next = in + (tile + 1) * kThreads + i;
      __pipeline_memcpy_async(&tiles[(tile + 1) % 2][i], next, sizeof(float));  // pipeline: next copy
    }
    __pipeline_commit();
    if (Plan::kBarrierEarly) __syncthreads();                 // pipeline: early barrier
    if (Plan::kWaits) __pipeline_wait_prior(Plan::kPending);  // pipeline: wait
    if (Plan::kBarrierBefore) __syncthreads();
    out[tile * kThreads + i] = tiles[tile % 2][kThreads - 1 - i];  // pipeline: use
    if (Plan::kBarrierAfter) __syncthreads();
  }
}

std::vector<float> numbers(int count) {
  std::vector<float> values(std::size_t(count), 0.0f);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::vector<float> reversed_tiles() {
  std::vector<float> result;
  for (int tile = 0; tile < kTiles; ++tile) {
    for (int i = 0; i < kThreads; ++i) result.push_back(float(tile * kThreads + kThreads - i));
  }
  return result;
}

TEST(AsyncCopies, APipelineOfTwoStages) {
  const Buffer<float> in("in", numbers(kTiles * kThreads));
  const Buffer<float> out("out", kTiles * kThreads);
  const gpusim::Report report = run({1, kThreads}, pipeline<Right>, in.get(), out.get());
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(out.host(), reversed_tiles());
  EXPECT_EQ(report.tensors.at("in").read_bytes, kTiles * kThreads * 4);
}

TEST(AsyncCopies, WithoutAWaitOldDataIsReadAndReported) {
  const Buffer<float> in("in", numbers(kTiles * kThreads));
  const Buffer<float> out("out", kTiles * kThreads);
  const gpusim::Report report = run({1, kThreads}, pipeline<NoWait>, in.get(), out.get());
  ASSERT_FALSE(report.defects.empty());
  EXPECT_NE(out.host(), reversed_tiles());
  const Told first{DefectKind::kRace, {line_of("pipeline: first copy"), line_of("pipeline: use")}, 0};
  bool found = false;
  for (const Told& t : told(report)) found |= t.kind == first.kind && t.lines == first.lines;
  EXPECT_TRUE(found) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report, "Async copy access by thread"));
  EXPECT_TRUE(says(report, "the copy has not been waited for  ["));
  EXPECT_FALSE(says(report, "leaves its group in flight"));
}

/// "async_copies_test.cu:48", the line with this mark.
std::string place_of(const std::string& tag) {
  return "async_copies_test.cu:" + std::to_string(line_of(tag));
}

TEST(AsyncCopies, AWaitThatIsTooLaxIsNamed) {
  const Buffer<float> in("in", numbers(kTiles * kThreads));
  const Buffer<float> out("out", kTiles * kThreads);
  const gpusim::Report report = run({1, kThreads}, pipeline<TooLax>, in.get(), out.get());
  EXPECT_NE(out.host(), reversed_tiles());
  bool found = false;
  for (const Told& t : told(report)) {
    found |= t.lines == std::vector<int>{line_of("pipeline: first copy"), line_of("pipeline: use"),
                                         line_of("pipeline: wait")};
  }
  EXPECT_TRUE(found) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report, "the copy has not been waited for; the last wait before the read, at " +
                               place_of("pipeline: wait") + ", leaves its group in flight  ["));
}

TEST(AsyncCopies, WithoutABarrierOnlyTheOwnPartHasArrived) {
  const Buffer<float> in("in", numbers(kTiles * kThreads));
  const Buffer<float> out("out", kTiles * kThreads);
  const gpusim::Report report = run({1, kThreads}, pipeline<NoBarrierBefore>, in.get(), out.get());
  bool found = false;
  for (const Told& t : told(report)) {
    found |= t.lines == std::vector<int>{line_of("pipeline: first copy"), line_of("pipeline: use")};
  }
  EXPECT_TRUE(found) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report, "no __syncthreads() between the wait for the copy and the other access  ["));
  EXPECT_FALSE(says(report, "the copy has not been waited for"));
}

TEST(AsyncCopies, ABarrierBeforeTheWaitIsNamed) {
  const Buffer<float> in("in", numbers(kTiles * kThreads));
  const Buffer<float> out("out", kTiles * kThreads);
  const gpusim::Report report = run({1, kThreads}, pipeline<BarrierTooEarly>, in.get(), out.get());
  EXPECT_TRUE(says(report, "the __syncthreads() at " + place_of("pipeline: early barrier") +
                               " comes before the wait for the copy, not after it  ["));
  EXPECT_FALSE(says(report, "the copy has not been waited for"));
  EXPECT_FALSE(says(report, "no __syncthreads()"));
}

/// Each thread copies one number and uses it alone: nothing but the wait is missing.
__global__ void waits_for_nothing(const float* in, float* out) {
  __shared__ float tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], sizeof(float));  // own copy: copy
  __pipeline_commit();
  __pipeline_wait_prior(1);              // own copy: wait
  out[threadIdx.x] = tile[threadIdx.x];  // own copy: use
}

TEST(AsyncCopies, AThreadThatHasNotWaitedForItsOwnCopy) {
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, waits_for_nothing, in.get(), out.get());
  EXPECT_TRUE(says(report, "the last wait before the read, at " + place_of("own copy: wait") +
                               ", leaves its group in flight"));
}

/// One warp copies, the other one reads, and both meet before the wait.
__global__ void barrier_before_wait(const float* in, float* out, bool waits_first) {
  __shared__ float tile[32];
  const int lane = int(threadIdx.x % 32);
  if (threadIdx.x < 32) {
    __pipeline_memcpy_async(&tile[lane], &in[lane], sizeof(float));
    __pipeline_commit();
  }
  if (waits_first) __pipeline_wait_prior(0);
  __syncthreads();  // one warp copies: barrier
  if (!waits_first) __pipeline_wait_prior(0);
  if (threadIdx.x >= 32) out[lane] = tile[lane];
}

TEST(AsyncCopies, ABarrierBeforeTheWaitOfAnotherWarp) {
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 64}, barrier_before_wait, in.get(), out.get(), true)));
  EXPECT_TRUE(says(run({1, 64}, barrier_before_wait, in.get(), out.get(), false),
                   "the __syncthreads() at " + place_of("one warp copies: barrier") +
                       " comes before the wait for the copy, not after it"));
}

__global__ void waited_for_by_one_warp(const float* in, float* out) {
  __shared__ float tile[32];
  if (threadIdx.x < 32) {
    __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], sizeof(float));  // one warp: copy
    __pipeline_commit();
    __pipeline_wait_prior(0);
  } else {
    out[threadIdx.x - 32] = tile[threadIdx.x - 32];  // one warp: use
  }
}

TEST(AsyncCopies, WhatHasLandedIsTheCopysWrite) {
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 64}, waited_for_by_one_warp, in.get(), out.get());
  EXPECT_EQ(told(report),
            (Defects{{DefectKind::kRace, {line_of("one warp: copy"), line_of("one warp: use")}, 32}}));
  EXPECT_TRUE(says(report, "Async copy access by thread (0,0,0)"));
  EXPECT_TRUE(says(report, "no __syncthreads() between the wait for the copy and the other access"));
}

TEST(AsyncCopies, OverwritingWhatOthersStillRead) {
  const Buffer<float> in("in", numbers(kTiles * kThreads));
  const Buffer<float> out("out", kTiles * kThreads);
  const gpusim::Report report = run({1, kThreads}, pipeline<NoBarrierAfter>, in.get(), out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kRace,
                                    {line_of("pipeline: next copy"), line_of("pipeline: use")},
                                    (kTiles - 2) * kThreads}}));
  EXPECT_TRUE(says(report, "no __syncthreads() between the two"));
}

__global__ void to_global_memory(const int* in, int* out) {
  __pipeline_memcpy_async(&out[threadIdx.x], &in[threadIdx.x], sizeof(int));  // to global: copy
  __pipeline_commit();
  if (out[31 - threadIdx.x] == 0) __pipeline_wait_prior(0);  // to global: use
}

TEST(AsyncCopies, ToGlobalMemoryIsARaceAsWell) {
  const auto in = Buffer<int>::zeros("in", 32), out = Buffer<int>::zeros("out", 32);
  const gpusim::Report report = run({1, 32}, to_global_memory, in.get(), out.get());
  ASSERT_FALSE(report.defects.empty());
  EXPECT_EQ(told(report)[0].lines, (std::vector<int>{line_of("to global: copy"), line_of("to global: use")}));
  EXPECT_TRUE(says(report, "the copy has not been waited for  ["));
}

// ---- waits that come too early ----------------------------------------------------------------------------

using EarlyWaits = std::map<std::string, std::int64_t>;

template <class Plan>
std::int64_t over_waited_in_pipeline() {
  const Buffer<float> in("in", numbers(kTiles * kThreads));
  const Buffer<float> out("out", kTiles * kThreads);
  return run({3, kThreads}, pipeline<Plan>, in.get(), out.get()).ops.over_waited;
}

TEST(OverWaited, EveryGroupThatTheNextWaitWouldHaveCovered) {
  EXPECT_EQ(over_waited_in_pipeline<Right>(), 0);
  EXPECT_EQ(over_waited_in_pipeline<TooStrict>(), 3 * 2 * (kTiles - 1))
      << "blocks, warps, all tiles but the first";
}

/// The same with three tiles in shared memory, and one barrier for each: a warp waits for the next tile while
/// others still use this one. Each warp uses what the other one has copied. Near the end, groups are empty.
template <int kPending>
__global__ void ring(const float* in, float* out) {
  __shared__ float tiles[3][kThreads];
  const int i = int(threadIdx.x);
  const auto start = [&](int tile) {
    if (tile < kTiles) __pipeline_memcpy_async(&tiles[tile % 3][i], &in[tile * kThreads + i], sizeof(float));
    __pipeline_commit();
  };
  start(0);
  start(1);
  for (int tile = 0; tile < kTiles; ++tile) {
    __pipeline_wait_prior(kPending);  // ring: wait
    __syncthreads();
    start(tile + 2);
    out[tile * kThreads + i] = tiles[tile % 3][kThreads - 1 - i];
  }
}

TEST(OverWaited, AWarpThatIsAheadHasNotWaitedTooEarly) {
  const Buffer<float> in("in", numbers(kTiles * kThreads));
  const Buffer<float> out("out", kTiles * kThreads);
  const gpusim::Report right = run({1, kThreads}, ring<1>, in.get(), out.get());
  EXPECT_TRUE(is_clean(right));
  EXPECT_EQ(right.ops.over_waited, 0);
  const gpusim::Report strict = run({1, kThreads}, ring<0>, in.get(), out.get());
  EXPECT_TRUE(is_clean(strict));
  EXPECT_EQ(strict.ops.over_waited, 2 * (kTiles - 1));
  EXPECT_EQ(right.early_waits, (EarlyWaits{}));
  EXPECT_EQ(strict.early_waits, (EarlyWaits{{place_of("ring: wait"), strict.ops.over_waited}}));
  EXPECT_EQ(out.host(), reversed_tiles());
}

/// Copies two groups and waits for both, or for the first; then uses the first, waits again, and uses the
/// second. The second wait allows `pending` groups, of which `later` have been committed in between.
__global__ void two_waits(const int* in, int* out, int first_pending, int later, int pending) {
  __shared__ int tile[2][32];
  const int i = int(threadIdx.x);
  for (int group = 0; group < 2; ++group) {
    __pipeline_memcpy_async(&tile[group][i], &in[32 * group + i], sizeof(int));
    __pipeline_commit();
  }
  __pipeline_wait_prior(std::size_t(first_pending));  // two waits: first
  out[i] = tile[0][i];
  for (int group = 0; group < later; ++group) __pipeline_commit();
  __pipeline_wait_prior(std::size_t(pending));
  out[32 + i] = tile[1][i];
}

TEST(OverWaited, OnlyIfTheLaterWaitWouldHaveBeenEnough) {
  const auto in = Buffer<int>::zeros("in", 64);
  const Buffer<int> out("out", 64);
  const auto over_waited = [&](int first_pending, int later, int pending) {
    const gpusim::Report report = run({1, 32}, two_waits, in.get(), out.get(), first_pending, later, pending);
    EXPECT_TRUE(is_clean(report));
    const std::int64_t count = report.ops.over_waited;
    EarlyWaits waits;
    if (count != 0) waits[place_of("two waits: first")] = count;
    EXPECT_EQ(report.early_waits, waits);
    return count;
  };
  EXPECT_EQ(over_waited(1, 0, 0), 0) << "each wait is for what is used next";
  EXPECT_EQ(over_waited(0, 0, 0), 1);
  EXPECT_EQ(over_waited(0, 0, 1), 0) << "the second group could still be in flight";
  EXPECT_EQ(over_waited(0, 3, 3), 1);
  EXPECT_EQ(over_waited(0, 3, 4), 0);
}

/// Uses half words, and bytes of only one of the two groups that the first wait has covered.
__global__ void halves(const int* in, short* out, bool both) {
  __shared__ int tile[2][32];
  const int i = int(threadIdx.x);
  reinterpret_cast<short*>(tile)[i] = 0;  // so that words are in parts
  __syncwarp();
  for (int group = 0; group < 2; ++group) {
    __pipeline_memcpy_async(&tile[group][i], &in[32 * group + i], sizeof(int));
    __pipeline_commit();
  }
  __pipeline_wait_prior(0);
  __pipeline_wait_prior(0);
  for (int group = 0; group < (both ? 2 : 1); ++group) {
    out[64 * group + 2 * i] = reinterpret_cast<short*>(&tile[group][i])[0];
    out[64 * group + 2 * i + 1] = reinterpret_cast<short*>(&tile[group][i])[1];
  }
}

TEST(OverWaited, CountsAGroupOnceAndOnlyIfItIsUsed) {
  const auto in = Buffer<int>::zeros("in", 64);
  const Buffer<short> out("out", 128);
  EXPECT_EQ(run({1, 32}, halves, in.get(), out.get(), false).ops.over_waited, 1);
  EXPECT_EQ(run({1, 32}, halves, in.get(), out.get(), true).ops.over_waited, 2);
}

/// A thread's own pipeline: it copies over what it has just used, and meets nobody.
template <int kPending>
__global__ void on_its_own(const float* in, float* out) {
  __shared__ float tiles[2][kThreads];
  const int i = int(threadIdx.x);
  const auto start = [&](int tile) {
    if (tile < kTiles) __pipeline_memcpy_async(&tiles[tile % 2][i], &in[tile * kThreads + i], sizeof(float));
    __pipeline_commit();
  };
  start(0);
  for (int tile = 0; tile < kTiles; ++tile) {
    start(tile + 1);
    __pipeline_wait_prior(kPending);
    out[tile * kThreads + i] = tiles[tile % 2][i];
  }
}

TEST(OverWaited, InAThreadsOwnPipeline) {
  const Buffer<float> in("in", numbers(kTiles * kThreads));
  const Buffer<float> out("out", kTiles * kThreads);
  const gpusim::Report right = run({1, kThreads}, on_its_own<1>, in.get(), out.get());
  EXPECT_TRUE(is_clean(right));
  EXPECT_EQ(right.ops.over_waited, 0);
  EXPECT_EQ(run({1, kThreads}, on_its_own<0>, in.get(), out.get()).ops.over_waited, 2 * (kTiles - 1));
}

// ---- sizes, zero fill, groups -----------------------------------------------------------------------------

__global__ void zero_filled(const float* in, float4* out, int valid) {
  __shared__ float4 tile[32];
  const int bytes = min(max(valid - 4 * int(threadIdx.x), 0), 4) * 4;
  __pipeline_memcpy_async(&tile[threadIdx.x], in + 4 * threadIdx.x, 16, std::size_t(16 - bytes));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

TEST(AsyncCopies, ZeroFill) {
  for (int valid : {0, 1, 2, 3, 4, 63, 64, 127, 128}) {
    // Nothing is read after the valid part, where the allocation ends.
    const Buffer<float> in("in", numbers(std::max(valid, 1)));
    const Buffer<float4> out("out", 32);
    const gpusim::Report report = run({1, 32}, zero_filled, in.get(), out.get(), valid);
    EXPECT_TRUE(is_clean(report)) << valid;
    EXPECT_EQ(valid == 0 ? 0 : report.tensors.at("in").read_bytes, valid * 4);
    for (int i = 0; i < 32; ++i) {
      const float4 v = out.host()[std::size_t(31 - i)];
      const auto expected = [&](int k) { return 4 * i + k < valid ? float(4 * i + k + 1) : 0.0f; };
      EXPECT_TRUE(v.x == expected(0) && v.y == expected(1) && v.z == expected(2) && v.w == expected(3)) << i;
    }
  }
}

template <class T>
__global__ void one_copy(const T* in, T* out) {
  __shared__ T tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], sizeof(T));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = tile[threadIdx.x];
}

template <class T>
gpusim::Report copy_once() {
  const auto in = Buffer<T>::zeros("in", 32);
  const Buffer<T> out("out", 32);
  return run({1, 32}, one_copy<T>, in.get(), out.get());
}

TEST(AsyncCopies, EachSizeIsOneRequestAndItsBytes) {
  for (const gpusim::Report& report : {copy_once<float>(), copy_once<float2>(), copy_once<float4>()}) {
    EXPECT_TRUE(is_clean(report)) << "a thread sees its own copy after the wait";
    const gpusim::GlobalCounters& in = report.tensors.at("in");
    EXPECT_EQ(in.read_requests, 1);
    EXPECT_EQ(in.read_bytes, report.tensors.at("out").write_bytes);
    EXPECT_EQ(in.read_sectors * 32, in.read_bytes);
    EXPECT_EQ(report.shared.store_wavefronts, in.read_bytes / 128);
    EXPECT_EQ(report.shared.store_wavefronts_ideal, in.read_bytes / 128);
  }
}

__global__ void groups(const int* in, int* out) {
  __shared__ int tile[4];
  for (int i = 0; i < 4; ++i) {
    __pipeline_memcpy_async(&tile[i], &in[i], sizeof(int));
    __pipeline_commit();
  }
  __pipeline_wait_prior(3);
  out[0] = tile[0];
  __pipeline_wait_prior(1);
  out[1] = tile[1];
  out[2] = tile[2];
  __pipeline_wait_prior(0);
  out[3] = tile[3];
}

TEST(AsyncCopies, GroupsArriveInTheirOrder) {
  const Buffer<int> in("in", std::vector<int>{4, 5, 6, 7});
  const Buffer<int> out("out", 4);
  EXPECT_TRUE(is_clean(run({1, 1}, groups, in.get(), out.get())));
  EXPECT_EQ(out.host(), (std::vector<int>{4, 5, 6, 7}));
}

__global__ void never_waited_for(const int* in) {
  __shared__ int tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], sizeof(int));
  __pipeline_commit();
}

TEST(AsyncCopies, ACopyThatNobodyWaitsForHarmsNobody) {
  const auto in = Buffer<int>::zeros("in", 32);
  EXPECT_TRUE(is_clean(run({50, 32}, never_waited_for, in.get())));
}

__global__ void to_one_place(const int* in, int* out) {
  __shared__ int tile[1];
  __pipeline_memcpy_async(&tile[0], &in[threadIdx.x], sizeof(int));  // one place
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  out[threadIdx.x] = tile[0];
}

TEST(AsyncCopies, TwoToTheSamePlace) {
  const auto in = Buffer<int>::zeros("in", 2);
  const Buffer<int> out("out", 2);
  const gpusim::Report report = run({1, 2}, to_one_place, in.get(), out.get());
  ASSERT_FALSE(report.defects.empty());
  EXPECT_EQ(told(report)[0].lines, (std::vector<int>{line_of("one place"), line_of("one place")}));
}

__global__ void uninitialized_source(const int* in, int* out) {
  __shared__ int tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], sizeof(int));  // source
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = tile[threadIdx.x];
}

TEST(AsyncCopies, TheSourceIsCheckedAsAnyRead) {
  const Buffer<int> in("in", 31);
  const Buffer<int> out("out", 32);
  EXPECT_EQ(told(run({1, 31}, uninitialized_source, in.get(), out.get())),
            (Defects{{DefectKind::kUninitializedRead, {line_of("source")}, 31}}));
  cudaMemset(in, 0, 31 * sizeof(int));
  EXPECT_EQ(told(run({1, 32}, uninitialized_source, in.get(), out.get())),
            (Defects{{DefectKind::kOutOfBounds, {line_of("source")}, 1}}));
}

}  // namespace
}  // namespace gpusim_test
