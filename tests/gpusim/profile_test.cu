/// @file
/// With GPUSIM_PROFILE=1, reports tell how many basic blocks threads run through in each function.
#include <cstdlib>

#include "simulator.hpp"

namespace {

using namespace gpusim_test;

[[maybe_unused]] const int is_set = setenv("GPUSIM_PROFILE", "1", 1);  // before the first launch

__device__ __forceinline__ float halved(float x, int times) {
  for (int i = 0; i < times; ++i) x = x > 1.0f ? x * 0.5f : x;
  return x;
}

__device__ __forceinline__ float halved_and_more(float x, int times) { return halved(x, times) + 1.0f; }

__global__ void halve(float* x, int times) { x[threadIdx.x] = halved_and_more(x[threadIdx.x], times); }

TEST(Profile, BlocksCountForEachFunctionAroundThem) {
  const auto blocks_for = [](int times) {
    auto x = Buffer<float>::zeros("x", 64);
    return run({1, 64}, halve, x.get(), times).blocks_of_function;
  };
  const auto ten = blocks_for(10), hundred = blocks_for(100);
  EXPECT_GE(ten.at("halved"), 64 * 10);
  EXPECT_GT(hundred.at("halved"), 9 * ten.at("halved"));
  EXPECT_GE(ten.at("halved_and_more"), ten.at("halved"));
  EXPECT_GE(ten.at("halve"), ten.at("halved_and_more"));
  EXPECT_EQ(blocks_for(10), ten);
}

}  // namespace
