/// @file
/// Races in shared memory: between warps, within a warp, and what prevents them.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "called.cuh"
#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
constexpr unsigned kFull = 0xffffffffu;

// ---- between warps: 64 threads ----------------------------------------------------------------------------

template <bool kBarrier>
__global__ void read_after_write(float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = float(threadIdx.x);  // raw: write
  if (kBarrier) __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];  // raw: read
}

TEST(SharedRaces, ReadAfterWriteBetweenWarps) {
  const Buffer<float> out("out", 64);
  const gpusim::Report wrong = run({1, 64}, read_after_write<false>, out.get());
  // Warp 0 reads what warp 1 has yet to write, and warp 1 then finds that it has been read: 32 uninitialised
  // reads. In the other half of the tile warp 1 reads what warp 0 has written.
  EXPECT_EQ(told(wrong), (Defects{{DefectKind::kRace, {line_of("raw: write"), line_of("raw: read")}, 64},
                                  {DefectKind::kUninitializedRead, {line_of("raw: read")}, 32}}));
  EXPECT_TRUE(says(wrong, "shared memory, " + place("tile[32]", "byte 128 of \"tile\"") +
                              " in block (0,0,0): no __syncthreads() between the two"));
  EXPECT_TRUE(is_clean(run({1, 64}, read_after_write<true>, out.get())));
}

template <bool kBarrier>
__global__ void write_after_read(float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1.0f;
  __syncthreads();
  const float before = tile[63 - threadIdx.x];  // war: read
  if (kBarrier) __syncthreads();
  tile[threadIdx.x] = 2.0f;  // war: write
  __syncthreads();
  out[threadIdx.x] = before + tile[threadIdx.x];
}

TEST(SharedRaces, WriteAfterReadBetweenWarps) {
  const Buffer<float> out("out", 64);
  const gpusim::Report wrong = run({1, 64}, write_after_read<false>, out.get());
  EXPECT_EQ(told(wrong), (Defects{{DefectKind::kRace, {line_of("war: write"), line_of("war: read")}, 64}}));
  EXPECT_TRUE(is_clean(run({1, 64}, write_after_read<true>, out.get())));
}

template <bool kBarrier>
__global__ void write_after_write(float* out) {
  __shared__ float tile[32];
  if (threadIdx.x < 32) tile[threadIdx.x] = 1.0f;  // waw: first
  if (kBarrier) __syncthreads();
  if (threadIdx.x >= 32) tile[threadIdx.x - 32] = 2.0f;  // waw: second
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x % 32];
}

TEST(SharedRaces, WriteAfterWriteBetweenWarps) {
  const Buffer<float> out("out", 64);
  const gpusim::Report wrong = run({1, 64}, write_after_write<false>, out.get());
  EXPECT_EQ(told(wrong), (Defects{{DefectKind::kRace, {line_of("waw: first"), line_of("waw: second")}, 32}}));
  EXPECT_TRUE(says(wrong, "Write access by thread (0,0,0) at"));
  EXPECT_TRUE(says(wrong, "and Write access by thread (32,0,0) at"));
  EXPECT_TRUE(is_clean(run({1, 64}, write_after_write<true>, out.get())));
}

__global__ void through_a_header(float* out) {
  __shared__ float tile[64];
  put(tile + threadIdx.x, 1.0f);                      // header: write
  out[threadIdx.x] = get(tile + (63 - threadIdx.x));  // header: read
}

TEST(SharedRaces, InAHeaderTheKernelsLineIsNamedToo) {
  const Buffer<float> out("out", 64);
  const gpusim::Report wrong = run({1, 64}, through_a_header, out.get());
  EXPECT_EQ(told(wrong),
            (Defects{{DefectKind::kRace, {line_of("header: write"), line_of("header: read")}, 64},
                     {DefectKind::kUninitializedRead, {line_of("header: read")}, 32}}));
  const std::string from = " (from shared_races_test.cu:" + std::to_string(line_of("header: write")) + ")";
  EXPECT_TRUE(says(wrong, "at called.cuh:9" + from));
}

struct Pair {
  float m, l;
};
__device__ __forceinline__ Pair merge(Pair a, Pair b) { return {fmaxf(a.m, b.m), a.l + b.l}; }
__device__ __forceinline__ float first_of(const Pair* pairs) {
  return pairs[0].m;  // caller: read
}
__global__ void merges(float* out) {
  __shared__ Pair sPartial[4];
  if (threadIdx.x % 32 == 0) sPartial[threadIdx.x / 32] = {1.0f, 2.0f};  // merge: write
  Pair all = {0.0f, 0.0f};
  for (int w = 0; w < 4; ++w) {
    all = merge(all, sPartial[w]);  // merge: read
  }
  out[threadIdx.x] = all.l;
}
__global__ void reads_through_a_helper(float* out) {
  __shared__ Pair sPartial[4];
  if (threadIdx.x == 32) sPartial[0] = {1.0f, 2.0f};  // caller: write
  out[threadIdx.x] = first_of(sPartial);              // caller: kernel
}

TEST(SharedRaces, AnAccessInALoopHasALineOfItsOwn) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 128);
  const Defects defects = told(run({1, 128}, merges, out.get()));
  ASSERT_EQ(defects.size(), 2u);
  EXPECT_EQ(defects[0].lines, (std::vector{line_of("merge: write"), line_of("merge: read")}));
  EXPECT_EQ(defects[1].lines, std::vector{line_of("merge: read")});
}

TEST(SharedRaces, InAHelperOfTheSameFileTheCallersLineIsNamedToo) {
  const Buffer<float> out("out", 64);
  const gpusim::Report report = run({1, 64}, reads_through_a_helper, out.get());
  const auto at = [](const std::string& tag) {
    return "shared_races_test.cu:" + std::to_string(line_of(tag));
  };
  EXPECT_TRUE(says(report, "at " + at("caller: read") + " (from " + at("caller: kernel") + ")"));
}

__global__ void same_value_to_one_word(int* out, int value) {
  __shared__ int flag;
  flag = value;  // one word
  __syncthreads();
  out[threadIdx.x] = flag;
}

__global__ void same_constant_to_one_word(int* out) {
  __shared__ int flag;
  flag = 1;
  __syncthreads();
  out[threadIdx.x] = flag;
}

TEST(SharedRaces, TheSameConstantFromSeveralWarpsIsNone) {
  const Buffer<int> out("out", 64);
  const gpusim::Report report = run({1, 64}, same_constant_to_one_word, out.get());
  EXPECT_TRUE(is_clean(report));
  EXPECT_TRUE(report.notes.empty()) << gpusim::format_defects(report);
}

TEST(SharedRaces, TheSameValueFromSeveralWarpsIsARaceNonetheless) {
  const Buffer<int> out("out", 64);
  const gpusim::Report report = run({1, 64}, same_value_to_one_word, out.get(), 1);
  const int line = line_of("one word");
  EXPECT_EQ(told(report), (Defects{{DefectKind::kRace, {line, line}, 32}}));
}

TEST(SharedRaces, TheSameValueFromTheLanesOfAWarpIsNone) {
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, same_value_to_one_word, out.get(), 1);
  EXPECT_TRUE(is_clean(report));
  EXPECT_TRUE(report.notes.empty()) << gpusim::format_defects(report);
}

// The simulator remembers more than the last reader of a word.
__global__ void reader_before_the_last(float* out) {
  __shared__ float tile;
  if (threadIdx.x == 0) tile = 1.0f;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = tile;    // readers: first
  if (threadIdx.x == 32) out[32] = tile;  // readers: last
  if (threadIdx.x == 32) tile = 2.0f;     // readers: write
}

TEST(SharedRaces, AReaderIsNotForgottenWhenAnotherWarpReads) {
  const Buffer<float> out("out", 64);
  const gpusim::Report report = run({1, 64}, reader_before_the_last, out.get());
  EXPECT_EQ(told(report),
            (Defects{{DefectKind::kRace, {line_of("readers: write"), line_of("readers: first")}, 1}}));
}

__global__ void every_word_of_a_vector(float4* out) {
  __shared__ float4 tile[32];
  if (threadIdx.x < 32) tile[threadIdx.x] = make_float4(1, 2, 3, 4);  // vector: write
  if (threadIdx.x >= 32) out[threadIdx.x] = tile[threadIdx.x - 32];   // vector: read
}

TEST(SharedRaces, AVectorCountsOncePerWord) {
  const Buffer<float4> out("out", 64);
  const gpusim::Report report = run({1, 64}, every_word_of_a_vector, out.get());
  EXPECT_EQ(told(report),
            (Defects{{DefectKind::kRace, {line_of("vector: write"), line_of("vector: read")}, 4 * 32}}));
}

// ---- a barrier is for its block, and each block has its own memory ----------------------------------------

__global__ void reverse(const float* in, float* out) {
  __shared__ float tile[256];
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  for (int round = 0; round < 3; ++round) {
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = tile[255 - threadIdx.x];
    __syncthreads();
  }
}

TEST(SharedRaces, ManyBlocksAndRoundsWithBarriersAreClean) {
  const auto in = Buffer<float>::zeros("in", 256 * 40);
  const Buffer<float> out("out", 256 * 40);
  const gpusim::Report report = run({40, 256}, reverse, in.get(), out.get());
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.ops.barriers, 40 * 8 * 6);
}

__global__ void no_barrier_at_the_end_of_a_round(const float* in, float* out) {
  __shared__ float tile[256];
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  for (int round = 0; round < 3; ++round) {
    tile[threadIdx.x] = in[i];  // round: write
    __syncthreads();
    out[i] = tile[255 - threadIdx.x];  // round: read
  }
}

TEST(SharedRaces, TheNextRoundOverwritesWhatTheLastOneReads) {
  const auto in = Buffer<float>::zeros("in", 256 * 4);
  const Buffer<float> out("out", 256 * 4);
  const gpusim::Report report = run({4, 256}, no_barrier_at_the_end_of_a_round, in.get(), out.get());
  EXPECT_EQ(told(report),
            (Defects{{DefectKind::kRace, {line_of("round: write"), line_of("round: read")}, 4 * 2 * 256}}));
}

// ---- within a warp ----------------------------------------------------------------------------------------

enum class Sync { kNone, kWarp, kHalves, kLowerHalf, kBlock };

template <Sync kSync>
__device__ void synchronize() {
  if (kSync == Sync::kWarp) __syncwarp();
  if (kSync == Sync::kHalves) __syncwarp(threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u);
  if (kSync == Sync::kLowerHalf && threadIdx.x < 16) __syncwarp(0x0000ffffu);
  if (kSync == Sync::kBlock) __syncthreads();
}

/// Every lane reads what was written by the lane whose number differs in one bit.
template <Sync kSync>
__global__ void exchange(float* out, int bit) {
  __shared__ float tile[32];
  tile[threadIdx.x] = float(threadIdx.x);  // lanes: write
  synchronize<kSync>();
  out[threadIdx.x] = tile[threadIdx.x ^ unsigned(bit)];  // lanes: read
}

/// Lanes take turns: the first of two reads what the second has not yet written, unless they synchronise in
/// between.
Defects lanes_race(std::int64_t count, std::int64_t uninitialized = 0) {
  Defects defects = {{DefectKind::kRace, {line_of("lanes: write"), line_of("lanes: read")}, count}};
  if (uninitialized > 0) {
    defects.push_back({DefectKind::kUninitializedRead, {line_of("lanes: read")}, uninitialized});
  }
  return defects;
}

TEST(SharedRaces, LanesOfAWarpAreNotInStep) {
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, exchange<Sync::kNone>, out.get(), 1);
  EXPECT_EQ(told(report), lanes_race(32, 16));
  EXPECT_TRUE(says(report, "no __syncwarp() or __syncthreads() between the two"));
}

TEST(SharedRaces, AWarpOrBlockBarrierCuresThat) {
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, exchange<Sync::kWarp>, out.get(), 1)));
  EXPECT_TRUE(is_clean(run({1, 32}, exchange<Sync::kWarp>, out.get(), 16)));
  EXPECT_TRUE(is_clean(run({1, 32}, exchange<Sync::kBlock>, out.get(), 1)));
}

TEST(SharedRaces, ABarrierOfPartOfAWarpHoldsForThatPart) {
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, exchange<Sync::kHalves>, out.get(), 8))) << "partner in the same half";
  EXPECT_EQ(told(run({1, 32}, exchange<Sync::kHalves>, out.get(), 16)), lanes_race(32))
      << "in the other half";
  EXPECT_EQ(told(run({1, 32}, exchange<Sync::kLowerHalf>, out.get(), 8)), lanes_race(16, 8))
      << "half without one";
}

/// The write of lane 0 becomes visible to lane 31 through barriers of two lanes each, if these are in the
/// right order.
template <bool kInOrder>
__global__ void chain_of_pairs(int* out) {
  __shared__ int value;
  const unsigned lane = threadIdx.x;
  if (lane == 0) value = 7;  // chain: write
  if (kInOrder) {
    if (lane < 2) __syncwarp(0x00000003u);
    if (lane == 1 || lane == 31) __syncwarp(0x80000002u);
  } else {
    if (lane == 1 || lane == 31) __syncwarp(0x80000002u);
    if (lane < 2) __syncwarp(0x00000003u);
  }
  if (lane == 31) out[0] = value;  // chain: read
}

TEST(SharedRaces, PartialBarriersReachOn) {
  const Buffer<int> out("out", 1);
  EXPECT_TRUE(is_clean(run({1, 32}, chain_of_pairs<true>, out.get())));
  const gpusim::Report wrong = run({1, 32}, chain_of_pairs<false>, out.get());
  ASSERT_FALSE(wrong.defects.empty());
  EXPECT_EQ(told(wrong)[0], (Told{DefectKind::kRace, {line_of("chain: write"), line_of("chain: read")}, 1}));
}

/// A partial barrier before an access does not order what comes after it.
__global__ void barrier_too_early(float* out) {
  __shared__ float tile;
  if (threadIdx.x == 0) tile = 1.0f;
  __syncwarp();
  if (threadIdx.x < 4) __syncwarp(0x0000000fu);
  if (threadIdx.x == 1) out[1] = tile;  // early: read
  if (threadIdx.x == 2) tile = 2.0f;    // early: write
}

TEST(SharedRaces, ABarrierBeforeBothIsNoHelp) {
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, barrier_too_early, out.get());
  EXPECT_EQ(told(report),
            (Defects{{DefectKind::kRace, {line_of("early: write"), line_of("early: read")}, 1}}));
}

__global__ void shuffles_in_between(float* out) {
  __shared__ float tile[32];
  tile[threadIdx.x] = 1.0f;  // shuffle: write
  const float other = __shfl_xor_sync(kFull, 1.0f, 1);
  out[threadIdx.x] = other + tile[threadIdx.x ^ 1];  // shuffle: read
}

TEST(SharedRaces, ShufflesOrderNoMemory) {
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, shuffles_in_between, out.get());
  EXPECT_EQ(told(report),
            (Defects{{DefectKind::kRace, {line_of("shuffle: write"), line_of("shuffle: read")}, 32}}));
}

__global__ void lanes_of_one_instruction(int* out) {
  __shared__ int bins[8];
  bins[threadIdx.x % 8] = int(threadIdx.x);  // bins
  __syncwarp();
  out[threadIdx.x] = bins[threadIdx.x % 8];
}

TEST(SharedRaces, LanesThatWriteOneWordInOneInstruction) {
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, lanes_of_one_instruction, out.get());
  EXPECT_TRUE(is_clean(report));  // CUDA promises that one of the values stays
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_EQ(lines_of(report.notes[0].message, __FILE__), (std::vector<int>{line_of("bins")}));
  EXPECT_TRUE(says(report, "Note: lanes of a warp store different values together at shared_races_test.cu:"));
}

__global__ void lanes_of_two_instructions(int* out) {
  __shared__ int flag;
  if (threadIdx.x % 2 == 0) {
    flag = 1;  // even
  } else {
    flag = 1;  // odd
  }
  __syncthreads();
  out[threadIdx.x] = flag;
}

TEST(SharedRaces, LanesThatWriteOneWordInTwoInstructions) {
  GPUSIM_NEEDS_EXACT_ACCESSES();  // clang++ makes one store of the two
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, lanes_of_two_instructions, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kRace, {line_of("even"), line_of("odd")}, 16}}));
}

__global__ void own_words_only(float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1.0f;
  tile[threadIdx.x] += 1.0f;
  out[threadIdx.x] = tile[threadIdx.x];
}

TEST(SharedRaces, AThreadDoesNotRaceWithItself) {
  const Buffer<float> out("out", 64);
  EXPECT_TRUE(is_clean(run({1, 64}, own_words_only, out.get())));
}

// ---- parts of a word --------------------------------------------------------------------------------------

template <class T>
__global__ void neighbours(T* out) {
  __shared__ T tile[64];
  tile[threadIdx.x] = T(1);
  tile[threadIdx.x] = T(float(tile[threadIdx.x]) + 1.0f);
  out[threadIdx.x] = tile[threadIdx.x];
}

TEST(SharedRaces, NeighboursInAWordDoNotDisturbEachOther) {
  const Buffer<__half> halves("halves", 64);
  const Buffer<char> chars("chars", 64);
  EXPECT_TRUE(is_clean(run({1, 64}, neighbours<__half>, halves.get())));
  EXPECT_TRUE(is_clean(run({1, 64}, neighbours<char>, chars.get())));
}

__global__ void halves_race(float* out) {
  __shared__ __half tile[64];
  tile[threadIdx.x] = __half(1.0f);                 // halves: write
  out[threadIdx.x] = float(tile[threadIdx.x ^ 1]);  // halves: read
}

TEST(SharedRaces, HalvesRaceForTheirOwnBytes) {
  const Buffer<float> out("out", 64);
  const gpusim::Report report = run({1, 64}, halves_race, out.get());
  EXPECT_EQ(told(report),
            (Defects{{DefectKind::kRace, {line_of("halves: write"), line_of("halves: read")}, 64},
                     {DefectKind::kUninitializedRead, {line_of("halves: read")}, 32}}));
}

__global__ void parts_and_whole(unsigned* out) {
  __shared__ unsigned short tile[64];
  tile[threadIdx.x] = 1;  // parts: write
  if (threadIdx.x % 2 == 0)
    out[threadIdx.x] = *reinterpret_cast<unsigned*>(&tile[threadIdx.x]);  // parts: read
}

TEST(SharedRaces, AWordThatOverlapsTheHalfOfAnother) {
  const Buffer<unsigned> out("out", 64);
  const gpusim::Report report = run({1, 64}, parts_and_whole, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kRace, {line_of("parts: write"), line_of("parts: read")}, 32},
                                   {DefectKind::kUninitializedRead, {line_of("parts: read")}, 32}}));
}

/// Floats and halves in the same memory: the state of a word does not keep the smaller size.
__global__ void reused_memory(float* out) {
  __shared__ float tile[32];
  __half* halves = reinterpret_cast<__half*>(tile);
  halves[threadIdx.x] = __half(1.0f);
  __syncthreads();
  tile[threadIdx.x % 32] = float(threadIdx.x / 32);  // reused
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x % 32];
}

TEST(SharedRaces, WholeWordsAfterPartsOfThem) {
  const Buffer<float> out("out", 64);
  const gpusim::Report report = run({1, 64}, reused_memory, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kRace, {line_of("reused"), line_of("reused")}, 32}}));
}

// ---- atomic operations ------------------------------------------------------------------------------------

__global__ void atomics_only(int* out) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, 1);
  atomicOr(&total, 0);
  __syncthreads();
  out[threadIdx.x] = total;
}

TEST(SharedRaces, AtomicsDoNotRaceWithAtomics) {
  const Buffer<int> out("out", 64);
  EXPECT_TRUE(is_clean(run({1, 64}, atomics_only, out.get())));
  EXPECT_EQ(out.host()[0], 64);
}

__global__ void atomic_and_plain_write(int* out) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;  // init: write
  atomicAdd(&total, 1);             // init: atomic
  __syncthreads();
  out[threadIdx.x] = total;
}

TEST(SharedRaces, AtomicsRaceWithPlainWrites) {
  const Buffer<int> out("out", 64);
  const gpusim::Report report = run({1, 64}, atomic_and_plain_write, out.get());
  EXPECT_EQ(told(report),
            (Defects{{DefectKind::kRace, {line_of("init: write"), line_of("init: atomic")}, 63}}));
}

__global__ void atomic_and_plain_read(int* out) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, 1);      // sum: atomic
  out[threadIdx.x] = total;  // sum: read
}

TEST(SharedRaces, AtomicsRaceWithPlainReads) {
  const Buffer<int> out("out", 64);
  const gpusim::Report report = run({1, 64}, atomic_and_plain_read, out.get());
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(told(report)[0].lines, (std::vector<int>{line_of("sum: atomic"), line_of("sum: read")}));
  EXPECT_TRUE(says(report, "Atomic access by thread"));
}

// ---- what the report says ---------------------------------------------------------------------------------

__global__ void three_dimensional(float* out) {
  __shared__ float tile[2][4][8];
  tile[threadIdx.z][threadIdx.y][threadIdx.x] = 1.0f;
  out[threadIdx.x] = tile[1 - threadIdx.z][threadIdx.y][threadIdx.x];
}

TEST(SharedRaces, ThreadsAndBlocksAreNamedInThreeDimensions) {
  const Buffer<float> out("out", 8);
  gpusim::Report report = run({dim3(1, 2, 1), dim3(8, 4, 2)}, three_dimensional, out.get());
  EXPECT_TRUE(says(report, "by thread (0,0,1)"));
  EXPECT_TRUE(says(report, "in block (0,0,0)")) << "the first block gives the example";
  EXPECT_TRUE(says(report, "byte 128 of \"tile\""));
}

TEST(SharedRaces, TheTextIsThatOfComputeSanitizer) {
  const Buffer<float> out("out", 64);
  const gpusim::Report report = run({1, 64}, write_after_write<false>, out.get());
  const auto at = [](int line) { return "shared_races_test.cu:" + std::to_string(line); };
  EXPECT_EQ(gpusim::format_defects(report),
            "========= Race reported between Write access by thread (0,0,0) at " + at(line_of("waw: first")) +
                " and Write access by thread (32,0,0) at " + at(line_of("waw: second")) +
                "\n========= "
                "    shared memory, " +
                place("tile[0]", "byte 0 of \"tile\"") +
                " in block (0,0,0): no __syncthreads() between the two  "
                "[32 hazards]\n"
                "========= \n"
                "========= ERROR SUMMARY: 1 defect, 32 hazards\n");
}

}  // namespace
}  // namespace gpusim_test
