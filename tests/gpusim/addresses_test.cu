/// @file
/// Whose memory an address is in: that of the device, of the block, of the thread, or of the host.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <numeric>
#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {

__device__ float of_device[32];
__constant__ float of_constants[32];
__device__ int counter;
float of_host[32];

namespace {

using gpusim::DefectKind;

__constant__ float of_one_file[4] = {1, 2, 3, 4};
constexpr float kTable[4] = {10, 20, 30, 40};

template <class T>
T* hidden(T* pointer) {  // the compiler cannot know what it points to
  T* volatile copy = pointer;
  return copy;
}

// ---- pointers of the host in a kernel ---------------------------------------------------------------------

__global__ void read_from(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x];  // read from
}
__global__ void write_to(float* out) {
  out[threadIdx.x] = 1.0f;  // write to
}
struct Arguments {
  const float* in;
  float* out;
};
__global__ void read_through_a_struct(Arguments a) {
  a.out[threadIdx.x] = a.in[threadIdx.x];  // in a struct
}
__global__ void add_to(int* sum) {
  atomicAdd(sum, 1);  // atomic
}
__global__ void copy_from(const float* in, float* out) {
  __shared__ float tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 4);  // copy
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = tile[threadIdx.x];
}
__global__ void copy_bytes(const char* in, char* out, int bytes) {
  if (threadIdx.x == 0) memcpy(out, in, std::size_t(bytes));  // bytes
}
__global__ void copy_objects(const float4* in, float4* out) {
  out[threadIdx.x] = in[threadIdx.x];  // objects
}

testing::AssertionResult is_host_access(const gpusim::Report& report, const std::string& access, int line,
                                        std::int64_t count) {
  if (told(report) != Defects{{DefectKind::kOutOfBounds, {line}, count}})
    return testing::AssertionFailure() << "line " << line << "\n" << gpusim::format_defects(report);
  if (const auto found = says(report, "Invalid __global__ " + access + " at addresses_test.cu:"); !found)
    return found;
  return says(
      report,
      "address is in the host's memory: a kernel can use what cudaMalloc() or cudaMallocHost() returns");
}

TEST(Addresses, AHostPointerInAKernel) {
  const std::vector<float> heap(32, 1.0f);
  const float stack[32] = {};
  const Buffer<float> out("out", 32);
  const auto line = line_of("read from");
  EXPECT_TRUE(
      is_host_access(run({1, 32}, read_from, heap.data(), out.get()), "read of size 4 bytes", line, 32));
  EXPECT_TRUE(
      is_host_access(run({1, 32}, read_from, hidden(stack), out.get()), "read of size 4 bytes", line, 32));
  EXPECT_TRUE(
      is_host_access(run({1, 32}, read_from, hidden(of_host), out.get()), "read of size 4 bytes", line, 32));
  std::vector<float> result(32);
  EXPECT_TRUE(is_host_access(run({1, 32}, write_to, result.data()), "write of size 4 bytes",
                             line_of("write to"), 32));
  EXPECT_EQ(result, std::vector<float>(32)) << "the write is not made";
}

TEST(Addresses, AHostPointerInAStruct) {
  const std::vector<float> heap(32, 1.0f);
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_host_access(run({1, 32}, read_through_a_struct, Arguments{heap.data(), out.get()}),
                             "read of size 4 bytes", line_of("in a struct"), 32));
  const Buffer<float> in("in", heap);
  EXPECT_TRUE(is_clean(run({1, 32}, read_through_a_struct, Arguments{in.get(), out.get()})));
}

TEST(Addresses, AHostPointerInOtherAccesses) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 128);
  const std::vector<float> heap(128, 1.0f);
  int sum = 0;
  EXPECT_TRUE(is_host_access(run({1, 32}, add_to, &sum), "atomic of size 4 bytes", line_of("atomic"), 32));
  EXPECT_EQ(sum, 0);
  EXPECT_TRUE(is_host_access(run({1, 32}, copy_from, heap.data(), out.get()), "read of size 4 bytes",
                             line_of("copy"), 32));
  EXPECT_TRUE(is_host_access(run({1, 32}, copy_bytes, reinterpret_cast<const char*>(heap.data()),
                                 reinterpret_cast<char*>(out.get()), 7),
                             "read of size 1 bytes", line_of("bytes"), 1));
  EXPECT_TRUE(is_host_access(run({1, 32}, copy_objects, reinterpret_cast<const float4*>(heap.data()),
                                 reinterpret_cast<float4*>(out.get())),
                             "read of size 16 bytes", line_of("objects"), 32));
}

// ---- what a kernel may use --------------------------------------------------------------------------------

TEST(Addresses, PinnedMemoryIsForKernelsToo) {
  float* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 128), cudaSuccess);
  std::iota(pinned, pinned + 32, 0.0f);
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, read_from, pinned, out.get())));
  EXPECT_EQ(out.host()[31], 31.0f);
  EXPECT_TRUE(is_host_access(run({1, 64}, read_from, pinned, out.get()), "read of size 4 bytes",
                             line_of("read from"), 32))
      << "past its end";
  EXPECT_TRUE(is_clean(run({1, 32}, write_to, pinned)));
  EXPECT_EQ(pinned[31], 1.0f);
  cudaFreeHost(pinned);
  EXPECT_TRUE(is_host_access(run({1, 32}, read_from, pinned, out.get()), "read of size 4 bytes",
                             line_of("read from"), 32))
      << "released";
}

__global__ void read_variables(const float* table, float* out) {
  const unsigned i = threadIdx.x;
  static float of_kernel[32];
  of_kernel[i] = float(i);
  of_device[i] = of_kernel[i];
  atomicAdd(&counter, 1);
  out[i] = of_device[i] + of_constants[i] + of_one_file[i % 4] + table[i % 4];
}

TEST(Addresses, VariablesOfTheDevice) {
  const std::vector<float> hundreds(32, 100.0f);
  cudaMemcpyToSymbol(of_constants, hundreds.data(), 128);
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, read_variables, hidden(kTable), out.get())));
  EXPECT_EQ(out.host()[5], 5.0f + 100.0f + 2.0f + 20.0f);
}

__device__ float sum(const float* values, int count) {
  float result = 0;
  for (int i = 0; i < count; ++i) result += values[i];
  return result;
}
__global__ void sum_of_locals(const float* in, float* out) {
  float values[8];
  for (int i = 0; i < 8; ++i) values[i] = in[8 * threadIdx.x + unsigned(i)];
  float (*volatile call)(const float*, int) = &sum;  // not inlined: its hooks see the local variable
  out[blockIdx.x * 32 + threadIdx.x] = call(values, 8);
}

TEST(Addresses, LocalVariables) {
  const Buffer<float> in("in", std::vector<float>(256, 0.5f));
  const Buffer<float> out("out", 64);
  EXPECT_TRUE(is_clean(run({2, 32}, sum_of_locals, in.get(), out.get())));
  EXPECT_EQ(out.host()[31], 4.0f);
}

__global__ void pass_a_local(float* out) {
  __shared__ float* of_first;
  float mine[4] = {1, 2, 3, 4};
  if (threadIdx.x == 0) of_first = mine;
  __syncthreads();
  out[threadIdx.x] = *of_first;  // of another
  __syncthreads();
}

TEST(Addresses, LocalVariablesOfAnotherThread) {
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, pass_a_local, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("of another")}, 31}}));
  EXPECT_TRUE(says(report, "Invalid __local__ read of size 4 bytes at addresses_test.cu:"));
  EXPECT_TRUE(says(report, "address is in the local memory of thread (0,0,0)"));
}

__global__ void copy_to_a_local(const float* in, float* out) {
  float values[4] = {};
  __pipeline_memcpy_async(values, in, 16);  // to a local
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = values[3];
}

TEST(Addresses, AnAsynchronousCopyGoesToSharedMemory) {
  const auto in = Buffer<float>::zeros("in", 4);
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, copy_to_a_local, in.get(), out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("to a local")}, 32}}));
  EXPECT_TRUE(says(report, "Invalid __shared__ write of size 16 bytes"));
  EXPECT_TRUE(says(report, "address is in the local memory of thread (0,0,0)"));
}

// ---- pointers of the device on the host -------------------------------------------------------------------

volatile float sink;
void read_on_host(const float* device) { sink = device[3]; }                     // host read
void write_on_host(float* device) { device[1] = 1.0f; }                          // host write
void copy_on_host(float* to, const float* from) { std::memcpy(to, from, 128); }  // host copy

TEST(AddressesDeathTest, ADevicePointerOnTheHost) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto x = Buffer<float>::zeros("x", 32);
  std::vector<float> host(32);
  const auto stops = testing::ExitedWithCode(2);
  const auto at = [](const char* tag) { return "addresses_test.cu:" + std::to_string(line_of(tag)); };
  EXPECT_EXIT(read_on_host(x.get()), stops,
              "gpusim: error: host code reads byte 12 of \"x\", in device memory, at " + at("host read") +
                  ": it needs cudaMemcpy\\(\\)\n$");
  EXPECT_EXIT(
      write_on_host(x.get()), stops,
      "gpusim: error: host code writes byte 4 of \"x\", in device memory, at " + at("host write") + ": ");
  EXPECT_EXIT(
      copy_on_host(host.data(), x.get()), stops,
      "gpusim: error: host code reads byte 0 of \"x\", in device memory, at " + at("host copy") + ": ");
}

}  // namespace
}  // namespace gpusim_test
