// Launching kernels: arguments, shared memory, and the messages of refusals.

#include "device/launch.cuh"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "device_vector.hpp"

namespace fa {

extern __shared__ float4 smem[];

namespace launch_test {

/// out[i] = scale * i, by one thread each.
__global__ void multiples(float* out, int count, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = scale * float(i);
}

/// Reverses in[0 .. 4 * float4s) through dynamic shared memory; a little static shared memory comes on top.
__global__ void reversed(const float* in, float* out, int float4s) {
  __shared__ float sLast[4];
  float* sAll = reinterpret_cast<float*>(smem);
  const int count = 4 * float4s;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sAll[i] = in[i];
  if (threadIdx.x < 4) sLast[threadIdx.x] = in[count - 4 + int(threadIdx.x)];
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = i < 4 ? sLast[3 - i] : sAll[count - 1 - i];
}

TEST(Launch, PassesGridBlockAndConvertedArguments) {
  DeviceVector<float> y(1000);
  launch(multiples, dim3(4), dim3(256), 0, nullptr, y.get(), 1000L, 2);  // long to int, int to float
  const std::vector<float> values = y.host();
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 2.0f * float(i));
}

// 48 KiB of dynamic shared memory need no consent, but 16 bytes of static shared memory come on top of it.
TEST(Launch, AsksForSharedMemoryBeyond48KiB) {
  for (const int bytes : {1024, 48 * 1024, 60 * 1024}) {
    std::vector<float> in(std::size_t(bytes) / sizeof(float));
    std::iota(in.begin(), in.end(), 0.0f);
    DeviceVector<float> x(in), y(in.size());
    launch(reversed, 1, 128, std::size_t(bytes), nullptr, x.get(), y.get(), bytes / 16);
    EXPECT_EQ(y.host(), std::vector<float>(in.rbegin(), in.rend())) << bytes << " bytes";
  }
}

TEST(Launch, ThrowsWhatTheDeviceRefuses) {
  DeviceVector<float> y(1);
  EXPECT_THROW(launch(multiples, 1, 2048, 0, nullptr, y.get(), 1, 1.0f), CudaError);
  EXPECT_THROW(launch(multiples, 0, 32, 0, nullptr, y.get(), 1, 1.0f), CudaError);
  EXPECT_THROW(launch(multiples, dim3(1, kMostBlocksInYOrZ + 1), 1, 0, nullptr, y.get(), 0, 1.0f), CudaError);
  EXPECT_THROW(launch(multiples, dim3(1, 1, kMostBlocksInYOrZ + 1), 1, 0, nullptr, y.get(), 0, 1.0f),
               CudaError);
  EXPECT_THROW(launch(multiples, 1u << 31, 1, 0, nullptr, y.get(), 0, 1.0f), CudaError);
  EXPECT_THROW(launch(multiples, 1, 32, std::size_t(1) << 20, nullptr, y.get(), 1, 1.0f), CudaError);
  cudaGetLastError();
  launch(multiples, 1, 32, 0, nullptr, y.get(), 1, 1.0f);  // a refusal leaves nothing behind
  EXPECT_EQ(y.host(), std::vector<float>{0.0f});
}

TEST(CudaCheck, SaysWhatFailedWhereAndWhy) {
  int value = 0, line = 0;
  try {
    line = __LINE__ + 1;
    FA_CUDA_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99));
    FAIL() << "there is no device 99";
  } catch (const CudaError& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code, cudaErrorInvalidDevice);
    EXPECT_NE(text.find("launch_test.cu:" + std::to_string(line)), std::string::npos) << text;
    EXPECT_NE(text.find("cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99)"), std::string::npos)
        << text;
    EXPECT_NE(text.find(cudaGetErrorString(cudaErrorInvalidDevice)), std::string::npos) << text;
  }
}

}  // namespace launch_test
}  // namespace fa
