/// @file
/// The runtime API: symbols, pitch, managed memory, streams, graphs, textures, surfaces, random numbers,
/// errors.
#include <cuda_runtime.h>
#include <curand.h>
#include <curand_kernel.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

__constant__ float coefficients[8];
__device__ int total;
__device__ float table[64];
__device__ __managed__ int shared_total;

__global__ void use_variables(float* out) {
  out[threadIdx.x] = coefficients[threadIdx.x % 8] + table[threadIdx.x];
  atomicAdd(&total, 1);
  atomicAdd(&shared_total, 2);
}

TEST(Symbols, AreCopiedAndFoundByNameOrAddress) {
  std::vector<float> values(8);
  std::iota(values.begin(), values.end(), 1.0f);
  EXPECT_EQ(cudaMemcpyToSymbol(coefficients, values.data(), 6 * sizeof(float), 2 * sizeof(float)),
            cudaSuccess);
  EXPECT_EQ(cudaMemcpyToSymbol(coefficients, values.data(), 2 * sizeof(float)), cudaSuccess);
  EXPECT_NE(cudaMemcpyToSymbol(coefficients, values.data(), 8 * sizeof(float), 4), cudaSuccess);
  EXPECT_NE(cudaMemcpyToSymbol(&coefficients, values.data(), sizeof(void*)),
            cudaSuccess);  // a temporary pointer
  float* address = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(cudaGetSymbolAddress(reinterpret_cast<void**>(&address), table), cudaSuccess);
  EXPECT_EQ(cudaGetSymbolSize(&bytes, table), cudaSuccess);
  EXPECT_EQ(bytes, sizeof table);
  const std::vector<float> more(64, 0.5f);
  EXPECT_EQ(cudaMemcpy(address, more.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  const int zero = 0;
  EXPECT_EQ(cudaMemcpyToSymbolAsync(total, &zero, sizeof zero, 0, cudaMemcpyHostToDevice, nullptr),
            cudaSuccess);
  shared_total = 0;
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, use_variables, out.get())));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  int count = 0;
  EXPECT_EQ(cudaMemcpyFromSymbol(&count, total, sizeof count), cudaSuccess);
  EXPECT_EQ(count, 32);
  EXPECT_EQ(shared_total, 64);
  EXPECT_EQ(out.host()[9], 2.0f + 0.5f);
  EXPECT_EQ(out.host()[2], 1.0f + 0.5f);
}

__global__ void add_one(float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += 1.0f;  // managed write
}

TEST(Managed, IsReportedIfTheHostDoesNotWait) {
  float* x = nullptr;
  ASSERT_EQ(cudaMallocManaged(&x, 64 * sizeof(float)), cudaSuccess);
  gpusim::name_allocation(x, "x");
  EXPECT_TRUE(is_clean(gpusim::take_report()));
  for (int i = 0; i < 64; ++i) x[i] = float(i);
  EXPECT_TRUE(is_clean(run({1, 64}, add_one, x, 64)));
  const float value = x[3];  // too early
  EXPECT_EQ(value, 4.0f);
  const gpusim::Report early = gpusim::take_report();
  EXPECT_EQ(told(early), (Defects{{DefectKind::kRace, {line_of("managed write"), line_of("too early")}, 1}}));
  EXPECT_TRUE(
      says(early, "the host does not wait for the kernel: no cudaDeviceSynchronize() between the two"));
  cudaDeviceSynchronize();
  EXPECT_EQ(x[3], 4.0f);
  EXPECT_TRUE(is_clean(gpusim::take_report()));
  EXPECT_EQ(told(run({1, 65}, add_one, x, 65)).size(), 1u);  // one past the end
  cudaDeviceSynchronize();
  EXPECT_EQ(cudaFree(x), cudaSuccess);
  gpusim::take_report();
}

TEST(Copies, KnowPitchesAndDirections) {
  float* matrix = nullptr;
  std::size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(&matrix, &pitch, 10 * sizeof(float), 4), cudaSuccess);
  EXPECT_EQ(pitch % 256, 0u);
  std::vector<float> host(40);
  std::iota(host.begin(), host.end(), 0.0f);
  EXPECT_EQ(cudaMemset2D(matrix, pitch, 0, 10 * sizeof(float), 4), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2D(matrix, pitch, host.data(), 40, 40, 4, cudaMemcpyHostToDevice), cudaSuccess);
  std::vector<float> back(40, -1.0f);
  EXPECT_EQ(cudaMemcpy2D(back.data(), 40, matrix, pitch, 40, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, host);
  EXPECT_EQ(cudaMemcpy2D(matrix, 20, host.data(), 40, 40, 4, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpy(back.data(), matrix, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cudaFree(matrix);

  cudaPitchedPtr box = {};
  const cudaExtent extent = make_cudaExtent(10 * sizeof(float), 2, 2);
  ASSERT_EQ(cudaMalloc3D(&box, extent), cudaSuccess);
  cudaMemcpy3DParms p = {};
  p.srcPtr = make_cudaPitchedPtr(host.data(), 40, 10, 2);
  p.dstPtr = box;
  p.extent = extent;
  p.kind = cudaMemcpyHostToDevice;
  EXPECT_EQ(cudaMemcpy3D(&p), cudaSuccess);
  float last = 0.0f;
  EXPECT_EQ(cudaMemcpy(&last, static_cast<char*>(box.ptr) + 3 * box.pitch + 36, 4, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(last, 39.0f);
  cudaFree(box.ptr);
}

TEST(Pointers, HaveAttributes) {
  int local = 0;
  float* device = nullptr;
  float* pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 16), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&pinned, 16, cudaHostAllocMapped), cudaSuccess);
  const auto type = [](const void* pointer) {
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
    return attributes.type;
  };
  EXPECT_EQ(type(&local), cudaMemoryTypeUnregistered);
  EXPECT_EQ(type(device), cudaMemoryTypeDevice);
  EXPECT_EQ(type(pinned), cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostRegister(&local, sizeof local, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(&local, sizeof local, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(type(&local), cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostUnregister(&local), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(&local), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaFreeHost(&local), cudaErrorInvalidValue);
  cudaFree(device);
  cudaFreeHost(pinned);
  cudaGetLastError();
}

TEST(StreamHandles, AreChecked) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -99), cudaSuccess);
  int priority = 0;
  unsigned flags = 0;
  EXPECT_EQ(cudaStreamGetPriority(stream, &priority), cudaSuccess);
  EXPECT_EQ(priority, -5);
  EXPECT_EQ(cudaStreamGetFlags(stream, &flags), cudaSuccess);
  EXPECT_EQ(flags, unsigned(cudaStreamNonBlocking));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  cudaEvent_t one = nullptr, other = nullptr;
  cudaEventCreate(&one);
  cudaEventCreateWithFlags(&other, cudaEventDisableTiming);
  float time = 0.0f;
  EXPECT_EQ(cudaEventElapsedTime(&time, one, one), cudaErrorInvalidResourceHandle);  // not recorded
  cudaEventRecord(one);
  cudaEventRecord(other);
  EXPECT_EQ(cudaEventElapsedTime(&time, one, other), cudaErrorInvalidResourceHandle);  // without time
  EXPECT_EQ(cudaEventElapsedTime(&time, one, one), cudaSuccess);
  EXPECT_GT(time, 0.0f);
  cudaEventDestroy(one);
  cudaEventDestroy(other);
  cudaGetLastError();
}

TEST(Graphs, RunWhatWasCaptured) {
  const auto x = Buffer<float>::zeros("x", 64);
  cudaStream_t stream = nullptr, side = nullptr;
  cudaStreamCreate(&stream);
  cudaStreamCreate(&side);
  cudaEvent_t fork = nullptr, join = nullptr;
  cudaEventCreate(&fork);
  cudaEventCreate(&join);
  static int calls = 0;
  calls = 0;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaMemsetAsync(x, 0, 64 * sizeof(float), stream);
  cudaLaunchConfig_t config = {1, 64, 0, stream, nullptr, 0};
  cudaLaunchKernelEx(&config, add_one, x.get(), 64);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(side, fork, 0);
  config.stream = side;
  cudaLaunchKernelEx(&config, add_one, x.get(), 32);
  cudaLaunchHostFunc(
      side, [](void* data) { ++*static_cast<int*>(data); }, &calls);
  cudaEventRecord(join, side);
  cudaStreamWaitEvent(stream, join, 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(x.host()[0], 0.0f);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, nullptr, nullptr, 0), cudaSuccess);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(x.host()[20], 2.0f);
  EXPECT_EQ(x.host()[40], 1.0f);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  cudaStreamDestroy(side);
  EXPECT_TRUE(is_clean(gpusim::take_report()));
  cudaGetLastError();
}

__global__ void sample_texture(cudaTextureObject_t texture, const float2* at, float* out) {
  out[threadIdx.x] = tex2D<float>(texture, at[threadIdx.x].x, at[threadIdx.x].y);
}
__global__ void change_surface(cudaSurfaceObject_t surface) {
  float value;
  surf2Dread(&value, surface, int(threadIdx.x * sizeof(float)), 1);
  surf2Dwrite(value + 100.0f, surface, int(threadIdx.x * sizeof(float)), 1);
}
__global__ void read_linear(cudaTextureObject_t texture, int4* out) {
  out[threadIdx.x] = tex1Dfetch<int4>(texture, int(threadIdx.x));
}

TEST(Textures, FilterAndClamp) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  ASSERT_EQ(cudaMallocArray(&array, &format, 4, 2, cudaArraySurfaceLoadStore), cudaSuccess);
  const std::vector<float> elements = {0, 1, 2, 3, 10, 11, 12, 13};
  ASSERT_EQ(cudaMemcpy2DToArray(array, 0, 0, elements.data(), 16, 16, 2, cudaMemcpyHostToDevice),
            cudaSuccess);
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  const std::vector<float2> points = {{0.5f, 0.5f},  {1.0f, 0.5f}, {1.0f, 1.0f},
                                      {-3.0f, 0.5f}, {9.0f, 9.0f}, {3.25f, 1.5f}};
  const Buffer<float2> at("at", points);
  const Buffer<float> out("out", points.size());
  const auto values = [&](cudaTextureFilterMode filter, cudaTextureAddressMode address) {
    cudaTextureDesc how = {};
    how.filterMode = filter;
    how.addressMode[0] = how.addressMode[1] = address;
    how.borderColor[0] = -1.0f;
    cudaTextureObject_t texture = 0;
    EXPECT_EQ(cudaCreateTextureObject(&texture, &resource, &how, nullptr), cudaSuccess);
    EXPECT_TRUE(is_clean(run({1, unsigned(points.size())}, sample_texture, texture, at.get(), out.get())));
    EXPECT_EQ(cudaDestroyTextureObject(texture), cudaSuccess);
    return out.host();
  };
  EXPECT_EQ(values(cudaFilterModePoint, cudaAddressModeClamp), (std::vector<float>{0, 1, 11, 0, 13, 13}));
  EXPECT_EQ(values(cudaFilterModePoint, cudaAddressModeBorder), (std::vector<float>{0, 1, 11, -1, -1, 13}));
  EXPECT_EQ(values(cudaFilterModeLinear, cudaAddressModeClamp),
            (std::vector<float>{0, 0.5f, 5.5f, 0, 13, 12.75f}));

  cudaSurfaceObject_t surface = 0;
  ASSERT_EQ(cudaCreateSurfaceObject(&surface, &resource), cudaSuccess);
  EXPECT_TRUE(is_clean(run({1, 4}, change_surface, surface)));
  EXPECT_FALSE(is_clean(run({1, 5}, change_surface, surface)));  // beyond the row
  std::vector<float> back(8);
  EXPECT_EQ(cudaMemcpy2DFromArray(back.data(), 16, array, 0, 0, 16, 2, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back[6], 212.0f);
  EXPECT_EQ(back[2], 2.0f);
  cudaDestroySurfaceObject(surface);
  cudaFreeArray(array);

  const Buffer<int4> linear("linear", std::vector<int4>{{1, 2, 3, 4}, {5, 6, 7, -8}});
  resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = linear.get();
  resource.res.linear.desc = cudaCreateChannelDesc<int4>();
  resource.res.linear.sizeInBytes = 2 * sizeof(int4);
  cudaTextureDesc how = {};
  cudaTextureObject_t texture = 0;
  ASSERT_EQ(cudaCreateTextureObject(&texture, &resource, &how, nullptr), cudaSuccess);
  const Buffer<int4> copies("copies", 3);
  EXPECT_TRUE(is_clean(run({1, 3}, read_linear, texture, copies.get())));
  EXPECT_EQ(copies.host()[1].w, -8);
  EXPECT_EQ(copies.host()[2].x, 0);  // beyond the end
  how.filterMode = cudaFilterModeLinear;
  EXPECT_EQ(cudaCreateTextureObject(&texture, &resource, &how, nullptr), cudaErrorInvalidFilterSetting);
  cudaGetLastError();
}

template <class State>
__global__ void draw(double* mean, double* variance, unsigned long long seed) {
  State state;
  curand_init(seed, threadIdx.x, 0, &state);
  double sum = 0, squares = 0;
  for (int i = 0; i < 1000; ++i) {
    const double x = curand_normal(&state);
    sum += x;
    squares += x * x;
  }
  mean[threadIdx.x] = sum / 1000;
  variance[threadIdx.x] = squares / 1000;
}

TEST(Random, HasTheRightDistribution) {
  const Buffer<double> mean("mean", 64), variance("variance", 64);
  for (const auto kernel : {draw<curandState>, draw<curandStatePhilox4_32_10_t>, draw<curandStateMRG32k3a>}) {
    EXPECT_TRUE(is_clean(run({1, 64}, kernel, mean.get(), variance.get(), 7ull)));
    const auto average = [](const std::vector<double>& x) {
      return std::accumulate(x.begin(), x.end(), 0.0) / 64;
    };
    EXPECT_NEAR(average(mean.host()), 0.0, 4.0 / 253);  // four standard deviations of 64000 numbers
    EXPECT_NEAR(average(variance.host()), 1.0, 4 * 1.4143 / 253);
  }
  curandGenerator_t generator = nullptr;
  ASSERT_EQ(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_MT19937), CURAND_STATUS_SUCCESS);
  curandSetPseudoRandomGeneratorSeed(generator, 3);
  const Buffer<float> numbers("numbers", 4096);
  EXPECT_EQ(curandGenerateUniform(generator, numbers, 4096), CURAND_STATUS_SUCCESS);
  double sum = 0;
  for (const float x : numbers.host()) {
    EXPECT_TRUE(x > 0.0f && x <= 1.0f);
    sum += x;
  }
  EXPECT_NEAR(sum / 4096, 0.5, 4 * 0.2887 / 64);
  EXPECT_EQ(curandGenerateNormal(generator, numbers, 3, 0, 1), CURAND_STATUS_LENGTH_NOT_MULTIPLE);
  curandDestroyGenerator(generator);
  EXPECT_EQ(gpusim::take_report().tensors["numbers"].write_bytes, 4096 * 4);
}

TEST(Errors, HaveNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorCooperativeLaunchTooLarge), "cudaErrorCooperativeLaunchTooLarge");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalAddress), "an illegal memory access was encountered");
  EXPECT_STREQ(cudaGetErrorString(cudaError_t(12345)), "unrecognized error code");
}

TEST(Device, HasItsAttributesAsProperties) {
  cudaDeviceProp p;
  ASSERT_EQ(cudaGetDeviceProperties(&p, 0), cudaSuccess);
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryClockRate, 0), cudaSuccess);
  EXPECT_EQ(value, p.memoryClockRate);
  EXPECT_GT(value, 0);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrClusterLaunch, 0), cudaSuccess);
  EXPECT_EQ(value, p.clusterLaunch);
  int blocks = 0, grid = 0, block = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_one, 256, 0), cudaSuccess);
  EXPECT_EQ(blocks, 8);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_one, 64, 40000), cudaSuccess);
  EXPECT_EQ(blocks, 5);  // 228 KiB for 40000 bytes and 1 KiB each
  EXPECT_EQ(cudaOccupancyMaxPotentialBlockSize(&grid, &block, add_one), cudaSuccess);
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 2 * p.multiProcessorCount);
}

}  // namespace
}  // namespace gpusim_test
