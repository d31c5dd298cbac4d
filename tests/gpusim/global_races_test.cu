/// @file
/// Races in global memory: between the blocks of a launch, and inside a block.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

// ---- between blocks ---------------------------------------------------------------------------------------

__global__ void plain_sum(int* total) {
  if (threadIdx.x == 0) total[0] += 1;  // plain sum
}
__global__ void atomic_sum(int* total) {
  if (threadIdx.x == 0) atomicAdd(&total[0], 1);
}

TEST(GlobalRaces, BlocksThatAddToOneWord) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto total = Buffer<int>::zeros("total", 1);
  const gpusim::Report wrong = run({8, 32}, plain_sum, total.get());
  // Two hazards: the write against another block's write and against its read, however many blocks there are.
  EXPECT_EQ(told(wrong), (Defects{{DefectKind::kRace, {line_of("plain sum"), line_of("plain sum")}, 2}}));
  EXPECT_TRUE(says(wrong, "Write access by thread (0,0,0) of block (0,0,0) at"));
  EXPECT_TRUE(says(wrong, "access by thread (0,0,0) of block (1,0,0) at"));
  EXPECT_TRUE(says(wrong, "global memory, byte 0 of \"total\": blocks are not ordered"));

  cudaMemset(total, 0, sizeof(int));
  EXPECT_TRUE(is_clean(run({8, 32}, atomic_sum, total.get())));
  EXPECT_EQ(total.host()[0], 8);
}

__global__ void everyone_reads(const float* in, float* out) {
  float sum = 0;
  for (int i = 0; i < 64; ++i) sum += in[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

TEST(GlobalRaces, BlocksMayReadTheSame) {
  const auto in = Buffer<float>::zeros("in", 64);
  const Buffer<float> out("out", 16 * 64);
  EXPECT_TRUE(is_clean(run({16, 64}, everyone_reads, in.get(), out.get())));
}

template <bool kOwn>
__global__ void read_and_write(float* data) {
  const unsigned i = blockIdx.x * 32 + threadIdx.x;
  const unsigned other = kOwn ? i : (i + 32) % (gridDim.x * 32);
  const float v = data[other];  // neighbour: read
  data[i] = v + 1.0f;           // neighbour: write
}

TEST(GlobalRaces, ABlockReadsWhatAnotherWrites) {
  const auto data = Buffer<float>::zeros("data", 32 * 5);
  EXPECT_TRUE(is_clean(run({5, 32}, read_and_write<true>, data.get())));
  const gpusim::Report wrong = run({5, 32}, read_and_write<false>, data.get());
  EXPECT_EQ(
      told(wrong),
      (Defects{{DefectKind::kRace, {line_of("neighbour: write"), line_of("neighbour: read")}, 5 * 32}}));
}

__global__ void same_output(float* data) {
  data[threadIdx.x] = float(blockIdx.x);  // same output
}

TEST(GlobalRaces, TheLowestTwoBlocksGiveTheExample) {
  const Buffer<float> data("data", 32);
  const gpusim::Report wrong = run({dim3(3, 4), 32}, same_output, data.get());
  EXPECT_EQ(told(wrong),
            (Defects{{DefectKind::kRace, {line_of("same output"), line_of("same output")}, 32}}));
  EXPECT_TRUE(says(wrong, "thread (0,0,0) of block (0,0,0)"));
  EXPECT_TRUE(says(wrong, "thread (0,0,0) of block (1,0,0)"));
}

__global__ void first_block_clears(int* total) {
  if (blockIdx.x == 0 && threadIdx.x == 0) total[0] = 0;  // clear: write
  if (threadIdx.x == 0) atomicAdd(&total[0], 1);          // clear: atomic
}
__global__ void last_block_reads(int* total, int* out) {
  atomicAdd(&total[0], 1);                                                 // early: atomic
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) out[0] = total[0];  // early: read
}

TEST(GlobalRaces, AtomicsAgainstPlainAccesses) {
  const auto total = Buffer<int>::zeros("total", 1);
  const auto out = Buffer<int>::zeros("out", 1);
  const gpusim::Report cleared = run({4, 32}, first_block_clears, total.get());
  EXPECT_EQ(told(cleared),
            (Defects{{DefectKind::kRace, {line_of("clear: write"), line_of("clear: atomic")}, 1}}));
  const gpusim::Report early = run({4, 1}, last_block_reads, total.get(), out.get());
  EXPECT_EQ(told(early),
            (Defects{{DefectKind::kRace, {line_of("early: atomic"), line_of("early: read")}, 1}}));
}

__global__ void halves_of_words(__half* data) {
  // Blocks 0 and 1 write the two halves of each word, blocks 2 and 3 likewise further on.
  data[blockIdx.x / 2 * 64 + threadIdx.x * 2 + blockIdx.x % 2] = __half(1.0f);
}
__global__ void overlapping_halves(unsigned short* data) {
  if (blockIdx.x < 2) data[threadIdx.x * 2 + blockIdx.x] = 1;               // overlap: half
  if (blockIdx.x == 2) reinterpret_cast<unsigned*>(data)[threadIdx.x] = 2;  // overlap: word
}

TEST(GlobalRaces, BlocksMayWriteTheHalvesOfAWord) {
  const auto data = Buffer<__half>::zeros("data", 128);
  EXPECT_TRUE(is_clean(run({4, 32}, halves_of_words, data.get())));
  const auto shorts = Buffer<unsigned short>::zeros("shorts", 64);
  const gpusim::Report wrong = run({3, 32}, overlapping_halves, shorts.get());
  EXPECT_EQ(told(wrong),
            (Defects{{DefectKind::kRace, {line_of("overlap: half"), line_of("overlap: word")}, 2 * 32}}))
      << "the word meets each of its halves";
}

__global__ void bytes_of_words(unsigned char* data) { data[threadIdx.x * 4 + blockIdx.x] = 1; }

TEST(GlobalRaces, BlocksMayWriteTheBytesOfAWord) {
  const auto data = Buffer<unsigned char>::zeros("data", 128);
  EXPECT_TRUE(is_clean(run({4, 32}, bytes_of_words, data.get())));
}

__global__ void write_block_number(unsigned* data) { data[threadIdx.x] = blockIdx.x; }

TEST(GlobalRaces, LaunchesAreOrdered) {
  const auto data = Buffer<unsigned>::zeros("data", 32);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_clean(run({1, 32}, write_block_number, data.get())));
  gpusim::take_report();
  for (int i = 0; i < 3; ++i) try_run({1, 32}, write_block_number, data.get());
  EXPECT_TRUE(is_clean(gpusim::take_report()));
}

__global__ void wide_output(float4* data) {
  data[threadIdx.x] = make_float4(0, 1, 2, 3);  // wide
}

TEST(GlobalRaces, EveryWordCountsOnce) {
  const Buffer<float4> data("data", 64);
  const gpusim::Report wrong = run({100, 64}, wide_output, data.get());
  EXPECT_EQ(told(wrong), (Defects{{DefectKind::kRace, {line_of("wide"), line_of("wide")}, 4 * 64}}));
}

// ---- __threadfence() as a barrier of the grid -------------------------------------------------------------

enum class Meeting { kNone, kFence, kCounter };

/// Each block sums its part of x, and the first one adds up all sums.
template <Meeting kMeeting>
__global__ void sum_of_sums(const float* x, float* parts, int* arrived, float* total) {
  float sum = x[blockIdx.x * 32 + threadIdx.x];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;                                         // sums: write
  if constexpr (kMeeting != Meeting::kNone) __threadfence();                             // sums: fence
  if (kMeeting == Meeting::kCounter && threadIdx.x == 0) atomicAdd(arrived, 1);          // sums: arrival
  if (blockIdx.x == 0 && threadIdx.x < gridDim.x) atomicAdd(total, parts[threadIdx.x]);  // sums: read
}

gpusim::Report report_of_sums(void (*kernel)(const float*, float*, int*, float*)) {
  const Buffer<float> x("x", std::vector<float>(8 * 32, 1.0f)), parts("parts", 8);
  const auto arrived = Buffer<int>::zeros("arrived", 1);
  const auto total = Buffer<float>::zeros("total", 1);
  return run({8, 32}, kernel, x.get(), parts.get(), arrived.get(), total.get());
}

std::string place_of(const std::string& tag) {
  return "global_races_test.cu:" + std::to_string(line_of(tag, __FILE__));
}

TEST(GlobalRaces, AFenceIsNoBarrierOfTheGrid) {
  const gpusim::Report report = report_of_sums(sum_of_sums<Meeting::kFence>);
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report, "Race reported between Write access by thread (0,0,0) of block (1,0,0) at " +
                               place_of("sums: write") +
                               " and Read access by thread (1,0,0) of block (0,0,0) at " +
                               place_of("sums: read")));
  EXPECT_TRUE(
      says(report, "byte 4 of \"parts\": the __threadfence() at " + place_of("sums: fence") +
                       " orders the accesses of its own thread, but no block waits for another: use a "
                       "second kernel, grid.sync() in a cooperative launch, or, if all blocks are resident, "
                       "an atomic counter that they wait for"));
}

TEST(GlobalRaces, ACounterForWhichNoBlockWaitsOrdersNothing) {
  const gpusim::Report report = report_of_sums(sum_of_sums<Meeting::kCounter>);
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report, "byte 4 of \"parts\": no __syncthreads() between the arrival of its block at " +
                               place_of("sums: arrival") + " and the read"));
}

TEST(GlobalRaces, AnAtomicOperationDoesNotOrderAReadAfterTheWriteOfAnotherBlock) {
  const gpusim::Report report = report_of_sums(sum_of_sums<Meeting::kNone>);
  ASSERT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
  EXPECT_TRUE(says(report,
                   "blocks are not ordered: no block waits for another; read in a second kernel what this "
                   "one writes"));
}

/// Neighbours, some of them in the same warp, some in another, and some in another block.
template <bool kFence>
__global__ void smooth_twice(const float* in, float* once, float* twice, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int left = i > 0 ? i - 1 : 0, right = i + 1 < n ? i + 1 : i;
  once[i] = in[left] + in[i] + in[right];  // smooth: write
  if (kFence) __threadfence();             // smooth: fence
  twice[i] = once[left] + once[right];     // smooth: read
}

TEST(GlobalRaces, NoBarrierOfAWarpOrBlockIsBlamedWhereBlocksRaceAsWell) {
  constexpr int n = 4 * 64;
  const Buffer<float> in("in", std::vector<float>(n, 1.0f)), once("once", n), twice("twice", n);
  for (const bool fence : {true, false}) {
    const gpusim::Report report =
        run({4, 64}, fence ? smooth_twice<true> : smooth_twice<false>, in.get(), once.get(), twice.get(), n);
    EXPECT_EQ(report.defects.size(), 1u) << gpusim::format_defects(report);
    EXPECT_TRUE(says(report, fence ? "the __threadfence() at " + place_of("smooth: fence") + " orders"
                                   : "no block waits for another; read in a second kernel"));
    EXPECT_FALSE(says(report, "__syncwarp()"));
    EXPECT_FALSE(says(report, "__syncthreads()"));
    EXPECT_FALSE(says(report, "Uninitialized"));
  }
}

TEST(GlobalRaces, InsideABlockAFenceIsNoBarrierEither) {
  const Buffer<float> in("in", std::vector<float>(32, 1.0f)), once("once", 32), twice("twice", 32);
  const gpusim::Report report = run({1, 32}, smooth_twice<true>, in.get(), once.get(), twice.get(), 32);
  EXPECT_TRUE(says(report, "in block (0,0,0): no __syncthreads() between the two: the __threadfence() at " +
                               place_of("smooth: fence") + " waits for no other thread"));
  EXPECT_FALSE(says(report, "__syncwarp()"));
}

// ---- inside a block ---------------------------------------------------------------------------------------

template <bool kBarrier>
__global__ void through_global(float* data, float* out) {
  const unsigned base = blockIdx.x * 64;
  data[base + threadIdx.x] = 1.0f;  // inside: write
  if (kBarrier) __syncthreads();
  out[base + threadIdx.x] = data[base + 63 - threadIdx.x];  // inside: read
}

TEST(GlobalRaces, ThreadsOfABlockNeedABarrier) {
  const auto data = Buffer<float>::zeros("data", 64 * 3);
  const Buffer<float> out("out", 64 * 3);
  const gpusim::Report wrong = run({3, 64}, through_global<false>, data.get(), out.get());
  EXPECT_EQ(told(wrong),
            (Defects{{DefectKind::kRace, {line_of("inside: write"), line_of("inside: read")}, 3 * 64}}));
  EXPECT_TRUE(says(
      wrong, "global memory, byte 128 of \"data\" in block (0,0,0): no __syncthreads() between the two"));
  EXPECT_TRUE(is_clean(run({3, 64}, through_global<true>, data.get(), out.get())));
}

template <bool kBarrier>
__global__ void warp_through_global(float* data, float* out) {
  data[threadIdx.x] = 1.0f;  // warp: write
  if (kBarrier) __syncwarp();
  out[threadIdx.x] = data[threadIdx.x ^ 1];  // warp: read
}

TEST(GlobalRaces, LanesOfAWarpNeedOneToo) {
  const auto data = Buffer<float>::zeros("data", 32);
  const Buffer<float> out("out", 32);
  const gpusim::Report wrong = run({1, 32}, warp_through_global<false>, data.get(), out.get());
  EXPECT_EQ(told(wrong), (Defects{{DefectKind::kRace, {line_of("warp: write"), line_of("warp: read")}, 32}}));
  EXPECT_TRUE(is_clean(run({1, 32}, warp_through_global<true>, data.get(), out.get())));
}

// A race over a word inside a block is found whether or not other blocks use the word as well.
__global__ void all_threads_add(int* total) {
  total[0] += 1;  // all add
}

TEST(GlobalRaces, InsideAndBetweenBlocksAtOnce) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto total = Buffer<int>::zeros("total", 1);
  const int line = line_of("all add");
  // In a warp, all lanes read, then all write: each in conflict with a read by another lane.
  const gpusim::Report one = run({1, 32}, all_threads_add, total.get());
  EXPECT_EQ(told(one), (Defects{{DefectKind::kRace, {line, line}, 32}}));
  const gpusim::Report five = run({5, 32}, all_threads_add, total.get());
  EXPECT_EQ(told(five), (Defects{{DefectKind::kRace, {line, line}, 5 * 32 + 2}}));
}

// ---- many launches, many blocks ---------------------------------------------------------------------------

TEST(GlobalRaces, MemoryThatIsReusedHasNoPast) {
  for (int i = 0; i < 4; ++i) {
    const auto data = Buffer<float>::zeros("data", 5000 * 32);
    EXPECT_TRUE(is_clean(run({5000, 32}, read_and_write<true>, data.get())));
  }
}

}  // namespace
}  // namespace gpusim_test
