/// @file
/// Lines of code, and the exact warp instructions that the simulator sees for each: the compiler decides
/// where it puts the hooks, and all counts depend on that.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/trace.hpp"
#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ float smem[];

namespace {

using Accesses = std::vector<std::string>;

/// The lanes, if not all of the block: " lanes 0-15".
std::string lanes_text(std::uint32_t lanes, unsigned threads) {
  if (lanes == (threads == 32 ? ~0u : (1u << threads) - 1)) return "";
  std::string text = " lanes";
  for (int first = 0; first < 32; ++first) {
    if ((lanes >> first & 1) == 0) continue;
    int last = first;
    while (last < 31 && (lanes >> (last + 1) & 1) != 0) ++last;
    text += " " + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
    first = last;
  }
  return text;
}

/// Runs a kernel on one warp (or part of it) with buffers of zeros for its parameters x, y and z, and returns
/// its memory accesses: "read 4 x+0". The offset is that of the lowest lane, in bytes; in shared memory it
/// counts from the lowest address in use.
template <class... Params>
Accesses accesses_of(void (*kernel)(Params*...), unsigned threads = 32) {
  static const char* const kNames[] = {"x", "y", "z"};
  std::vector<Buffer<std::byte>> buffers;
  for (std::size_t i = 0; i < sizeof...(Params); ++i)
    buffers.push_back(Buffer<std::byte>::zeros(kNames[i], 4096));
  std::vector<gpusim::TraceEntry> trace;
  gpusim::trace = &trace;
  const auto run_with = [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return run({1, threads, 1024}, kernel, reinterpret_cast<Params*>(buffers[kIndex].get())...);
  };
  const gpusim::Report report = run_with(std::index_sequence_for<Params...>());
  gpusim::trace = nullptr;
  EXPECT_TRUE(is_clean(report));

  std::uintptr_t shared = ~std::uintptr_t(0);
  for (const auto& e : trace) {
    if (e.space == gpusim::Space::kShared) shared = std::min(shared, e.address);
  }
  Accesses result;
  for (const auto& e : trace) {
    static const char* const kKinds[] = {"read", "write", "atomic", "copy", "land"};
    std::string text = kKinds[int(e.kind)] + (" " + std::to_string(e.size)) + " ";
    if (e.space == gpusim::Space::kShared) text += "shared+" + std::to_string(e.address - shared);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto offset = e.address - reinterpret_cast<std::uintptr_t>(buffers[i].get());
      if (offset < 4096) text += kNames[i] + ("+" + std::to_string(offset));
    }
    result.push_back(text + lanes_text(e.lanes, threads));
  }
  return result;
}

// ---- copies of one element --------------------------------------------------------------------------------

struct MaxSum {  // aligned to 4
  float m, l;
};
struct alignas(8) AlignedMaxSum {
  float m, l;
};
struct Triple {
  float a, b, c;
};
struct alignas(16) AlignedTriple {
  float a, b, c;
};
struct Quad {  // aligned to 4
  float a[4];
};
struct alignas(16) Halves {
  __half a[8];
};
struct alignas(16) Octet {
  float a[8];
};
struct Doubles {  // 24 bytes, aligned to 8
  double a[3];
};

template <class T>
__global__ void copy(const T* x, T* y) {
  y[threadIdx.x] = x[threadIdx.x];
}

/// One read and one write of each part, in either order: for a struct, the compiler announces the write
/// first.
template <class T>
void expect_copied_in_parts_of(std::size_t part) {
  Accesses actual = accesses_of(copy<T>);
  Accesses expected;
  for (std::size_t offset = 0; offset < sizeof(T); offset += part) {
    expected.push_back("read " + std::to_string(part) + " x+" + std::to_string(offset));
    expected.push_back("write " + std::to_string(part) + " y+" + std::to_string(offset));
  }
  std::sort(actual.begin(), actual.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(actual, expected) << sizeof(T) << " bytes, aligned to " << alignof(T);
}

TEST(Accesses, ScalarsAreCopiedWhole) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  expect_copied_in_parts_of<bool>(1);
  expect_copied_in_parts_of<char>(1);
  expect_copied_in_parts_of<short>(2);
  expect_copied_in_parts_of<__half>(2);
  expect_copied_in_parts_of<__nv_bfloat16>(2);
  expect_copied_in_parts_of<int>(4);
  expect_copied_in_parts_of<float>(4);
  expect_copied_in_parts_of<double>(8);
  expect_copied_in_parts_of<long long>(8);
}

TEST(Accesses, VectorTypesAreCopiedWhole) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  expect_copied_in_parts_of<uchar4>(4);
  expect_copied_in_parts_of<__half2>(4);
  expect_copied_in_parts_of<__nv_bfloat162>(4);
  expect_copied_in_parts_of<float2>(8);
  expect_copied_in_parts_of<float4>(16);
  expect_copied_in_parts_of<int4>(16);
  expect_copied_in_parts_of<double2>(16);
}

TEST(Accesses, StructsAreCopiedAsTheirAlignmentAllows) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  expect_copied_in_parts_of<float3>(4);
  expect_copied_in_parts_of<char3>(1);
  expect_copied_in_parts_of<MaxSum>(4);
  expect_copied_in_parts_of<AlignedMaxSum>(8);
  expect_copied_in_parts_of<Triple>(4);
  expect_copied_in_parts_of<AlignedTriple>(16);
  expect_copied_in_parts_of<Quad>(4);
  expect_copied_in_parts_of<Halves>(16);
  expect_copied_in_parts_of<Octet>(16);
  expect_copied_in_parts_of<Doubles>(8);
}

// ---- arithmetic on memory ---------------------------------------------------------------------------------

__global__ void add_assign(float* x) { x[threadIdx.x] += 1.0f; }
__global__ void increment(int* x) { ++x[threadIdx.x]; }
__global__ void half_add_assign(__half* x) { x[threadIdx.x] += __half(1.0f); }
__global__ void volatile_add(volatile float* x) { x[threadIdx.x] = x[threadIdx.x] + 1.0f; }
__global__ void member_add_assign(float4* x) { x[threadIdx.x].y += 2.0f; }

TEST(Accesses, ReadModifyWriteReadsAndWrites) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(add_assign), (Accesses{"read 4 x+0", "write 4 x+0"}));
  EXPECT_EQ(accesses_of(increment), (Accesses{"read 4 x+0", "write 4 x+0"}));
  EXPECT_EQ(accesses_of(half_add_assign), (Accesses{"read 2 x+0", "write 2 x+0"}));
  EXPECT_EQ(accesses_of(volatile_add), (Accesses{"read 4 x+0", "write 4 x+0"}));
  EXPECT_EQ(accesses_of(member_add_assign), (Accesses{"read 4 x+4", "write 4 x+4"}));
}

__global__ void same_element_twice(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x];
}
__global__ void around_a_write(float* x, float* y) {
  const float before = x[threadIdx.x];
  y[threadIdx.x] = before + 1.0f;
  y[threadIdx.x + 32] = before + x[threadIdx.x];
}

TEST(Accesses, EqualReadsAreOneUnlessAWriteStandsBetween) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(same_element_twice), (Accesses{"read 4 x+0", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(around_a_write),
            (Accesses{"read 4 x+0", "write 4 y+0", "read 4 x+0", "write 4 y+128"}));
}

// ---- vectors, and their parts -----------------------------------------------------------------------------

__global__ void sum_of_float4(const float4* x, float* y) {
  const float4 v = x[threadIdx.x];
  y[threadIdx.x] = v.x + v.y + v.z + v.w;
}
__global__ void two_of_float4(const float4* x, float* y) {
  const float4 v = x[threadIdx.x];
  y[threadIdx.x] = v.x + v.w;
}
__global__ void member_of_float4(const float4* x, float* y) { y[threadIdx.x] = x[threadIdx.x].z; }
__global__ void member_of_struct(const Triple* x, float* y) { y[threadIdx.x] = x[threadIdx.x].b; }
__global__ void make_variable(const float* x, float4* y) {
  y[threadIdx.x] = make_float4(x[threadIdx.x], 1, 2, 3);
}
__global__ void make_constant(float4* x, float2* y) {
  x[threadIdx.x] = make_float4(0, 0, 0, 0);
  y[threadIdx.x] = make_float2(1, 2);
}
__global__ void value_initialized(float4* x, float2* y) {
  x[threadIdx.x] = {};
  y[threadIdx.x] = float2{};
}

TEST(Accesses, VectorsAreReadAndWrittenWholeAndMembersAlone) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(sum_of_float4), (Accesses{"read 16 x+0", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(two_of_float4), (Accesses{"read 16 x+0", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(member_of_float4), (Accesses{"read 4 x+8", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(member_of_struct), (Accesses{"read 4 x+4", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(make_variable), (Accesses{"read 4 x+0", "write 16 y+0"}));
  EXPECT_EQ(accesses_of(make_constant), (Accesses{"write 16 x+0", "write 8 y+0"}));
  EXPECT_EQ(accesses_of(value_initialized), (Accesses{"write 16 x+0", "write 8 y+0"}));
}

__global__ void braces(float4* x) { x[threadIdx.x] = {1, 2, 3, 4}; }
__global__ void either_or(const float4* x, float4* y) {
  y[threadIdx.x] = threadIdx.x < 16 ? x[threadIdx.x] : make_float4(0, 0, 0, 0);
}
__global__ void either_or_by_name(const float4* x, float4* y) {
  float4 v = make_float4(0, 0, 0, 0);
  if (threadIdx.x < 16) v = x[threadIdx.x];
  y[threadIdx.x] = v;
}

// Two cases in which the simulator differs from nvcc, which stores 16 bytes at once. The README mentions
// them.
TEST(Accesses, KnownDifferences) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(braces), (Accesses{"write 4 x+0", "write 4 x+4", "write 4 x+8", "write 4 x+12"}));
#if __GNUC__ < 13
  EXPECT_EQ(accesses_of(either_or),
            (Accesses{"write 16 y+0 lanes 0-15", "read 16 x+0 lanes 0-15", "write 16 y+256 lanes 16-31"}));
#else  // as nvcc does
  EXPECT_EQ(accesses_of(either_or), (Accesses{"read 16 x+0 lanes 0-15", "write 16 y+0"}));
#endif
  EXPECT_EQ(accesses_of(either_or_by_name), (Accesses{"read 16 x+0 lanes 0-15", "write 16 y+0"}));
}

__global__ void cast_to_float4(const float* __restrict__ x, float* __restrict__ y) {
  const float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];
  *reinterpret_cast<float4*>(y + 4 * threadIdx.x) = make_float4(v.w, v.z, v.y, v.x);
}
__global__ void cast_to_half2(const __half* x, __half* y) {
  *reinterpret_cast<__half2*>(&y[2 * threadIdx.x]) = *reinterpret_cast<const __half2*>(&x[2 * threadIdx.x]);
}
__global__ void float4_as_floats(const float4* x, float* y) {
  const float* p = reinterpret_cast<const float*>(x + threadIdx.x);
  y[threadIdx.x] = p[0] + p[3];
}
__global__ void into_registers(const float4* x, float4* y) {
  float r[8];
  for (int i = 0; i < 2; ++i) *reinterpret_cast<float4*>(&r[4 * i]) = x[threadIdx.x + 32 * i];
  y[threadIdx.x] = make_float4(r[0], r[2], r[4], r[6]);
}

TEST(Accesses, CastsSetTheWidth) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(cast_to_float4), (Accesses{"read 16 x+0", "write 16 y+0"}));
  EXPECT_EQ(accesses_of(cast_to_half2), (Accesses{"write 4 y+0", "read 4 x+0"}));
  EXPECT_EQ(accesses_of(float4_as_floats), (Accesses{"read 4 x+0", "read 4 x+12", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(into_registers), (Accesses{"read 16 x+0", "read 16 x+512", "write 16 y+0"}));
}

// ---- half and bfloat16 ------------------------------------------------------------------------------------

__global__ void float_to_half(const float* x, __half* y) { y[threadIdx.x] = __float2half(x[threadIdx.x]); }
__global__ void half_to_float(const __half* x, float* y) { y[threadIdx.x] = __half2float(x[threadIdx.x]); }
__global__ void float_to_bfloat16(const float* x, __nv_bfloat16* y) {
  y[threadIdx.x] = __float2bfloat16(x[threadIdx.x]);
}
__global__ void product_of_halves(const __half* x, float* y) {
  y[threadIdx.x] = float(x[threadIdx.x]) * float(x[threadIdx.x + 32]);
}
__global__ void float2_to_half2(const float2* x, __half2* y) {
  y[threadIdx.x] = __float22half2_rn(x[threadIdx.x]);
}
__global__ void half2_to_float2(const __half2* x, float2* y) {
  y[threadIdx.x] = __half22float2(x[threadIdx.x]);
}
__global__ void half2_fma(const __half2* x, __half2* y) {
  const __half2 v = x[threadIdx.x];
  y[threadIdx.x] = __hfma2(v, v, v);
}
__global__ void half2_zero(__half2* x) { x[threadIdx.x] = __float2half2_rn(0.0f); }

TEST(Accesses, HalvesAndPairs) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(float_to_half), (Accesses{"read 4 x+0", "write 2 y+0"}));
  EXPECT_EQ(accesses_of(half_to_float), (Accesses{"read 2 x+0", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(float_to_bfloat16), (Accesses{"read 4 x+0", "write 2 y+0"}));
  EXPECT_EQ(accesses_of(product_of_halves), (Accesses{"read 2 x+0", "read 2 x+64", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(float2_to_half2), (Accesses{"read 8 x+0", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(half2_to_float2), (Accesses{"read 4 x+0", "write 8 y+0"}));
  EXPECT_EQ(accesses_of(half2_fma), (Accesses{"read 4 x+0", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(half2_zero), (Accesses{"write 4 x+0"}));
}

// ---- atomic operations ------------------------------------------------------------------------------------

__global__ void atomic_add(float* x, int* y, double* z) {
  atomicAdd(&x[threadIdx.x], 1.0f);
  atomicAdd(y, 1);
  atomicAdd(z, 1.0);
}
__global__ void atomic_add_vectors(float2* x, float4* y) {
  atomicAdd(&x[1], float2{1.0f, 2.0f});
  atomicAdd(&y[1], float4{1.0f, 2.0f, 3.0f, 4.0f});
}
__global__ void atomic_others(unsigned* x, unsigned long long* y, int* z) {
  atomicAdd(y, 1ull);
  atomicCAS(x, 0u, 1u);
  atomicMax(z, 3);
  atomicMin(z + 1, 3);
  atomicExch(z + 2, 4);
  atomicSub(z + 3, 1);
}

TEST(Accesses, AtomicsAreNeitherReadsNorWrites) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(atomic_add), (Accesses{"atomic 4 x+0", "atomic 4 y+0", "atomic 8 z+0"}));
  EXPECT_EQ(accesses_of(atomic_add_vectors), (Accesses{"atomic 8 x+8", "atomic 16 y+16"}));
  EXPECT_EQ(accesses_of(atomic_others), (Accesses{"atomic 8 y+0", "atomic 4 x+0", "atomic 4 z+0",
                                                  "atomic 4 z+4", "atomic 4 z+8", "atomic 4 z+12"}));
}

// ---- shared memory ----------------------------------------------------------------------------------------

__global__ void static_floats(const float* x, float* y) {
  __shared__ float tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[31 - threadIdx.x];
}
__global__ void static_float4s(const float4* x, float4* y) {
  __shared__ float4 tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[31 - threadIdx.x];
}
__global__ void static_structs(const MaxSum* x, MaxSum* y) {
  __shared__ MaxSum tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[31 - threadIdx.x];
}
__global__ void static_matrix(float* x) {
  __shared__ float tile[4][33];
  tile[threadIdx.x / 8][threadIdx.x % 8] = 1.0f;
  __syncthreads();
  x[threadIdx.x] = tile[3][threadIdx.x % 8];
}
__global__ void static_scalar(float* x) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 3.0f;
  __syncthreads();
  x[threadIdx.x] = total;
}

TEST(Accesses, StaticSharedMemory) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(static_floats),
            (Accesses{"read 4 x+0", "write 4 shared+0", "read 4 shared+124", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(static_float4s),
            (Accesses{"write 16 shared+0", "read 16 x+0", "write 16 y+0", "read 16 shared+496"}));
  EXPECT_EQ(accesses_of(static_matrix), (Accesses{"write 4 shared+0", "read 4 shared+396", "write 4 x+0"}));
  EXPECT_EQ(accesses_of(static_scalar),
            (Accesses{"write 4 shared+0 lanes 0", "read 4 shared+0", "write 4 x+0"}));
}

// nvcc knows the address of every element of a static array, and takes as much of one at once as that allows.
TEST(Accesses, StructsInSharedMemoryAreTakenWholeWhereTheirAddressAllows) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(static_structs), (Accesses{"write 8 shared+0", "read 4 x+0", "read 4 x+4",
                                                   "write 4 y+0", "write 4 y+4", "read 8 shared+248"}));
}

__global__ void dynamic_memory(float* x) {
  float4* vectors = reinterpret_cast<float4*>(smem);
  vectors[threadIdx.x] = make_float4(1, 2, 3, 4);
  __syncthreads();
  smem[4 * threadIdx.x + 1] += 1.0f;
  __syncthreads();
  atomicAdd(&smem[4 * threadIdx.x], 1.0f);
  x[threadIdx.x] = smem[4 * threadIdx.x + 1];
}

TEST(Accesses, DynamicSharedMemory) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(dynamic_memory), (Accesses{"write 16 shared+0", "read 4 shared+4", "write 4 shared+4",
                                                   "atomic 4 shared+0", "read 4 shared+4", "write 4 x+0"}));
}

// ---- cache hints ------------------------------------------------------------------------------------------

__global__ void hinted(const float* x, float* y) { __stcs(y + threadIdx.x, __ldcs(x + threadIdx.x)); }
__global__ void hinted_float4(const float4* x, float4* y) {
  float4 v = __ldg(x + threadIdx.x);
  v.x = 2.0f * v.x;
  v.y = 2.0f * v.y;
  __stcs(y + threadIdx.x, v);
}

TEST(Accesses, CacheHintsChangeNothing) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(hinted), (Accesses{"read 4 x+0", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(hinted_float4), (Accesses{"read 16 x+0", "write 16 y+0"}));
}

// ---- what is not memory -----------------------------------------------------------------------------------

__global__ void built_in_variables(int* x) {
  x[threadIdx.x] = int(threadIdx.y + blockIdx.x * blockDim.x + gridDim.x) + warpSize;
}
__global__ void local_array(const float* x, float* y) {
  float r[8];
  for (int i = 0; i < 8; ++i) r[i] = x[i * 32 + threadIdx.x];
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += r[(3 * i + threadIdx.x) % 8];  // an index known only at run time
  y[threadIdx.x] = sum;
}
__device__ float sum_by_pointer(const float* values, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i];
  return sum;
}
__global__ void local_array_by_pointer(float* x) {
  float r[4] = {1, 2, 3, float(threadIdx.x)};
  x[threadIdx.x] = sum_by_pointer(r, 4);
}
__global__ void votes_and_shuffles(int* x) {
  const int v = __shfl_xor_sync(0xffffffffu, int(threadIdx.x), 1);
  x[threadIdx.x] = v + int(__ballot_sync(0xffffffffu, v > 3));
}

TEST(Accesses, LocalVariablesAreNoMemory) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(built_in_variables), (Accesses{"write 4 x+0"}));
  Accesses expected;
  for (int i = 0; i < 8; ++i) expected.push_back("read 4 x+" + std::to_string(128 * i));
  expected.push_back("write 4 y+0");
  EXPECT_EQ(accesses_of(local_array), expected);
  EXPECT_EQ(accesses_of(local_array_by_pointer), (Accesses{"write 4 x+0"}));
  EXPECT_EQ(accesses_of(votes_and_shuffles), (Accesses{"write 4 x+0"}));
}

// ---- control flow and calls -------------------------------------------------------------------------------

__global__ void unrolled(const float* x, float* y) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) sum += x[i * 32 + threadIdx.x];
  y[threadIdx.x] = sum;
}
__global__ void guarded(const float* x, float* y) {
  const float v = threadIdx.x < 5 ? x[threadIdx.x] : 0.0f;
  y[threadIdx.x] = v;
}

TEST(Accesses, BranchesAndLoops) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(accesses_of(unrolled),
            (Accesses{"read 4 x+0", "read 4 x+128", "read 4 x+256", "read 4 x+384", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(guarded), (Accesses{"read 4 x+0 lanes 0-4", "write 4 y+0"}));
  EXPECT_EQ(accesses_of(guarded, 8), (Accesses{"read 4 x+0 lanes 0-4", "write 4 y+0"}));
}

// The compiler announces no access to a struct that is an argument or the result of a call. So there must be
// no calls: kernels are flattened.
__device__ float4 load(const float4* p) { return *p; }
__device__ void store(float4* p, float4 v) { *p = v; }
__device__ __noinline__ float4 twice(float4 v) { return make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w); }
struct Accumulator {
  float4 v = {};
  __device__ void add(float4 o) { v = make_float4(v.x + o.x, v.y + o.y, v.z + o.z, v.w + o.w); }
  __device__ float4 get() const { return v; }
};
__global__ void calls(const float4* x, float4* y) {
  y[threadIdx.x] = load(x + threadIdx.x);
  store(y + 32 + threadIdx.x, x[threadIdx.x + 32]);
  y[threadIdx.x + 64] = twice(x[threadIdx.x + 64]);
}
__global__ void methods_and_lambdas(const float4* x, float4* y) {
  const auto element = [x](int i) { return x[i]; };
  Accumulator sum;
  sum.add(element(int(threadIdx.x)));
  y[threadIdx.x] = sum.get();
}

TEST(Accesses, StructsAsArgumentsAndResultsOfFunctions) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  Accesses actual = accesses_of(calls);
  std::sort(actual.begin(), actual.end());
  EXPECT_EQ(actual, (Accesses{"read 16 x+0", "read 16 x+1024", "read 16 x+512", "write 16 y+0",
                              "write 16 y+1024", "write 16 y+512"}));
  EXPECT_EQ(accesses_of(methods_and_lambdas), (Accesses{"read 16 x+0", "write 16 y+0"}));
}

// ---- memcpy, memset ---------------------------------------------------------------------------------------

__global__ void copy_first(const float* x, float* y) {
  if (threadIdx.x == 0) memcpy(y, x, x[0] == 0.0f ? 3 : 4);
}
__global__ void copy_constant(const float* x, float* y) {
  if (threadIdx.x == 0) std::memcpy(y, x, 3);
}
__global__ void clear_first(float* x) {
  if (threadIdx.x == 0) memset(x, 0, 2);
}

TEST(Accesses, MemcpyAndMemsetGoByteByByte) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Accesses bytes = {"read 1 x+0",  "write 1 y+0", "read 1 x+1",
                          "write 1 y+1", "read 1 x+2",  "write 1 y+2"};
  Accesses with_size = accesses_of(copy_first, 1);
  ASSERT_FALSE(with_size.empty());
  EXPECT_EQ(with_size[0], "read 4 x+0");
  with_size.erase(with_size.begin());
  EXPECT_EQ(with_size, bytes);
  EXPECT_EQ(accesses_of(copy_constant, 1), bytes);
  EXPECT_EQ(accesses_of(clear_first, 1), (Accesses{"write 1 x+0", "write 1 x+1"}));
}

__global__ void copy_bytes_of_each_lane(const char* x, char* y, int bytes) {
  memcpy(y + bytes * threadIdx.x, x + bytes * threadIdx.x, bytes);  // copy by lane
}

TEST(Accesses, MemcpyIsCountedCheckedAndDone) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<char> x("x", std::vector<char>(320, 'a'));
  const Buffer<char> y("y", 320);
  const gpusim::Report right = run({1, 32}, copy_bytes_of_each_lane, x.get(), y.get(), 10);
  EXPECT_TRUE(is_clean(right));
  EXPECT_EQ(y.host(), x.host());
  EXPECT_EQ(right.tensors.at("x").read_bytes, 320);
  EXPECT_EQ(right.tensors.at("x").read_requests, 10) << "one for each byte of a lane";
  EXPECT_EQ(right.tensors.at("x").read_sectors, 10 * 10);
  EXPECT_EQ(right.tensors.at("y").write_bytes, 320);

  const gpusim::Report wrong = run({1, 32}, copy_bytes_of_each_lane, x.get(), y.get(), 11);
  EXPECT_TRUE(says(wrong, "Invalid __global__ read of size 1 bytes at accesses_test.cu:" +
                              std::to_string(line_of("copy by lane")) + " by thread (29,0,0)"));
  EXPECT_TRUE(says(wrong, "address is 0 bytes after the end of \"x\" (320 bytes)"));
}

}  // namespace
}  // namespace gpusim_test
