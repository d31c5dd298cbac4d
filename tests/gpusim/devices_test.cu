/// @file
/// The devices that GPUSIM_DEVICE names: their limits, and the instructions that they lack. The variable is
/// read once, so each check runs in a process of its own.
#include <cuda_pipeline.h>
#include <gpusim_hopper.h>
#include <gpusim_ptx.h>
#include <mma.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ float smem[];

namespace {

/// Expects `check` to hold on a device.
void expect_on(const char* device, bool (*check)()) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("GPUSIM_DEVICE", device, 1);
        std::exit(check() ? 0 : 3);
      },
      testing::ExitedWithCode(0), "")
      << device;
}

// ---- limits -----------------------------------------------------------------------------------------------

template <int kCapability, int kSharedBytes, int kMultiprocessors>
bool has_sizes() {
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, 0) != cudaSuccess) return false;
  int shared = 0, multiprocessors = 0, major = 0, minor = 0;
  cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  return p.major == major && p.minor == minor && 10 * major + minor == kCapability &&
         p.sharedMemPerBlockOptin == std::size_t(shared) && shared == kSharedBytes &&
         p.sharedMemPerMultiprocessor >= p.sharedMemPerBlockOptin && p.regsPerBlock == 65536 &&
         p.multiProcessorCount == multiprocessors && multiprocessors == kMultiprocessors;
}

TEST(Devices, HaveTheSizesOfTheirDataSheets) {
  expect_on("t4", has_sizes<75, 65536, 40>);
  expect_on("a100", has_sizes<80, 166912, 108>);
  expect_on("rtx3060", has_sizes<86, 101376, 28>);
  expect_on("rtx4090", has_sizes<89, 101376, 128>);
  expect_on("rtx5090", has_sizes<120, 101376, 170>);
  expect_on("h100", has_sizes<90, 232448, 132>);
  expect_on("", has_sizes<90, 232448, 132>);
}

TEST(Devices, AnUnknownOneEndsTheProgramWithTheNames) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("GPUSIM_DEVICE", "t5", 1);
        cudaDeviceProp p;
        cudaGetDeviceProperties(&p, 0);
      },
      testing::ExitedWithCode(2),
      "^error: GPUSIM_DEVICE is t5: must be t4, a100, rtx3060, rtx4090, rtx5090 or h100\n$");
}

__global__ void use_dynamic(float* out) {
  smem[threadIdx.x] = 1.0f;
  out[threadIdx.x] = smem[threadIdx.x];
}
__global__ void use_both(float* out) {
  __shared__ float sStatic[256];
  sStatic[threadIdx.x] = smem[threadIdx.x] = 1.0f;
  out[threadIdx.x] = smem[threadIdx.x] + sStatic[threadIdx.x];
}

cudaError_t launch_with(void (*kernel)(float*), int dynamic_bytes) {
  const Buffer<float> out("out", 32);
  const cudaError_t allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes);
  if (allowed != cudaSuccess) return allowed;
  return try_run({.dynamic_shared_bytes = std::size_t(dynamic_bytes)}, kernel, out.get());
}

/// A block may have this much shared memory, static and dynamic together, and no more.
template <int kLimit>
bool refuses_more_than() {
  return launch_with(use_dynamic, kLimit) == cudaSuccess &&
         launch_with(use_dynamic, kLimit + 4) == cudaErrorInvalidValue &&
         launch_with(use_both, kLimit - 1024) == cudaSuccess &&
         launch_with(use_both, kLimit - 1020) == cudaErrorInvalidValue;
}

TEST(Devices, RefuseMoreSharedMemoryThanTheyHave) {
  expect_on("t4", refuses_more_than<64 * 1024>);
  expect_on("a100", refuses_more_than<163 * 1024>);
  expect_on("rtx4090", refuses_more_than<99 * 1024>);
  expect_on("h100", refuses_more_than<227 * 1024>);
}

// ---- instructions -----------------------------------------------------------------------------------------

__global__ void copy(const float* in, float* out) {
  __shared__ __align__(16) float sTile[128];
  __pipeline_memcpy_async(sTile + 4 * threadIdx.x, in + 4 * threadIdx.x, 16);  // copies
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = sTile[4 * threadIdx.x];
}

__global__ void multiply(float* out) {
  const std::uint32_t a[4] = {}, b[2] = {};
  float c[4] = {};
  gpusim::ptx::mma_m16n8k16_f16(c, a, b);
  out[threadIdx.x] = c[0];
}

/// ldmatrix, and wmma with half: sm_75 has both.
__global__ void multiply_halves(float* out) {
  using namespace nvcuda;
  __shared__ __align__(128) __half sTile[256];
  for (int i = threadIdx.x; i < 256; i += 32) sTile[i] = __float2half(1.0f);
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);
  wmma::load_matrix_sync(a, sTile, 16);
  wmma::load_matrix_sync(b, sTile, 16);
  wmma::mma_sync(c, a, b, c);
  out[threadIdx.x] = c.x[0];
}

bool lack(const gpusim::Report& report, const std::string& instruction, const std::string& needed = "8.0",
          const std::string& actual = "7.5") {
  return report.defects.size() == 1 && report.defects[0].kind == gpusim::DefectKind::kUnsupported &&
         says(report, "Illegal instruction at devices_test.cu:") &&
         says(report, instruction + " needs compute capability " + needed + ", this device has " + actual);
}

TEST(Devices, OfSm75HaveNoAsynchronousCopies) {
  const auto run_copy = [] {
    const auto in = Buffer<float>::zeros("in", 128);
    const Buffer<float> out("out", 32);
    return run({}, copy, in.get(), out.get());
  };
  static auto report_of = +run_copy;
  expect_on("t4", [] { return lack(report_of(), "cp.async"); });
  expect_on("a100", [] { return bool(is_clean(report_of())); });
}

TEST(Devices, OfSm75MultiplyOnlyHalvesOnTensorCores) {
  static auto report_of = +[](void (*kernel)(float*)) {
    const Buffer<float> out("out", 32);
    return run({}, kernel, out.get());
  };
  expect_on("t4", [] { return lack(report_of(multiply), "mma"); });
  expect_on("a100", [] { return bool(is_clean(report_of(multiply))); });
  expect_on("t4", [] { return bool(is_clean(report_of(multiply_halves))); });
}

__global__ void give_registers() { gpusim::ptx::setmaxnreg_dec<24>(); }
__global__ void multiply_as_warpgroup(float* out) {
  gpusim::ptx::wgmma_fence();
  out[threadIdx.x] = 0.0f;
}

TEST(Devices, OnlySm90HasWgmma) {
  static auto report_of = +[] {
    const Buffer<float> out("out", 128);
    return run({.block = 128}, multiply_as_warpgroup, out.get());
  };
  expect_on("rtx4090", [] { return lack(report_of(), "wgmma", "9.0", "8.9"); });
  expect_on("rtx5090", [] { return lack(report_of(), "wgmma", "9.0", "12.0"); });
  expect_on("h100", [] { return bool(is_clean(report_of())); });
  expect_on("rtx4090", [] { return lack(run({.block = 128}, give_registers), "setmaxnreg", "9.0", "8.9"); });
  expect_on("rtx5090", [] { return bool(is_clean(run({.block = 128}, give_registers))); });
}

}  // namespace
}  // namespace gpusim_test
