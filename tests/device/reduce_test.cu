// Reductions over warps and blocks, for sums, maxima and a type defined here.

#include "device/reduce.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "device/launch.cuh"
#include "device_vector.hpp"

namespace fa {
namespace reduce_test {

/// The largest value and the thread that has it.
struct Best {
  float value;
  int thread;
};

__device__ __forceinline__ Best shuffle_xor(Best best, int mask) {
  return {fa::shuffle_xor(best.value, mask), __shfl_xor_sync(0xffffffffu, best.thread, mask)};
}

__device__ __forceinline__ Best better(Best a, Best b) { return a.value > b.value ? a : b; }

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <int kLanes, class Op>
__global__ void reduce_in_warps(const float* in, float* out) {
  out[threadIdx.x] = warp_reduce<kLanes>(in[threadIdx.x], Op());
}

template <int kWarps, class Op>
__global__ void reduce_in_blocks(const float* in, float* out) {
  __shared__ float sPartial[kWarps];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = block_reduce(in[i], Op(), sPartial);
}

__global__ void best_of_block(const float* in, int* out) {
  __shared__ Best sPartial[4];
  const int thread = threadIdx.x;
  const Best mine = {in[thread], thread};
  out[thread] = block_reduce(mine, better, sPartial).thread;
}

/// Two reductions in one kernel, with the barrier that the contract requires.
__global__ void range_of_block(const float* in, float* out) {
  __shared__ float sPartial[2];
  const float high = block_reduce(in[threadIdx.x], Max(), sPartial);
  __syncthreads();
  const float low = -block_reduce(-in[threadIdx.x], Max(), sPartial);
  out[threadIdx.x] = high - low;
}

/// Small integers in no particular order: their sums are exact, so they can be compared with ==.
std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = float(i * 37 % 101) - 50.0f;
  return values;
}

/// The expected result of every thread: op over each group of `group` neighbours.
template <class Op>
std::vector<float> reduced(const std::vector<float>& in, std::size_t group, Op op) {
  std::vector<float> out(in.size());
  for (std::size_t first = 0; first < in.size(); first += group) {
    float value = in[first];
    for (std::size_t i = first + 1; i < first + group; ++i) value = op(value, in[i]);
    std::fill_n(out.begin() + std::ptrdiff_t(first), group, value);
  }
  return out;
}

float sum(float a, float b) { return a + b; }
float largest(float a, float b) { return std::max(a, b); }

template <int kLanes>
void expect_groups_of_a_warp() {
  const std::vector<float> in = numbers(64);
  DeviceVector<float> x(in), y(in.size());
  launch(reduce_in_warps<kLanes, Sum>, 1, unsigned(in.size()), 0, nullptr, x.get(), y.get());
  EXPECT_EQ(y.host(), reduced(in, kLanes, sum)) << kLanes << " lanes";
  launch(reduce_in_warps<kLanes, Max>, 1, unsigned(in.size()), 0, nullptr, x.get(), y.get());
  EXPECT_EQ(y.host(), reduced(in, kLanes, largest)) << kLanes << " lanes";
}

TEST(WarpReduce, GivesEachLaneTheResultOfItsGroup) {
  expect_groups_of_a_warp<1>();
  expect_groups_of_a_warp<2>();
  expect_groups_of_a_warp<4>();
  expect_groups_of_a_warp<8>();
  expect_groups_of_a_warp<16>();
  expect_groups_of_a_warp<32>();
}

template <int kWarps>
void expect_blocks() {
  constexpr unsigned kThreads = 32 * kWarps, kBlocks = 3;
  const std::vector<float> in = numbers(kThreads * kBlocks);
  DeviceVector<float> x(in), y(in.size());
  launch(reduce_in_blocks<kWarps, Sum>, kBlocks, kThreads, 0, nullptr, x.get(), y.get());
  EXPECT_EQ(y.host(), reduced(in, kThreads, sum)) << kWarps << " warps";
  launch(reduce_in_blocks<kWarps, Max>, kBlocks, kThreads, 0, nullptr, x.get(), y.get());
  EXPECT_EQ(y.host(), reduced(in, kThreads, largest)) << kWarps << " warps";
}

TEST(BlockReduce, GivesEachThreadTheResultOfItsBlock) {
  expect_blocks<1>();
  expect_blocks<2>();
  expect_blocks<4>();
  expect_blocks<8>();
  expect_blocks<16>();
  expect_blocks<32>();
}

TEST(BlockReduce, TakesATypeOfItsOwn) {
  std::vector<float> in = numbers(128);
  for (const int winner : {0, 31, 32, 77, 127}) {
    std::vector<float> values = in;
    values[std::size_t(winner)] = 1000.0f;
    DeviceVector<float> x(values);
    DeviceVector<int> y(values.size());
    launch(best_of_block, 1, 128, 0, nullptr, x.get(), y.get());
    EXPECT_EQ(y.host(), std::vector<int>(128, winner));
  }
}

TEST(BlockReduce, CanBeRepeatedAfterABarrier) {
  const std::vector<float> in = numbers(64);
  DeviceVector<float> x(in), y(in.size());
  launch(range_of_block, 1, 64, 0, nullptr, x.get(), y.get());
  const auto [low, high] = std::minmax_element(in.begin(), in.end());
  EXPECT_EQ(y.host(), std::vector<float>(in.size(), *high - *low));
}

}  // namespace reduce_test
}  // namespace fa
