/// @file
/// Kernels whose code would end a program of the CPU, and reads out of bounds, after which a kernel goes on.
#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

__global__ void divide(const int* in, int* out) {
  out[threadIdx.x] = 7 / in[threadIdx.x];  // divides
}

TEST(Faults, AnIntegerIsDividedByZero) {
  const auto in = Buffer<int>::zeros("in", 32);
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, divide, in.get(), out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kMisuse, {line_of("divides")}, 32}}));
  EXPECT_TRUE(says(report, "an integer is divided by zero"));
}

__device__ int deep(int n, volatile int* p) {
  volatile int room[1000];
  room[0] = n;
  if (n == 0) return p[0];
  return deep(n - 1, p) + room[0];
}
__global__ void recurse(int* out) { out[0] = deep(100, out); }

TEST(Faults, TheStackIsUsedUp) {
  GPUSIM_NEEDS_EXACT_ACCESSES();  // clang++ makes a loop of the recursion
  const auto out = Buffer<int>::zeros("out", 1);
  EXPECT_TRUE(says(run({1, 1}, recurse, out.get()), "the thread has used up its stack: here it has 64 KiB"));
}

#ifndef NDEBUG
__global__ void claim(const int* in) {
  assert(in[threadIdx.x] == 1);  // claims
}

TEST(Faults, AnAssertionEndsTheThread) {
  const auto in = Buffer<int>::zeros("in", 32);
  const gpusim::Report report = run({1, 32}, claim, in.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kMisuse, {line_of("claims")}, 32}}));
  EXPECT_TRUE(says(report, "the assertion `in[threadIdx.x] == 1' fails"));
}
#endif

__global__ void write_at(float* out, long offset) {
  out[threadIdx.x + offset] = 1.0f;  // far
}

TEST(Faults, ANullPointerWithALargeIndex) {
  float* const null = nullptr;
  const gpusim::Report report = run({1, 32}, write_at, null, 1L << 20);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("far")}, 32}}));
  EXPECT_TRUE(says(report, "address is 4194304 bytes after a null pointer"));
  EXPECT_TRUE(says(run({1, 1}, write_at, null, -5L), "address is 20 bytes before a null pointer"));
}

// ---- reads out of bounds ----------------------------------------------------------------------------------

__global__ void shift(const float* in, float* out, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x + n];  // shifts
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}
__global__ void use(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x] + 1.0f; }

TEST(Faults, ABlockGoesOnAfterAReadOutOfBounds) {
  const Buffer<float> in("in", std::vector<float>(64, 2.0f));
  const Buffer<float> middle("middle", 64), out("out", 64);
  gpusim::take_report();
  EXPECT_EQ(try_run({1, 64}, shift, in.get(), middle.get(), 1), cudaSuccess);
  EXPECT_EQ(try_run({1, 64}, use, middle.get(), out.get()), cudaSuccess);
  EXPECT_EQ(told(gpusim::take_report()), (Defects{{DefectKind::kOutOfBounds, {line_of("shifts")}, 1}}));
  const std::vector<float> result = out.host();
  EXPECT_TRUE(result[0] != result[0]) << "what was read out of bounds is not a number";
  for (std::size_t i = 1; i < 64; ++i) EXPECT_EQ(result[i], 3.0f);
}

__global__ void follow(const int* next, const float* in, float* out) {
  out[threadIdx.x] = in[next[threadIdx.x + 1]];  // follows
}

TEST(Faults, WhatComesOfThatValueIsNotReported) {
  const auto next = Buffer<int>::zeros("next", 32);
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  EXPECT_EQ(told(run({1, 32}, follow, next.get(), in.get(), out.get())),
            (Defects{{DefectKind::kOutOfBounds, {line_of("follows")}, 1}}));
}

__global__ void write_all(float* out, int n) {
  out[threadIdx.x + n] = 1.0f;  // writes
}

TEST(Faults, WhatALostBlockShouldHaveWrittenIsNotReported) {
  const Buffer<float> middle("middle", 64), out("out", 64);
  gpusim::take_report();
  EXPECT_EQ(try_run({1, 64}, write_all, middle.get(), 1), cudaSuccess);
  EXPECT_EQ(try_run({1, 64}, use, middle.get(), out.get()), cudaSuccess);
  const gpusim::Report report = gpusim::take_report();
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("writes")}, 1}}));
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_EQ(told(run({1, 64}, use, middle.get(), out.get())).size(), 1u) << "after the next report it is";
}

TEST(Faults, MemoryThatIsNotUsedCostsNothing) {
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  float* large = nullptr;
  ASSERT_EQ(cudaMalloc(&large, total / 2), cudaSuccess);
  const Buffer<float> out("out", 32);
  EXPECT_EQ(told(run({1, 32}, use, static_cast<const float*>(large), out.get())).size(), 1u)
      << "nothing has written it";
  EXPECT_TRUE(out.host()[0] != out.host()[0]);
  EXPECT_EQ(cudaFree(large), cudaSuccess);
}

// ---- objects ----------------------------------------------------------------------------------------------

struct Shape {
  float size;
  __device__ explicit Shape(float s) : size(s) {}
  __device__ virtual float area() const = 0;

 protected:
  ~Shape() = default;
};
struct Square final : Shape {
  using Shape::Shape;
  __device__ float area() const override { return size * size; }
};
struct Circle final : Shape {
  float factor;
  __device__ explicit Circle(float s) : Shape(s), factor(3.0f) {}
  __device__ float area() const override { return factor * size * size; }
};

__global__ void areas(float* out) {
  __shared__ __align__(16) unsigned char room[2][sizeof(Circle)];
  __shared__ Shape* shapes[2];
  if (threadIdx.x == 0) {
    shapes[0] = new (room[0]) Square(2.0f);
    shapes[1] = new (room[1]) Circle(3.0f);
  }
  __syncthreads();
  out[threadIdx.x] = shapes[threadIdx.x % 2]->area();
}

TEST(Objects, VirtualFunctionsInSharedMemory) {
  const Buffer<float> out("out", 32);
  ASSERT_TRUE(is_clean(run({1, 32}, areas, out.get())));
  EXPECT_EQ(out.host()[0], 4.0f);
  EXPECT_EQ(out.host()[1], 27.0f);
}

// ---- threads of the host ----------------------------------------------------------------------------------

__global__ void add(int* x, int value) { x[threadIdx.x] += value; }

TEST(HostThreads, EachHasItsTurn) {
  gpusim::take_report();
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      cudaStream_t stream = nullptr;
      cudaStreamCreate(&stream);
      for (int round = 0; round < 10; ++round) {
        int* x = nullptr;
        cudaMalloc(&x, 64 * sizeof(int));
        cudaMemsetAsync(x, 0, 64 * sizeof(int), stream);
        cudaLaunchConfig_t config = {};
        config.gridDim = 1;
        config.blockDim = 64;
        config.stream = stream;
        for (int i = 0; i < 3; ++i) cudaLaunchKernelEx(&config, add, x, t);
        std::vector<int> host(64);
        cudaMemcpyAsync(host.data(), x, 64 * sizeof(int), cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        for (const int value : host) wrong[std::size_t(t)] += value != 3 * t;
        cudaFree(x);
      }
      cudaStreamDestroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
  EXPECT_TRUE(is_clean(gpusim::take_report()));
}

}  // namespace
}  // namespace gpusim_test
