/// @file
/// Thread-block clusters: their barrier, the shared memory of other blocks, and what is wrong with it.
#include <cuda_runtime.h>
#include <gpusim_cluster.h>
#include <gpusim_hopper.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "clusters.hpp"
#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ float smem[];

namespace {

using gpusim::DefectKind;
using namespace gpusim::ptx;

constexpr int kThreads = 64;

/// "clusters_test.cu:48": the line with this tag.
std::string at(const std::string& tag) { return "clusters_test.cu:" + std::to_string(line_of(tag)); }

// ---- right kernels ----------------------------------------------------------------------------------------

/// out[block] = the sum of in over the cluster, which each block reads from the others.
__global__ void pulled_sum(const float* in, float* out, int blocks) {
  __shared__ float sMine;
  const int rank = cluster_ctarank();
  if (threadIdx.x == 0) sMine = in[blockIdx.x];
  cluster_sync();
  float sum = 0.0f;
  for (int other = 0; other < blocks; ++other) sum += *mapa(&sMine, other);
  barrier_cluster_arrive();
  if (threadIdx.x == 0) out[blockIdx.x] = sum + 100.0f * float(rank);
  barrier_cluster_wait();
}

TEST(Clusters, BlocksReadEachOthersSharedMemory) {
  for (const unsigned size : {1u, 2u, 3u, 4u, 8u}) {
    const unsigned blocks = 6 * size;
    std::vector<float> values(blocks);
    for (unsigned i = 0; i < blocks; ++i) values[i] = float(i);
    const Buffer<float> in("in", values), out("out", blocks);
    const gpusim::Report report =
        run_clusters(size, {blocks, kThreads}, pulled_sum, in.get(), out.get(), int(size));
    EXPECT_TRUE(is_clean(report));
    for (unsigned i = 0; i < blocks; ++i) {
      const unsigned first = i / size * size;
      const unsigned sum = size * first + size * (size - 1) / 2;
      EXPECT_EQ(out.host()[i], float(sum + 100 * (i % size))) << "block " << i << " of clusters of " << size;
    }
    const int warps = int(blocks) * kThreads / 32;
    EXPECT_EQ(report.shared.remote_requests, warps * int(size - 1));
    EXPECT_EQ(report.shared.remote_bytes, 4 * warps * int(size - 1)) << "all lanes read the same";
    EXPECT_EQ(report.ops.cluster_barriers, 2 * warps);
    EXPECT_EQ(report.ops.barriers, 0);
    EXPECT_EQ(report.shared.bytes_per_block, 4);
  }
}

/// Each block sends its value to the others, which may therefore end as soon as they like.
__global__ void pushed_sum(const float* in, float* out, int blocks) {
  float* sValues = smem;
  barrier_cluster_arrive();
  const float mine = in[blockIdx.x];
  barrier_cluster_wait();  // all blocks have started
  if (int(threadIdx.x) < blocks) mapa(sValues, int(threadIdx.x))[cluster_ctarank()] = mine;
  cluster_sync();
  float sum = 0.0f;
  for (int other = 0; other < blocks; ++other) sum += sValues[other];
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

TEST(Clusters, BlocksWriteToEachOthersSharedMemory) {
  const Buffer<float> in("in", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}), out("out", 8);
  const gpusim::Report report =
      run_clusters(4, {8, kThreads, 4 * sizeof(float)}, pushed_sum, in.get(), out.get(), 4);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(out.host(), (std::vector<float>{10, 10, 10, 10, 26, 26, 26, 26}));
  EXPECT_EQ(report.shared.remote_requests, 8);
  EXPECT_EQ(report.shared.remote_bytes, 8 * 3 * 4);
}

__global__ void count_in_first(int* out) {
  __shared__ int sCount;
  if (threadIdx.x == 0) sCount = 0;
  cluster_sync();
  atomicAdd(mapa(&sCount, 0), 1);
  cluster_sync();
  if (cluster_ctarank() == 0 && threadIdx.x == 0) out[blockIdx.x] = sCount;
}

TEST(Clusters, AtomicsOnAnotherBlocksMemory) {
  const Buffer<int> out("out", 4);
  EXPECT_TRUE(is_clean(run_clusters(4, {4, kThreads}, count_in_first, out.get())));
  EXPECT_EQ(out.host()[0], 4 * kThreads);
}

__global__ void ranks(int* out) {
  __shared__ int sBlock;
  const int block = int(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
  sBlock = block;
  cluster_sync();
  out[2 * block] = cluster_ctarank();
  out[2 * block + 1] = *mapa(&sBlock, 0);
  cluster_sync();
}

TEST(Clusters, OfThreeDimensions) {
  const dim3 grid(4, 6, 2);
  const Buffer<int> out("out", 2 * 48);
  EXPECT_TRUE(is_clean(run_clusters(dim3(2, 2, 2), {grid, 1}, ranks, out.get())));
  const std::vector<int> seen = out.host();
  for (int z = 0; z < 2; ++z) {
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 4; ++x) {
        const int block = x + 4 * (y + 6 * z);
        EXPECT_EQ(seen[2 * block], x % 2 + 2 * (y % 2) + 4 * (z % 2));
        EXPECT_EQ(seen[2 * block + 1], x / 2 * 2 + 4 * (y / 2 * 2)) << "the first block of the cluster";
      }
    }
  }
}

__global__ void rank_alone(int* out) { out[blockIdx.x] = cluster_ctarank(); }

TEST(Clusters, WithoutThemEveryBlockHasRank0) {
  const Buffer<int> out("out", 2);
  EXPECT_TRUE(is_clean(run({2, 1}, rank_alone, out.get())));
  EXPECT_EQ(out.host(), (std::vector<int>{0, 0}));
}

/// Threads of other warps learn through a __syncthreads() what one warp has waited for.
__global__ void one_warp_waits_first(float* out) {
  __shared__ float sMine;
  if (threadIdx.x == 0) sMine = 1.0f;
  barrier_cluster_arrive();
  if (threadIdx.x < 32) barrier_cluster_wait();
  __syncthreads();
  const float other = *mapa(&sMine, 1 - cluster_ctarank());
  if (threadIdx.x >= 32) barrier_cluster_wait();
  cluster_sync();
  out[kThreads * blockIdx.x + threadIdx.x] = other;
}

/// And one warp's arrival releases what other warps have done before a __syncthreads(), although these have
/// arrived first.
__global__ void one_warp_arrives_last(float* out) {
  __shared__ float sMine;
  if (threadIdx.x >= 32) barrier_cluster_arrive();
  if (threadIdx.x == 32) sMine = 1.0f;
  __syncthreads();
  if (threadIdx.x < 32) barrier_cluster_arrive();
  barrier_cluster_wait();
  const float other = *mapa(&sMine, 1 - cluster_ctarank());
  cluster_sync();
  out[kThreads * blockIdx.x + threadIdx.x] = other;
}

TEST(Clusters, TheBarriersOfBlocksAddToTheirOrder) {
  const Buffer<float> out("out", 2 * kThreads);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kThreads}, one_warp_waits_first, out.get())));
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kThreads}, one_warp_arrives_last, out.get())));
  EXPECT_EQ(out.host(), std::vector<float>(2 * kThreads, 1.0f));
}

/// Within a block, the cluster's barrier is a barrier as well.
__global__ void reversed_in_block(float* out) {
  __shared__ float sTile[kThreads];
  sTile[threadIdx.x] = float(threadIdx.x);
  cluster_sync();
  out[kThreads * blockIdx.x + threadIdx.x] = sTile[kThreads - 1 - threadIdx.x];
}

TEST(Clusters, TheirBarrierOrdersTheThreadsOfABlock) {
  const Buffer<float> out("out", 2 * kThreads);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kThreads}, reversed_in_block, out.get())));
  EXPECT_EQ(out.host()[kThreads], float(kThreads - 1));
}

__global__ void some_return_early(float* out) {
  __shared__ float sMine;
  if (threadIdx.x >= 32) return;
  if (threadIdx.x == 0) sMine = 1.0f;
  if (cluster_ctarank() == 1 && threadIdx.x >= 16) return;
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = *mapa(&sMine, 1 - cluster_ctarank());
  cluster_sync();
}

TEST(Clusters, ThreadsThatReturnEarlyAreNotWaitedFor) {
  const Buffer<float> out("out", 2);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kThreads}, some_return_early, out.get())));
  EXPECT_EQ(out.host(), (std::vector<float>{1, 1}));
}

/// Block 0 spins until block 1, which has not had its turn, says that it may go on.
__global__ void waits_for_flag(int* out) {
  __shared__ int sFlag;
  if (threadIdx.x == 0) sFlag = 0;
  cluster_sync();
  if (cluster_ctarank() == 0) {
    while (atomicAdd(&sFlag, 0) == 0) {
    }
  } else {
    atomicExch(mapa(&sFlag, 0), 1);
  }
  cluster_sync();
  out[blockIdx.x] = 1;
}

TEST(Clusters, ABlockMaySpinUntilAnotherOneWrites) {
  const Buffer<int> out("out", 2);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, 1}, waits_for_flag, out.get())));
}

/// The cluster's barrier orders accesses to global memory too.
__global__ void through_global_memory(float* x, float* out) {
  if (threadIdx.x == 0) x[blockIdx.x] = 1.0f;
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = x[blockIdx.x ^ 1];
}
__global__ void through_global_memory_of_others(float* x, float* out) {
  if (threadIdx.x == 0) x[blockIdx.x] = 1.0f;  // other cluster writes
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = x[blockIdx.x ^ 2];  // other cluster reads
}

TEST(Clusters, GlobalMemoryIsSharedWithinOneNotBetweenThem) {
  const auto x = Buffer<float>::zeros("x", 8);
  const Buffer<float> out("out", 8);
  EXPECT_TRUE(is_clean(run_clusters(2, {8, kThreads}, through_global_memory, x.get(), out.get())));
  const gpusim::Report report =
      run_clusters(2, {8, kThreads}, through_global_memory_of_others, x.get(), out.get());
  EXPECT_EQ(
      told(report),
      (Defects{{DefectKind::kRace, {line_of("other cluster writes"), line_of("other cluster reads")}, 8}}));
  EXPECT_TRUE(says(
      report, "Write access by thread (0,0,0) of block (2,0,0) at " + at("other cluster writes") +
                  " and Read access by thread (0,0,0) of block (0,0,0) at " + at("other cluster reads")));
}

// ---- races ------------------------------------------------------------------------------------------------

__global__ void no_barrier(float* out) {
  __shared__ float sMine[2];
  if (threadIdx.x < 2) sMine[threadIdx.x] = 1.0f;  // no barrier: write
  __syncthreads();
  const float other = mapa(sMine, 1 - cluster_ctarank())[1];  // no barrier: read
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = other;
}

// Whichever block comes first: block 0 reads what block 1 writes later, block 1 what block 0 has written.
TEST(Clusters, ReadsWithoutABarrierAreRaces) {
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run_clusters(2, {2, kThreads}, no_barrier, out.get());
  EXPECT_EQ(
      told(report),
      (Defects{{DefectKind::kRace, {line_of("no barrier: write"), line_of("no barrier: read")}, kThreads + 1},
               {DefectKind::kUninitializedRead, {line_of("no barrier: read")}, kThreads}}));
  EXPECT_TRUE(says(report, "Race reported between Write access by thread (1,0,0) of block (1,0,0) at " +
                               at("no barrier: write") +
                               " and Read access by thread (0,0,0) of block (0,0,0) at " +
                               at("no barrier: read") + "\n=========     shared memory, " +
                               place("sMine[1]", "byte 4 of \"sMine\"") +
                               " in block (1,0,0): no barrier of the cluster between the two"));
  EXPECT_TRUE(says(
      report, "Uninitialized __shared__ memory read of size 4 bytes at " + at("no barrier: read") +
                  " by thread (0,0,0) in block (0,0,0)\n=========     address is " +
                  place("sMine[1]", "byte 4 of \"sMine\"") + " in block (1,0,0), which nothing has written"));
}

__global__ void between_the_halves(float* out) {
  __shared__ float sMine;
  barrier_cluster_arrive();
  if (threadIdx.x == 0) sMine = 1.0f;  // halves: write
  barrier_cluster_wait();
  const float other = *mapa(&sMine, 1 - cluster_ctarank());  // halves: read
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = other;
}

TEST(Clusters, WhatIsWrittenAfterTheArrivalIsNotReleased) {
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run_clusters(2, {2, kThreads}, between_the_halves, out.get());
  EXPECT_EQ(
      told(report),
      (Defects{{DefectKind::kRace, {line_of("halves: write"), line_of("halves: read")}, 2 * kThreads}}));
}

/// The first warp has something to publish, the other has not.
/// @param published  the threads that publish: 32, or 0
__global__ void one_warp_publishes(float* out, int published) {
  __shared__ float sMine;
  if (threadIdx.x == 0) sMine = 1.0f;  // relaxed: write
  if (int(threadIdx.x) < published) {
    barrier_cluster_arrive();
  } else {
    barrier_cluster_arrive_relaxed();
  }
  barrier_cluster_wait();
  const float other = *mapa(&sMine, 1 - cluster_ctarank());  // relaxed: read
  cluster_sync();
  out[kThreads * blockIdx.x + threadIdx.x] = other;
}

TEST(Clusters, ARelaxedArrivalReleasesNothing) {
  const Buffer<float> out("out", 2 * kThreads);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kThreads}, one_warp_publishes, out.get(), 32)));
  EXPECT_EQ(out.host(), std::vector<float>(2 * kThreads, 1.0f));
  const gpusim::Report report = run_clusters(2, {2, kThreads}, one_warp_publishes, out.get(), 0);
  EXPECT_EQ(
      told(report),
      (Defects{{DefectKind::kRace, {line_of("relaxed: write"), line_of("relaxed: read")}, 2 * kThreads}}));
  EXPECT_EQ(report.ops.cluster_barriers, 2 * 2 * 2) << "relaxed arrivals count";
}

/// What a thread has not published in one phase, it publishes when it arrives in the next one.
__global__ void published_later(float* out) {
  __shared__ float sMine;
  if (threadIdx.x == 0) sMine = 1.0f;
  barrier_cluster_arrive_relaxed();
  barrier_cluster_wait();
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = *mapa(&sMine, 1 - cluster_ctarank());
  cluster_sync();
}

TEST(Clusters, TheNextArrivalReleasesWhatARelaxedOneDidNot) {
  const Buffer<float> out("out", 2);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kThreads}, published_later, out.get())));
}

__global__ void reused_too_early(float* out) {
  __shared__ float sMine;
  if (threadIdx.x == 0) sMine = 1.0f;
  cluster_sync();
  const float other = *mapa(&sMine, 1 - cluster_ctarank());  // reuse: read
  __syncthreads();
  if (threadIdx.x == 0) sMine = 2.0f;  // reuse: write
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = other;
}

TEST(Clusters, MemoryThatOthersReadIsOverwritten) {
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run_clusters(2, {2, kThreads}, reused_too_early, out.get());
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report, "Race reported between"));
  EXPECT_TRUE(says(report, at("reuse: read")));
  EXPECT_TRUE(says(report, at("reuse: write")));
  EXPECT_TRUE(says(report, ": no barrier of the cluster between the two"));
}

__global__ void two_writers(float* out, int apart) {
  __shared__ unsigned char sBytes[8];
  if (threadIdx.x < 8) sBytes[threadIdx.x] = 0;
  cluster_sync();
  if (threadIdx.x == 0) mapa(sBytes, 0)[apart * cluster_ctarank()] = std::uint8_t(apart + 1);  // two writers
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = float(sBytes[0]);
}

TEST(Clusters, TwoBlocksWriteTheSameByteOfAThird) {
  const Buffer<float> out("out", 3);
  for (const int apart : {0, 1, 2}) {
    const gpusim::Report report = run_clusters(3, {3, kThreads}, two_writers, out.get(), apart);
    if (apart > 0) {
      EXPECT_TRUE(is_clean(report)) << "different bytes of a word";
      continue;
    }
    const int line = line_of("two writers");
    EXPECT_EQ(told(report), (Defects{{DefectKind::kRace, {line, line}, 3}}));
    EXPECT_TRUE(says(report, "in block (0,0,0): no barrier of the cluster between the two"));
  }
}

__global__ void two_warps_write(float* out) {
  __shared__ float sMine;
  if (threadIdx.x == 0) sMine = 0.0f;
  cluster_sync();
  if (cluster_ctarank() == 0 && threadIdx.x % 32 == 0) *mapa(&sMine, 1) = float(threadIdx.x);  // two warps
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = sMine;
}

TEST(Clusters, TwoWarpsOfABlockWriteTheSameWordOfAnother) {
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run_clusters(2, {2, kThreads}, two_warps_write, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kRace, {line_of("two warps"), line_of("two warps")}, 1}}));
  EXPECT_TRUE(says(
      report, "shared memory, byte 0 of \"sMine\" in block (1,0,0): no __syncthreads() between the two"));
}

// ---- the beginning and the end of the other block ---------------------------------------------------------

__global__ void ends_early(float* out, int reader) {
  __shared__ float sMine;
  if (threadIdx.x == 0) sMine = 1.0f;
  cluster_sync();
  if (cluster_ctarank() != reader) return;
  out[threadIdx.x] = *mapa(&sMine, 1 - reader);  // ends early
}

// Whether or not the other block has ended when the simulator comes to the read.
TEST(Clusters, ABlockMustNotEndBeforeOthersHaveReadItsMemory) {
  const Buffer<float> out("out", kThreads);
  for (const int reader : {0, 1}) {
    const gpusim::Report report = run_clusters(2, {2, kThreads}, ends_early, out.get(), reader);
    EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("ends early")}, 1}}));
    const std::string owner = reader == 0 ? "(1,0,0)" : "(0,0,0)";
    const std::string self = reader == 0 ? "(0,0,0)" : "(1,0,0)";
    EXPECT_TRUE(says(report, "Invalid __shared__ read of size 4 bytes at " + at("ends early") +
                                 " by thread (0,0,0) in block " + self +
                                 "\n=========     address is byte 0 of \"sMine\" in block " + owner +
                                 ", which may have ended: it does not wait at a barrier of the cluster for "
                                 "this access"));
  }
}

__global__ void starts_late(float* out) {
  __shared__ float sMine;
  if (threadIdx.x == 0) *mapa(&sMine, 1 - cluster_ctarank()) = 1.0f;  // starts late
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = sMine;
}

TEST(Clusters, ABlockMustHaveStartedBeforeOthersWriteToItsMemory) {
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run_clusters(2, {2, 32}, starts_late, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("starts late")}, 2}}));
  EXPECT_TRUE(says(report, "Invalid __shared__ write of size 4 bytes at " + at("starts late") +
                               " by thread (0,0,0) in block (0,0,0)\n=========     address is byte 0 of "
                               "\"sMine\" in block (1,0,0), which may not have started: no barrier of the "
                               "cluster comes before this access"));
}

// ---- addresses --------------------------------------------------------------------------------------------

__global__ void outside_cluster(float* out, int rank) {
  __shared__ float sMine;
  sMine = 1.0f;
  cluster_sync();
  out[blockIdx.x] = *mapa(&sMine, rank);  // no such rank
  cluster_sync();
}

TEST(Clusters, RanksOutsideThem) {
  const Buffer<float> out("out", 4);
  for (const int rank : {-1, 4}) {
    const gpusim::Report report = run_clusters(4, {4, 1}, outside_cluster, out.get(), rank);
    EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("no such rank")}, 1}}));
    EXPECT_TRUE(says(report, "Invalid index " + std::to_string(rank) + " at " + at("no such rank") +
                                 " by thread (0,0,0) in block (0,0,0)\n=========     the cluster has 4 "
                                 "blocks, 0 to 3"));
  }
}

__global__ void global_address(float* out) {
  *mapa(out, 0) = 1.0f;  // not shared
}

TEST(Clusters, OnlySharedMemoryHasAnAddressInAnotherBlock) {
  const Buffer<float> out("out", 4);
  const gpusim::Report report = run_clusters(2, {2, 1}, global_address, out.get());
  ASSERT_EQ(told(report).size(), 1u);
  EXPECT_EQ(told(report)[0].kind, DefectKind::kOutOfBounds);
  EXPECT_EQ(told(report)[0].lines, std::vector<int>{line_of("not shared")});
}

__global__ void past_the_end(float* out, int index) {
  __shared__ float sMine[6];
  for (int i = 0; i < 6; ++i) sMine[i] = 1.0f;
  smem[0] = 1.0f;
  cluster_sync();
  const float* s = mapa(index < 100 ? sMine : smem, 1 - cluster_ctarank());
  out[blockIdx.x] = s[index % 100];  // past the end
  cluster_sync();
}
__global__ void odd_address(float4* out) {
  __shared__ float4 sMine[2];
  sMine[0] = sMine[1] = {};
  cluster_sync();
  const float* s = reinterpret_cast<const float*>(mapa(sMine, 1 - cluster_ctarank()));
  out[blockIdx.x] = *reinterpret_cast<const float4*>(s + 1);  // odd
  cluster_sync();
}

TEST(Clusters, AddressesInOtherBlocksAreChecked) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 2);
  EXPECT_TRUE(is_clean(run_clusters(2, {2, 1, 4}, past_the_end, out.get(), 5)));
  gpusim::Report report = run_clusters(2, {2, 1, 4}, past_the_end, out.get(), 6);
  EXPECT_EQ(told(report)[0].lines, std::vector<int>{line_of("past the end")});
  EXPECT_TRUE(says(report, "Invalid __shared__ read of size 4 bytes"));
  EXPECT_TRUE(says(report, "address is 0 bytes after the end of \"sMine\" (24 bytes) in block (1,0,0)"));
  report = run_clusters(2, {2, 1, 4}, past_the_end, out.get(), 101);
  EXPECT_TRUE(says(report, "address is 0 bytes after the end of \"smem\" (4 bytes) in block (1,0,0)"));

  const Buffer<float4> vectors("vectors", 2);
  report = run_clusters(2, {2, 1}, odd_address, vectors.get());
  EXPECT_TRUE(says(report, "Misaligned __shared__ read of size 16 bytes at " + at("odd") +
                               " by thread (0,0,0) in block (0,0,0)\n=========     address is "));
  EXPECT_TRUE(
      says(report, place("sMine[0]", "byte 4 of \"sMine\"") + " in block (1,0,0), not a multiple of 16"));
}

// ---- the barrier ------------------------------------------------------------------------------------------

__global__ void some_wait_in_their_block(float* out) {
  if (cluster_ctarank() == 1 && threadIdx.x >= 32) {
    __syncthreads();  // of the block
  } else {
    cluster_sync();  // of the cluster
  }
  out[blockIdx.x] = 1.0f;
}

TEST(Clusters, TheirBarrierNeedsAllThreads) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 4);
  const gpusim::Report report = run_clusters(4, {4, kThreads}, some_wait_in_their_block, out.get());
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kBarrierDivergence);
  EXPECT_TRUE(
      says(report,
           "Barrier error detected. Divergent thread(s) in the cluster that begins with block (0,0,0): "
           "224 of 256 threads reached barrier_cluster_wait() at "));
  EXPECT_TRUE(
      says(report, "(from " + at("of the cluster") +
                       ")\n=========     threads 0 to 63 of block (0,0,0) wait there"
                       "\n=========     threads 0 to 31 of block (1,0,0) wait there"
                       "\n=========     threads 32 to 63 of block (1,0,0) wait in __syncthreads() at " +
                       at("of the block") +
                       "\n=========     threads 0 to 63 of block (2,0,0) wait there"
                       "\n=========     threads 0 to 63 of block (3,0,0) wait there  [1 hazard]"));
}

__global__ void some_go_on(float* out) {
  if (cluster_ctarank() == 0 || threadIdx.x < 32) {
    barrier_cluster_arrive();
    barrier_cluster_wait();  // some wait
  }
  out[blockIdx.x] = 1.0f;  // some go on
}

TEST(Clusters, ThreadsThatGoOnWithoutTheirBarrier) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run_clusters(2, {2, kThreads}, some_go_on, out.get());
  EXPECT_TRUE(says(report, "96 of 128 threads reached barrier_cluster_wait() at " + at("some wait") +
                               "\n=========     threads 0 to 63 of block (0,0,0) wait there"
                               "\n=========     threads 0 to 31 of block (1,0,0) wait there"
                               "\n=========     threads 32 to 63 of block (1,0,0) have gone on to " +
                               at("some go on") + ", and returned"));
}

__global__ void one_thread_waits(float* out) {
  if (threadIdx.x == 0) {
    barrier_cluster_arrive();  // one arrives
    barrier_cluster_wait();
  }
  __syncwarp();  // the others wait
  barrier_cluster_arrive();
  barrier_cluster_wait();
  out[blockIdx.x] = 1.0f;
}

TEST(Clusters, AWarpWhoseLanesWentDifferentWaysComesBeforeThoseThatWaitForIt) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run_clusters(2, {2, kThreads}, one_thread_waits, out.get());
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report, "Divergent thread(s) in warp 0 of block (0,0,0): 31 of 32 threads"));
  EXPECT_TRUE(says(report, "__syncwarp() at " + at("the others wait")));
  EXPECT_TRUE(says(report, "lane 0 waits in barrier_cluster_arrive() at " + at("one arrives")));
}

__global__ void one_block_arrives(float* out) {
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (cluster_ctarank() == 0 && threadIdx.x >= 32) {
    barrier_cluster_arrive();
    barrier_cluster_wait();  // in a deadlock
  } else {
    mbarrier_wait(&full, 0);
  }
  out[blockIdx.x] = 1.0f;
}

TEST(Clusters, ADeadlockSaysHowManyThreadsHaveArrived) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run_clusters(2, {2, kThreads}, one_block_arrives, out.get());
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report, "Deadlock in the cluster that begins with block (0,0,0): no thread can go on"));
  EXPECT_TRUE(says(report, "threads 32 to 63 of block (0,0,0) wait in barrier_cluster_wait() at " +
                               at("in a deadlock") + ": 32 of 128 threads of the cluster have arrived"));
}

__global__ void half_a_warp_arrives(float* out) {
  if (threadIdx.x < 16) {
    barrier_cluster_arrive();  // half arrives
  } else {
    __syncthreads();  // half waits
  }
  barrier_cluster_wait();
  out[blockIdx.x] = 1.0f;
}

TEST(Clusters, AllLanesOfAWarpArriveTogether) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 2);
  const gpusim::Report report = run_clusters(2, {2, 32}, half_a_warp_arrives, out.get());
  EXPECT_TRUE(says(report, "Divergent thread(s) in warp 0 of block (0,0,0): 16 of 32 threads"));
  EXPECT_TRUE(says(report, "barrier_cluster_arrive() at " + at("half arrives")));
  EXPECT_TRUE(says(report, "__syncthreads() at " + at("half waits")));
}

__global__ void arrives_twice(float* out) {
  barrier_cluster_arrive();
  barrier_cluster_arrive();  // twice
  barrier_cluster_wait();
  out[blockIdx.x] = 1.0f;
}
__global__ void waits_first(float* out) {
  barrier_cluster_wait();  // first
  out[blockIdx.x] = 1.0f;
}

TEST(Clusters, TheHalvesOfTheirBarrierAlternate) {
  const Buffer<float> out("out", 2);
  EXPECT_TRUE(
      says(run_clusters(2, {2, 32}, arrives_twice, out.get()),
           "Barrier error detected. Thread (0,0,0) in block (0,0,0) arrives at the cluster's barrier a "
           "second time without a wait in between: it has reached " +
               at("twice")));
  EXPECT_TRUE(says(run_clusters(2, {2, 32}, waits_first, out.get()),
                   "Barrier error detected. Thread (0,0,0) in block (0,0,0) waits at the cluster's barrier "
                   "without having arrived: it has reached " +
                       at("first")));
}

// After an error, the next launch starts anew.
TEST(Clusters, AfterOneThatWasGivenUp) {
  const Buffer<float> in("in", std::vector<float>{1, 2}), out("out", 2);
  EXPECT_FALSE(is_clean(run_clusters(2, {2, 32}, arrives_twice, out.get())));
  EXPECT_TRUE(is_clean(run_clusters(2, {2, kThreads}, pulled_sum, in.get(), out.get(), 2)));
  EXPECT_EQ(out.host(), (std::vector<float>{3, 103}));
  EXPECT_TRUE(is_clean(run({2, 1}, rank_alone, reinterpret_cast<int*>(out.get()))));
}

__global__ void barrier_alone(float* out) {
  barrier_cluster_arrive();  // alone
  barrier_cluster_wait();
  out[blockIdx.x] = 1.0f;
}

TEST(Clusters, TheirBarrierNeedsALaunchWithThem) {
  const Buffer<float> out("out", 2);
  EXPECT_TRUE(
      says(run({1, 1}, barrier_alone, out.get()),
           "Illegal instruction at " + at("alone") +
               " by thread (0,0,0) in block (0,0,0)\n=========     barrier.cluster in a launch without "
               "clusters: the simulator needs cudaLaunchAttributeClusterDimension"));
}

// ---- launches ---------------------------------------------------------------------------------------------

TEST(Clusters, LaunchesThatADeviceRefuses) {
  const Buffer<int> out("out", 32);
  const auto launch = [&](dim3 cluster, dim3 grid) {
    const cudaError_t status = try_clusters(cluster, {grid, 1}, rank_alone, out.get());
    EXPECT_EQ(cudaGetLastError(), status);
    return status;
  };
  EXPECT_EQ(launch(8, 16), cudaSuccess);
  EXPECT_EQ(launch(16, 16), cudaErrorInvalidClusterSize) << "not portable";
  EXPECT_EQ(launch(dim3(4, 4, 1), dim3(4, 4)), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch(8, 12), cudaErrorInvalidClusterSize) << "does not divide the grid";
  EXPECT_EQ(launch(dim3(1, 2), 8), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch(0, 8), cudaErrorInvalidClusterSize);
  gpusim::take_report();
}

TEST(Clusters, NeedComputeCapability9) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("GPUSIM_DEVICE", "a100", 1);
        const Buffer<int> out("out", 8);
        const bool refused = try_clusters(8, {8, 1}, rank_alone, out.get()) == cudaErrorNotSupported;
        const gpusim::Report report = run({1, 1}, rank_alone, out.get());
        std::exit(refused && says(report, "%cluster_ctarank needs compute capability 9.0") ? 0 : 3);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gpusim_test
