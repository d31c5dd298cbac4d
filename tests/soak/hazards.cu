// Small kernels in which threads share memory by the means of chapter 09: half of them right, the others with
// a mistake. They show which mistakes a tool sees, and whether it reports any that are none.
//
//   hazards --list     one line for each kernel: its name, right or wrong, and what it does
//   hazards NAME       runs a kernel; on a GPU, under compute-sanitizer
//   hazards            on the simulator: runs them all
//
// Exit status: 1 the simulator reports a right kernel, or a wrong one not; 2 there is no such kernel; 3 it
// cannot run.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "device/hopper.cuh"
#include "device/launch.cuh"
#include "device/reduce.cuh"
#ifdef GPUSIM
#include "gpusim/gpusim.hpp"
#endif

namespace hazards {
namespace {

namespace ptx = fa::ptx;

constexpr int kRounds = 4;

// --- a number in shared memory, from one thread to a warp --------------------------------------------------

enum class Release {
  kLane0AfterSyncwarp,
  kLane0,  ///< wrong: another lane may not have read yet
  kEveryLane,
  kEveryLaneTooEarly,  ///< wrong: before it reads
  kOnlyReader,
};

/// Thread 32 writes a number; warp 0 reads it and says that the place is free for the next one.
template <Release kRelease>
__global__ void hand_over(const int* in, int* out) {
  __shared__ int sNumber;
  __shared__ std::uint64_t full, empty;
  constexpr bool kEvery = kRelease == Release::kEveryLane || kRelease == Release::kEveryLaneTooEarly;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&empty, kEvery ? 32 : 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const int lane = threadIdx.x % 32;
  if (threadIdx.x >= 32) {
    if (lane > 0) return;
    for (int round = 0; round < kRounds; ++round) {
      ptx::mbarrier_wait(&empty, round % 2 ^ 1);
      sNumber = in[round];
      ptx::mbarrier_arrive(&full);
    }
    return;
  }
  int sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    ptx::mbarrier_wait(&full, round % 2);
    if (kRelease == Release::kEveryLaneTooEarly) ptx::mbarrier_arrive(&empty);
    if (kRelease == Release::kOnlyReader) {
      int number = 0;
      if (lane == 0) number = *const_cast<const volatile int*>(&sNumber);  // else nvcc lets all lanes read
      sum += __shfl_sync(fa::kAllLanes, number, 0);
    } else {
      sum += sNumber;
    }
    if (kRelease == Release::kLane0AfterSyncwarp) __syncwarp();
    if (kRelease == Release::kEveryLane || (!kEvery && lane == 0)) ptx::mbarrier_arrive(&empty);
  }
  out[lane] = sum;
}

// --- asynchronous copies -----------------------------------------------------------------------------------

/// The copy engine brings 32 numbers, twice, to the same place.
/// @tparam kWait  before reading    @tparam kRelease  all have read, before the second copy
template <bool kWait, bool kRelease>
__global__ void copy_in(const int* in, int* out) {
  __shared__ __align__(128) int sNumbers[32];
  __shared__ std::uint64_t full;
  const int lane = threadIdx.x;
  if (lane == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  int sum = 0;
  for (int round = 0; round < 2; ++round) {
    if (lane == 0) {
      ptx::mbarrier_arrive_expect_tx(&full, sizeof sNumbers);
      ptx::bulk_load(sNumbers, in, sizeof sNumbers, &full);
    }
    if (kWait) ptx::mbarrier_wait(&full, round);
    sum += sNumbers[31 - lane];
    if (!kWait) ptx::mbarrier_wait(&full, round);
    if (kRelease) __syncthreads();
  }
  out[lane] = sum;
}

/// The copy engine fetches 32 numbers that the lanes have written.
/// @tparam kFence, kSync  between writing and copying
template <bool kFence, bool kSync>
__global__ void copy_out(const int* in, int* out) {
  __shared__ __align__(128) int sNumbers[32];
  const int lane = threadIdx.x;
  sNumbers[lane] = in[lane];
  if (kFence) ptx::fence_proxy_async();
  if (kSync) __syncwarp();
  if (lane == 0) {
    ptx::bulk_store(out, sNumbers, sizeof sNumbers);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
  }
}

// --- products of a warpgroup -------------------------------------------------------------------------------

/// Multiplies ones by ones and changes an operand. @tparam kWait  before the change
template <bool kWait>
__global__ void multiply(const int*, int* out) {
  __shared__ __align__(1024) __half sA[64 * 16];
  __shared__ __align__(1024) __half sB[8 * 16 * 2];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) sA[i] = __float2half(1.0f);
  for (int i = threadIdx.x; i < 8 * 16 * 2; i += 128) sB[i] = __float2half(1.0f);
  ptx::fence_proxy_async();
  __syncthreads();
  // Without a swizzle: 8 rows of 16 bytes, the other half of k 128 bytes further on, the next 8 rows 256.
  const std::uint64_t distances = std::uint64_t(128 / 16) << 16 | std::uint64_t(256 / 16) << 32;
  float d[8];
  ptx::wgmma_fence();
  ptx::wgmma<__half, false, false, false>(d, distances | ptx::shared_address(sA) / 16,
                                          distances | ptx::shared_address(sB) / 16);
  ptx::wgmma_commit();
  if (kWait) {
    ptx::wgmma_wait<0>(d);
    __syncthreads();
  }
  sB[threadIdx.x] = __float2half(2.0f);
  if (!kWait) ptx::wgmma_wait<0>(d);
  out[threadIdx.x] = int(d[0]);
}

// --- all of them -------------------------------------------------------------------------------------------

struct Kernel {
  const char* name;
  bool right;
  const char* what;
  int threads;
  void (*kernel)(const int*, int*);
};

const Kernel kKernels[] = {
    {"every_lane", true, "every lane of a warp reads a number and releases it", 64,
     hand_over<Release::kEveryLane>},
    {"every_lane_early", false, "every lane releases the number before it reads it", 64,
     hand_over<Release::kEveryLaneTooEarly>},
    {"lane_0", true, "every lane reads; after a `__syncwarp()`, lane 0 releases for all", 64,
     hand_over<Release::kLane0AfterSyncwarp>},
    {"lane_0_early", false, "the same without `__syncwarp()`", 64, hand_over<Release::kLane0>},
    {"one_reader", true, "only lane 0 reads and releases; the others get the number by a shuffle", 64,
     hand_over<Release::kOnlyReader>},
    {"copy_in", true, "the copy engine loads; everyone waits, and all have read before the next copy", 32,
     copy_in<true, true>},
    {"copy_in_read_early", false, "the same, read before the wait", 32, copy_in<false, true>},
    {"copy_in_released_early", false, "the same, with the next copy before all have read", 32,
     copy_in<true, false>},
    {"copy_out", true, "lanes write; after a proxy fence and a `__syncwarp()`, the copy engine stores", 32,
     copy_out<true, true>},
    {"copy_out_no_fence", false, "the same without the proxy fence", 32, copy_out<false, true>},
    {"copy_out_early", false, "the same without `__syncwarp()`", 32, copy_out<true, false>},
    {"product", true, "`wgmma` reads an operand, which is changed after the wait", 128, multiply<true>},
    {"product_early", false, "the same, changed before the wait", 128, multiply<false>},
};

void run(const Kernel& kernel) {
  int *in = nullptr, *out = nullptr;
  FA_CUDA_CHECK(cudaMalloc(&in, 128 * sizeof(int)));
  FA_CUDA_CHECK(cudaMalloc(&out, 128 * sizeof(int)));
  FA_CUDA_CHECK(cudaMemset(in, 0, 128 * sizeof(int)));
  fa::launch(kernel.kernel, 1, kernel.threads, 0, nullptr, static_cast<const int*>(in), out);
  FA_CUDA_CHECK(cudaDeviceSynchronize());
  FA_CUDA_CHECK(cudaFree(in));
  FA_CUDA_CHECK(cudaFree(out));
}

#ifdef GPUSIM
/// Whether the simulator reports a mistake exactly if there is one.
bool found_out(const Kernel& kernel) {
  gpusim::take_report();
  run(kernel);
  const gpusim::Report report = gpusim::take_report();
  const bool agrees = report.defects.empty() == kernel.right;
  std::printf("%-24s %-6s %s\n", kernel.name, kernel.right ? "right" : "wrong",
              report.defects.empty() ? "nothing reported" : "reported");
  if (!agrees) std::printf("%s\n", gpusim::format_defects(report).c_str());
  return agrees;
}
#endif

int main_of(int count, char** words) {
  const std::string asked = count > 1 ? words[1] : "";
  if (asked == "--list") {
    for (const Kernel& k : kKernels) std::printf("%s %s %s\n", k.name, k.right ? "right" : "wrong", k.what);
    return 0;
  }
#ifdef GPUSIM
  bool agrees = true;
  for (const Kernel& kernel : kKernels) agrees &= found_out(kernel);
  return agrees ? 0 : 1;
#else
  for (const Kernel& kernel : kKernels) {
    if (asked != kernel.name) continue;
    run(kernel);
    return 0;
  }
  std::fprintf(stderr, "hazards: must be --list or the name of a kernel in it\n");
  return 2;
#endif
}

}  // namespace
}  // namespace hazards

int main(int count, char** words) {
  try {
    return hazards::main_of(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hazards: %s\n", error.what());
    return 3;
  }
}
