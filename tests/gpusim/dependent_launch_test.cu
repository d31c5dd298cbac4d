/// @file
/// Kernels that may begin before the one before them in their stream has ended: programmatic dependent
/// launches.
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

constexpr unsigned kThreads = 64;

__global__ void fill(float* x) { x[threadIdx.x] = 1.0f; }  // fill

enum class Wait { kNone, kAll, kOne, kOneWithBarrier };

/// Copies x to y. @param early  the next kernel may begin before this one has waited
template <Wait kWait>
__global__ void copy(const float* x, float* y, bool early) {
  if (early) cudaTriggerProgrammaticLaunchCompletion();
  if (kWait == Wait::kAll || (kWait >= Wait::kOne && threadIdx.x == 0)) cudaGridDependencySynchronize();
  if (kWait == Wait::kOneWithBarrier) __syncthreads();
  const float value = x[threadIdx.x];  // read
  y[threadIdx.x] = value;              // write
  if (!early) cudaTriggerProgrammaticLaunchCompletion();
}

struct Stream {
  Stream() { cudaStreamCreate(&stream); }
  ~Stream() { cudaStreamDestroy(stream); }
  Stream(const Stream&) = delete;
  cudaStream_t stream = nullptr;
};

template <class... Params, class... Args>
void launch(const Stream& stream, bool overlaps, void (*kernel)(Params...), Args... args) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = overlaps;
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = kThreads;
  config.stream = stream.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, args...), cudaSuccess);
}

std::string place_of(const std::string& tag) {
  return "dependent_launch_test.cu:" + std::to_string(line_of(tag, __FILE__));
}

class DependentLaunch : public testing::Test {
 protected:
  Stream stream;
  Buffer<float> x{"x", kThreads}, y{"y", kThreads}, z{"z", kThreads};

  /// fill(), something, and then copy().
  template <class Between>
  gpusim::Report report_of(bool overlaps, void (*kernel)(const float*, float*, bool), Between&& between) {
    gpusim::take_report();
    launch(stream, false, fill, x.get());
    between();
    launch(stream, overlaps, kernel, x.get(), y.get(), false);
    return gpusim::take_report();
  }
  gpusim::Report report_of(bool overlaps, void (*kernel)(const float*, float*, bool)) {
    return report_of(overlaps, kernel, [] {});
  }
};

TEST_F(DependentLaunch, AReadBeforeTheWaitIsReported) {
  const gpusim::Report report = report_of(true, copy<Wait::kNone>);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kRace, {line_of("fill"), line_of("read")}, kThreads}}));
  EXPECT_TRUE(says(report, "Race reported between Write access by a kernel at " + place_of("fill") +
                               " and Read access by a kernel at " + place_of("read") + "\n"));
  EXPECT_TRUE(says(report,
                   "global memory, byte 0 of \"x\": the kernel before may still be running: no "
                   "cudaGridDependencySynchronize() comes before this read  ["));
}

TEST_F(DependentLaunch, TheWaitOrdersThreadsThatExecuteItOrComeAfterOneThatDoes) {
  EXPECT_TRUE(is_clean(report_of(true, copy<Wait::kAll>)));
  EXPECT_TRUE(is_clean(report_of(true, copy<Wait::kOneWithBarrier>)));
  EXPECT_EQ(told(report_of(true, copy<Wait::kOne>)),
            (Defects{{DefectKind::kRace, {line_of("fill"), line_of("read")}, kThreads - 1}}));
}

TEST_F(DependentLaunch, WithoutTheAttributeKernelsFollowEachOther) {
  EXPECT_TRUE(is_clean(report_of(false, copy<Wait::kNone>)));
}

TEST_F(DependentLaunch, OnlyAKernelRightBeforeMayStillRun) {
  EXPECT_TRUE(is_clean(report_of(true, copy<Wait::kNone>, [&] { cudaStreamSynchronize(stream.stream); })));
  EXPECT_TRUE(is_clean(report_of(true, copy<Wait::kNone>, [&] { cudaDeviceSynchronize(); })));
  EXPECT_TRUE(is_clean(report_of(true, copy<Wait::kNone>,
                                 [&] { cudaMemsetAsync(z, 0, kThreads * sizeof(float), stream.stream); })));
  EXPECT_TRUE(is_clean(report_of(true, copy<Wait::kNone>, [&] {
    cudaEvent_t event;
    cudaEventCreate(&event);
    cudaEventRecord(event, stream.stream);
    cudaEventSynchronize(event);
    cudaEventDestroy(event);
  })));
}

TEST_F(DependentLaunch, AWriteBeforeTheWaitMeetsTheReadersOfTheKernelBefore) {
  launch(stream, false, fill, x.get());
  cudaDeviceSynchronize();
  gpusim::take_report();
  launch(stream, false, copy<Wait::kNone>, x.get(), y.get(), false);
  launch(stream, true, fill, x.get());
  const gpusim::Report report = gpusim::take_report();
  EXPECT_EQ(told(report), (Defects{{DefectKind::kRace, {line_of("read"), line_of("fill")}, kThreads}}));
  EXPECT_TRUE(says(report, "no cudaGridDependencySynchronize() comes before this write"));
}

// The kernel in between lets the next one begin; the question is whether the first has ended by then.
TEST_F(DependentLaunch, AKernelThatHasWaitedBeforeItsTriggerLeavesNothingUnfinished) {
  const auto report_with = [&](void (*between)(const float*, float*, bool), bool early) {
    return report_of(true, copy<Wait::kNone>,
                     [&] { launch(stream, true, between, z.get(), z.get(), early); });
  };
  launch(stream, false, fill, z.get());
  cudaDeviceSynchronize();
  EXPECT_TRUE(is_clean(report_with(copy<Wait::kAll>, false)));
  EXPECT_FALSE(is_clean(report_with(copy<Wait::kAll>, true)));
  EXPECT_FALSE(is_clean(report_with(copy<Wait::kNone>, false)));
}

}  // namespace
}  // namespace gpusim_test
