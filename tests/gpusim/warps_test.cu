/// @file
/// Operations of a whole warp (shuffles, votes, reductions), and the shapes of blocks and grids.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
constexpr unsigned kFull = 0xffffffffu;

/// Full, single lanes, halves, gaps, and some at random.
const std::vector<unsigned>& masks() {
  static const std::vector<unsigned> all = [] {
    std::vector<unsigned> result = {kFull,       0x00000001u, 0x80000000u, 0x0000ffffu, 0xffff0000u,
                                    0x55555555u, 0xaaaaaaaau, 0x000000f0u, 0x80000001u, 0x7fffffffu};
    std::mt19937 random(1);
    for (int i = 0; i < 12; ++i) result.push_back(unsigned(random()) | 1u << (i % 32));
    return result;
  }();
  return all;
}

// ---- shuffles ---------------------------------------------------------------------------------------------

enum class Shuffle { kIndex, kUp, kDown, kXor };

template <class T, Shuffle kShuffle>
__global__ void shuffle(const T* in, T* out, unsigned mask, int argument, int width) {
  const unsigned lane = threadIdx.x;
  if ((mask >> lane & 1) == 0) return;
  const T value = in[lane];
  T result = value;
  if (kShuffle == Shuffle::kIndex) result = __shfl_sync(mask, value, argument, width);
  if (kShuffle == Shuffle::kUp) result = __shfl_up_sync(mask, value, unsigned(argument), width);
  if (kShuffle == Shuffle::kDown) result = __shfl_down_sync(mask, value, unsigned(argument), width);
  if (kShuffle == Shuffle::kXor) result = __shfl_xor_sync(mask, value, argument, width);
  out[lane] = result;
}

/// The lane whose value a lane gets, according to the CUDA programming guide.
int source_lane(Shuffle kind, int lane, int argument, int width) {
  const int segment = lane / width * width;  // each subsection behaves as a warp of its own
  const int in_segment = lane % width;
  switch (kind) {
    case Shuffle::kIndex:  // "if srcLane is outside [0, width - 1], the value is that of srcLane modulo
                           // width"
      return segment + (argument % width + width) % width;
    case Shuffle::kUp:  // "the source lane index will not wrap around": the lower lanes are unchanged
      return in_segment - argument < 0 ? lane : lane - argument;
    case Shuffle::kDown:  // likewise the upper ones
      return in_segment + argument >= width ? lane : lane + argument;
    case Shuffle::kXor:  // lanes may read lower segments but not higher ones, "their own value is returned"
      return (lane ^ argument) >= segment + width ? lane : lane ^ argument;
  }
  return lane;
}

template <class T>
std::vector<T> lane_values() {
  std::vector<T> values;
  for (int lane = 0; lane < 32; ++lane) values.push_back(T(1000 + 3 * lane));
  return values;
}

template <class T, Shuffle kShuffle>
void check_shuffle(unsigned mask, const std::vector<int>& arguments) {
  const Buffer<T> in("in", lane_values<T>());
  const auto source = [&](int lane, int argument, int width) {
    return source_lane(kShuffle, lane, argument, width);
  };
  const auto undefined = [&](int argument, int width) {  // lanes that get a value that nobody gives
    std::int64_t count = 0;
    for (int lane = 0; lane < 32; ++lane)
      count += (mask >> lane & 1) != 0 && (mask >> source(lane, argument, width) & 1) == 0;
    return count;
  };
  for (int width : {1, 2, 4, 8, 16, 32}) {
    for (int argument : arguments) {
      const std::int64_t defects = undefined(argument, width);
      if (defects != 0 && (width != 32 || mask != 0x0000ffffu)) continue;  // a report takes long
      const auto out = Buffer<T>::zeros("out", 32);
      const gpusim::Report report =
          run({1, 32}, shuffle<T, kShuffle>, in.get(), out.get(), mask, argument, width);
      ASSERT_EQ(report.ops.shuffles, 1);
      const std::vector<T> result = out.host();
      for (int lane = 0; lane < 32; ++lane) {
        const int from = source(lane, argument, width);
        if ((mask >> lane & mask >> from & 1) == 0) continue;
        ASSERT_EQ(double(result[std::size_t(lane)]), 1000.0 + 3 * from)
            << "lane " << lane << " width " << width << " argument " << argument << " mask " << std::hex
            << mask;
      }
      ASSERT_EQ(report.defects.size(), defects == 0 ? 0u : 1u) << gpusim::format_defects(report);
      if (defects != 0) {
        ASSERT_EQ(report.defects[0].count, defects);
      }
    }
  }
}

TEST(Shuffles, ByIndex) {
  for (unsigned mask : masks()) check_shuffle<int, Shuffle::kIndex>(mask, {0, 1, 7, 31, 32, 45, -1});
}
TEST(Shuffles, Up) {
  for (unsigned mask : masks()) check_shuffle<int, Shuffle::kUp>(mask, {0, 1, 2, 5, 16, 31, 40});
}
TEST(Shuffles, Down) {
  for (unsigned mask : masks()) check_shuffle<int, Shuffle::kDown>(mask, {0, 1, 2, 5, 16, 31, 40});
}
TEST(Shuffles, Xor) {
  for (unsigned mask : masks()) check_shuffle<int, Shuffle::kXor>(mask, {0, 1, 2, 3, 8, 16, 31});
}
TEST(Shuffles, EveryType) {
  check_shuffle<float, Shuffle::kXor>(kFull, {1});
  check_shuffle<double, Shuffle::kXor>(kFull, {1, 16});
  check_shuffle<long long, Shuffle::kDown>(kFull, {1, 16});
  check_shuffle<unsigned long long, Shuffle::kIndex>(0xff00ff00u, {8, 15});
  check_shuffle<unsigned, Shuffle::kUp>(kFull, {1});
  check_shuffle<__half, Shuffle::kXor>(kFull, {4});
}

/// Two halves of a warp, each with its own mask, values and branch.
__global__ void two_groups(int* out) {
  int v = int(threadIdx.x);
  if (threadIdx.x < 16) {
    for (int bit = 8; bit > 0; bit /= 2) v += __shfl_xor_sync(0x0000ffffu, v, bit);
  } else {
    for (int bit = 8; bit > 0; bit /= 2) v = max(v, __shfl_xor_sync(0xffff0000u, v, bit));
  }
  out[threadIdx.x] = v;
}

TEST(Shuffles, GroupsOfAWarpOnTheirOwn) {
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, two_groups, out.get());
  EXPECT_TRUE(is_clean(report));
  for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(out.host()[std::size_t(lane)], lane < 16 ? 120 : 31);
  EXPECT_EQ(report.ops.shuffles, 8);
}

__global__ void from_outside_the_mask(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0x0000ffffu, 5, 20);  // outside the mask
}

TEST(Shuffles, FromALaneOutsideTheMaskIsReported) {
  const Buffer<int> out("out", 16);
  const gpusim::Report report = run({1, 32}, from_outside_the_mask, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kBarrierDivergence, {line_of("outside the mask")}, 16}}));
  EXPECT_TRUE(says(report,
                   "Barrier error detected. Lane 0 of warp 0 in block (0,0,0) reads the value of lane 20, "
                   "which is not in mask 0x0000ffff, in __shfl_sync() at warps_test.cu:"));
  EXPECT_EQ(out.host()[0], -1) << "undefined in CUDA; here all bits are one, which is NaN for a float";
}

/// The sum of the first lanes only, as it is often written.
__global__ void sum_of_few(const float* in, float* out, unsigned few_lanes) {
  const unsigned few = __ballot_sync(kFull, threadIdx.x < few_lanes);
  float v = in[threadIdx.x];
  if (threadIdx.x < few_lanes) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(few, v, unsigned(d));  // sum of few
    out[threadIdx.x] = v;
  }
}

TEST(Shuffles, ASumOverLanesThatTheMaskDoesNotNameIsReported) {
  const Buffer<float> in("in", std::vector<float>(32, 1.0f));
  const auto out = Buffer<float>::zeros("out", 32);
  const gpusim::Report report = run({1, 32}, sum_of_few, in.get(), out.get(), 8u);
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(told(report)[0].lines, std::vector<int>{line_of("sum of few")});
  EXPECT_TRUE(
      says(report,
           "Lane 0 of warp 0 in block (0,0,0) reads the value of lane 16, which is not in mask 0x000000ff"));
  EXPECT_TRUE(is_clean(run({1, 32}, sum_of_few, in.get(), out.get(), 32u)));
  EXPECT_EQ(out.host()[0], 32.0f);
}

// ---- masks that do not name the lane that calls -----------------------------------------------------------

enum class WarpCall { kShuffle, kUp, kDown, kXor, kBallot, kAny, kAll, kAdd, kMax, kOr, kBarrier };

template <WarpCall kCall>
__global__ void with_mask(int* out, unsigned mask) {
  const int lane = int(threadIdx.x);
  int result = 0;
  if (kCall == WarpCall::kShuffle) result = __shfl_sync(mask, lane, lane);
  if (kCall == WarpCall::kUp) result = __shfl_up_sync(mask, lane, 0);
  if (kCall == WarpCall::kDown) result = __shfl_down_sync(mask, lane, 0);
  if (kCall == WarpCall::kXor) result = __shfl_xor_sync(mask, lane, 0);
  if (kCall == WarpCall::kBallot) result = int(__ballot_sync(mask, 1));
  if (kCall == WarpCall::kAny) result = __any_sync(mask, 1);
  if (kCall == WarpCall::kAll) result = __all_sync(mask, 1);
  if (kCall == WarpCall::kAdd) result = __reduce_add_sync(mask, lane);
  if (kCall == WarpCall::kMax) result = __reduce_max_sync(mask, lane);
  if (kCall == WarpCall::kOr) result = int(__reduce_or_sync(mask, unsigned(lane)));
  if (kCall == WarpCall::kBarrier) __syncwarp(mask);
  out[threadIdx.x] = result;
}

template <WarpCall kCall>
void check_mask_of_others(const std::string& name) {
  const auto out = Buffer<int>::zeros("out", 32);
  const gpusim::Report report = run({1, 32}, with_mask<kCall>, out.get(), 0xffff0000u);
  ASSERT_EQ(report.defects.size(), 1u) << name << "\n" << gpusim::format_defects(report);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kBarrierDivergence);
  std::string call = name + "() at warps_test.cu:";
#ifdef __clang__  // its debug information does not name every inlined function
  call.clear();
#endif
  EXPECT_TRUE(says(report,
                   "Barrier error detected. Mask 0xffff0000 in block (0,0,0) does not name thread (0,0,0), "
                   "which has reached " +
                       call));
  EXPECT_TRUE(is_clean(run({1, 32}, with_mask<kCall>, out.get(), kFull)));
}

TEST(Masks, MustNameTheLaneThatCalls) {
  check_mask_of_others<WarpCall::kShuffle>("__shfl_sync");
  check_mask_of_others<WarpCall::kUp>("__shfl_up_sync");
  check_mask_of_others<WarpCall::kDown>("__shfl_down_sync");
  check_mask_of_others<WarpCall::kXor>("__shfl_xor_sync");
  check_mask_of_others<WarpCall::kBallot>("__ballot_sync");
  check_mask_of_others<WarpCall::kAny>("__any_sync");
  check_mask_of_others<WarpCall::kAll>("__all_sync");
  check_mask_of_others<WarpCall::kAdd>("__reduce_add_sync");
  check_mask_of_others<WarpCall::kMax>("__reduce_max_sync");
  check_mask_of_others<WarpCall::kOr>("__reduce_or_sync");
  check_mask_of_others<WarpCall::kBarrier>("__syncwarp");
}

__global__ void sum_of_warps(const float* in, float* out) {
  float v = in[threadIdx.x];
  for (int bit = 16; bit > 0; bit /= 2) v += __shfl_xor_sync(kFull, v, bit);
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = v;
}

TEST(Shuffles, AreCountedOncePerWarp) {
  const Buffer<float> in("in", std::vector<float>(1024, 1.0f));
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 1024}, sum_of_warps, in.get(), out.get());
  EXPECT_EQ(report.ops.shuffles, 32 * 5);
  EXPECT_EQ(out.host(), std::vector<float>(32, 32.0f));
}

// ---- votes and reductions ---------------------------------------------------------------------------------

__global__ void votes(unsigned* out, unsigned mask) {
  const unsigned lane = threadIdx.x;
  if ((mask >> lane & 1) == 0) return;
  out[4 * lane] = __ballot_sync(mask, lane % 3 == 0);
  out[4 * lane + 1] = unsigned(__any_sync(mask, lane == 5) != 0);
  out[4 * lane + 2] = unsigned(__all_sync(mask, lane < 31) != 0);
  out[4 * lane + 3] = __activemask();
}

TEST(Votes, BallotAnyAll) {
  constexpr unsigned kThirds = 0x49249249u;
  for (unsigned mask : masks()) {
    const auto out = Buffer<unsigned>::zeros("out", 128);
    const gpusim::Report report = run({1, 32}, votes, out.get(), mask);
    ASSERT_TRUE(is_clean(report));
    EXPECT_EQ(report.ops.votes, 3);
    const auto result = out.host();
    for (std::size_t lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      EXPECT_EQ(result[4 * lane], mask & kThirds);
      EXPECT_EQ(result[4 * lane + 1], mask >> 5 & 1);
      EXPECT_EQ(result[4 * lane + 2], mask >> 31 == 0 ? 1u : 0u);
      EXPECT_EQ(result[4 * lane + 3], mask) << "the others have returned";
    }
  }
}

struct Reduced {
  int add, least, most;
  unsigned add_unsigned, most_unsigned, both, either, odd;
  auto operator<=>(const Reduced&) const = default;
};

__global__ void reductions(const int* in, Reduced* out, unsigned mask) {
  const unsigned lane = threadIdx.x;
  if ((mask >> lane & 1) == 0) return;
  const int v = in[lane];
  const auto u = unsigned(v);
  Reduced r;
  r.add = __reduce_add_sync(mask, v);
  r.least = __reduce_min_sync(mask, v);
  r.most = __reduce_max_sync(mask, v);
  r.add_unsigned = __reduce_add_sync(mask, u);
  r.most_unsigned = __reduce_max_sync(mask, u);
  r.both = __reduce_and_sync(mask, u);
  r.either = __reduce_or_sync(mask, u);
  r.odd = __reduce_xor_sync(mask, u);
  out[lane] = r;
}

TEST(Votes, Reductions) {
  std::mt19937 random(2);
  std::vector<int> values(32);
  for (int& v : values) v = int(random());
  const Buffer<int> in("in", values);
  for (unsigned mask : masks()) {
    const auto out = Buffer<Reduced>::zeros("out", 32);
    ASSERT_TRUE(is_clean(run({1, 32}, reductions, in.get(), out.get(), mask)));
    Reduced expected = {0, std::numeric_limits<int>::max(), std::numeric_limits<int>::min(), 0, 0, kFull, 0,
                        0};
    for (std::size_t lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      const auto u = unsigned(values[lane]);
      expected.add_unsigned += u;
      expected.least = std::min(expected.least, values[lane]);
      expected.most = std::max(expected.most, values[lane]);
      expected.most_unsigned = std::max(expected.most_unsigned, u);
      expected.both &= u;
      expected.either |= u;
      expected.odd ^= u;
    }
    expected.add = int(expected.add_unsigned);
    const auto result = out.host();
    for (std::size_t lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      EXPECT_TRUE(result[lane] == expected) << "mask " << std::hex << mask;
    }
  }
}

// ---- atomics ----------------------------------------------------------------------------------------------

__global__ void every_atomic(int* ints, unsigned* unsigneds, unsigned long long* longs, float* floats,
                             double* doubles) {
  atomicAdd(&ints[0], 1);
  atomicSub(&ints[1], 1);
  atomicMin(&ints[2], -int(threadIdx.x));
  atomicMax(&ints[3], int(threadIdx.x));
  atomicOr(&unsigneds[0], 1u << threadIdx.x % 32);
  atomicXor(&unsigneds[1], threadIdx.x);
  atomicAnd(&unsigneds[2], ~(1u << threadIdx.x % 32));
  atomicMax(&unsigneds[3], threadIdx.x + 0x80000000u);
  atomicAdd(&longs[0], 1ull << 33);
  atomicMax(&longs[1], static_cast<unsigned long long>(threadIdx.x) << 40);
  atomicAdd(&floats[0], 0.5f);
  atomicAdd(&doubles[0], 0.25);
  // A lock-free maximum of floats, the usual way.
  int old = atomicCAS(&ints[4], 0, 0);
  while (__int_as_float(old) < float(threadIdx.x)) {
    const int seen = atomicCAS(&ints[4], old, __float_as_int(float(threadIdx.x)));
    if (seen == old) break;
    old = seen;
  }
  if (atomicExch(&ints[5], 1) == 0) atomicAdd(&ints[6], 1);
}

TEST(Atomics, OverManyBlocks) {
  const auto ints = Buffer<int>::zeros("ints", 8);
  const auto unsigneds = Buffer<unsigned>::zeros("unsigneds", 4);
  cudaMemset(unsigneds.get() + 2, 0xff, 4);
  const auto longs = Buffer<unsigned long long>::zeros("longs", 2);
  const auto floats = Buffer<float>::zeros("floats", 1);
  const auto doubles = Buffer<double>::zeros("doubles", 1);
  const gpusim::Report report =
      run({20, 128}, every_atomic, ints.get(), unsigneds.get(), longs.get(), floats.get(), doubles.get());
  EXPECT_TRUE(is_clean(report));
  const auto i = ints.host();
  EXPECT_EQ(i[0], 2560);
  EXPECT_EQ(i[1], -2560);
  EXPECT_EQ(i[2], -127);
  EXPECT_EQ(i[3], 127);
  EXPECT_EQ(i[4], 0x42fe0000) << "127.0f";
  EXPECT_EQ(i[6], 1);
  EXPECT_EQ(unsigneds.host(), (std::vector<unsigned>{kFull, 0u, 0u, 0x8000007fu}));
  EXPECT_EQ(longs.host(), (std::vector<unsigned long long>{2560ull << 33, 127ull << 40}));
  EXPECT_EQ(floats.host()[0], 1280.0f);
  EXPECT_EQ(doubles.host()[0], 640.0);
}

// ---- blocks and grids -------------------------------------------------------------------------------------

struct Where {
  dim3 thread, block, block_size, grid_size;
};
unsigned volume(dim3 d) { return d.x * d.y * d.z; }

__global__ void where_am_i(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned size = blockDim.x * blockDim.y * blockDim.z;
  const unsigned first = __shfl_sync(__activemask(), thread, 0);
  unsigned* mine = out + 4 * (block * size + thread);
  mine[0] = threadIdx.x | threadIdx.y << 11 | threadIdx.z << 22;
  mine[1] = blockIdx.x | blockIdx.y << 11 | blockIdx.z << 22;
  mine[2] = first;
  mine[3] = unsigned(warpSize);
}

void check_shape(dim3 grid, dim3 block) {
  const std::size_t threads = std::size_t(volume(grid)) * volume(block);
  const Buffer<unsigned> out("out", 4 * threads);
  ASSERT_TRUE(is_clean(run({grid, block}, where_am_i, out.get())));
  const auto result = out.host();
  std::set<std::pair<unsigned, unsigned>> met;
  for (std::size_t i = 0; i < threads; ++i) {
    const unsigned thread = unsigned(i % volume(block));
    met.insert({result[4 * i + 1], result[4 * i]});
    ASSERT_EQ(result[4 * i] & 0x7ff, thread % block.x);
    ASSERT_EQ(result[4 * i] >> 11 & 0x7ff, thread / block.x % block.y);
    ASSERT_EQ(result[4 * i] >> 22, thread / block.x / block.y);
    ASSERT_EQ(result[4 * i + 2], thread / 32 * 32) << "warps are cut from the threads in this order";
    ASSERT_EQ(result[4 * i + 3], 32u);
  }
  EXPECT_EQ(met.size(), threads) << "every thread of every block, once";
}

TEST(Shapes, BlocksOfAnySize) {
  for (unsigned threads : {1u, 2u, 31u, 32u, 33u, 48u, 64u, 100u, 1023u, 1024u}) check_shape(3, threads);
}
TEST(Shapes, ThreeDimensions) {
  check_shape(dim3(3, 2, 4), dim3(5, 3, 2));
  check_shape(dim3(1, 1, 7), dim3(1, 1, 64));
  check_shape(dim3(1, 9, 1), dim3(32, 32));
  check_shape(dim3(2, 1, 3), dim3(2, 256, 2));
}
TEST(Shapes, ManyBlocks) {
  check_shape(1, 1);
  check_shape(1500, 33);
}

__global__ void large_frame(int* out) {
  volatile char frame[40000];  // most of a fiber's stack
  frame[threadIdx.x] = char(threadIdx.x);
  frame[39999] = 1;
  __syncthreads();
  out[threadIdx.x] = frame[threadIdx.x] + frame[39999];
}

TEST(Shapes, StacksAreTheThreadsOwn) {
  const Buffer<int> out("out", 64);
  EXPECT_TRUE(is_clean(run({1, 64}, large_frame, out.get())));
  EXPECT_EQ(out.host()[63], 64);
}

// ---- __activemask() ---------------------------------------------------------------------------------------

__global__ void masks_of_branches(unsigned* masks) {
  if (threadIdx.x < 8) {
    masks[threadIdx.x] = __activemask();
  } else if (threadIdx.x % 2 != 0) {
    masks[threadIdx.x] = __activemask();
  } else {
    for (unsigned i = 0; i < threadIdx.x; ++i) masks[threadIdx.x] = __activemask();
  }
}

TEST(ActiveMask, HasTheLanesThatAreThere) {
  GPUSIM_NEEDS_EXACT_ACCESSES();  // clang++ makes one call of those in two branches
  const Buffer<unsigned> masks("masks", 32);
  ASSERT_TRUE(is_clean(run({1, 32}, masks_of_branches, masks.get())));
  const std::vector<unsigned> host = masks.host();
  EXPECT_EQ(host[3], 0xffu);
  EXPECT_EQ(host[9], 0xaaaaaa00u);
  EXPECT_EQ(host[30], 0x40000000u) << "in its last iteration, all others have left the loop";
}

/// One atomic operation for all lanes that have found something.
__global__ void filter(const int* in, int count, int* out, int* counter) {
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += int(gridDim.x * blockDim.x)) {
    if (in[i] <= 3) continue;
    const unsigned there = __activemask();
    const int lane = int(threadIdx.x % 32), leader = __ffs(int(there)) - 1;
    int base = 0;
    if (lane == leader) base = atomicAdd(counter, __popc(there));
    base = __shfl_sync(there, base, leader);
    out[base + __popc(there & ((1u << lane) - 1))] = in[i];
  }
}

TEST(ActiveMask, AtomicOperationsForAWarp) {
  std::vector<int> values(1000);
  int expected = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = int(i * 7 % 10);
    expected += values[i] > 3;
  }
  const Buffer<int> in("in", values), out("out", values.size());
  for (const unsigned blocks : {2u, 8u}) {
    const auto counter = Buffer<int>::zeros("counter", 1);
    ASSERT_TRUE(is_clean(run({blocks, 128}, filter, in.get(), 1000, out.get(), counter.get())));
    EXPECT_EQ(counter.host()[0], expected);
  }
}

}  // namespace
}  // namespace gpusim_test
