/// @file
/// Invalid accesses: outside an allocation, misaligned, or to memory that was never written.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ float smem[];

namespace {

using gpusim::DefectKind;

// ---- out of bounds, global --------------------------------------------------------------------------------

__global__ void read_at(const float* in, float* out, int offset) {
  out[threadIdx.x] = in[int(threadIdx.x) + offset];  // oob: read
}
__global__ void write_at(float* out, int offset) {
  out[int(threadIdx.x) + offset] = 1.0f;  // oob: write
}

TEST(OutOfBounds, ReadPastTheEnd) {
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, read_at, in.get(), out.get(), 0)));
  const gpusim::Report report = run({1, 32}, read_at, in.get(), out.get(), 1);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: read")}, 1}}));
  EXPECT_TRUE(says(report, "Invalid __global__ read of size 4 bytes at memory_test.cu:"));
  EXPECT_TRUE(says(report, "by thread (31,0,0) in block (0,0,0)"));
  EXPECT_TRUE(says(report, "address is 0 bytes after the end of \"in\" (128 bytes)"));
}

TEST(OutOfBounds, ReadBeforeTheStart) {
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, read_at, in.get(), out.get(), -2);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: read")}, 2}}));
  EXPECT_TRUE(says(report, "by thread (0,0,0)"));
  EXPECT_TRUE(says(report, "address is 8 bytes before the start of \"in\" (128 bytes)"));
  // Far before it, too, even if it is the first allocation of the process.
  EXPECT_TRUE(says(run({1, 32}, read_at, in.get(), out.get(), -(1 << 18)), "before the start of"));
}

TEST(OutOfBounds, WritePastTheEnd) {
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, write_at, out.get(), 0)));
  const gpusim::Report report = run({1, 32}, write_at, out.get(), 31);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: write")}, 31}}));
  EXPECT_TRUE(says(report, "Invalid __global__ write of size 4 bytes"));
}

TEST(OutOfBounds, EveryThreadOfEveryWarpThatComesSoFarIsCounted) {
  const Buffer<float> out("out", 64);
  // A block is abandoned after the faulty warp: 32 threads of each of 3 blocks.
  const gpusim::Report report = run({3, 128}, write_at, out.get(), 64);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: write")}, 96}}));
}

TEST(OutOfBounds, AnAllocationOfOneByteMoreOrLess) {
  const Buffer<char> out("out", 127);
  const auto report = run({1, 32}, write_at, static_cast<float*>(static_cast<void*>(out.get())), 0);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: write")}, 1}}));
  EXPECT_TRUE(says(report, "address is byte 124 of \"out\"")) << "and its last byte is outside";
}

TEST(OutOfBounds, AfterCudaFree) {
  float* freed = nullptr;
  {
    const auto buffer = Buffer<float>::zeros("gone", 32);
    freed = buffer.get();
  }
  const gpusim::Report report = run({1, 32}, write_at, freed, 0);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: write")}, 32}}));
  EXPECT_TRUE(says(report, "byte 0 of \"gone\", which has been released"));
}

TEST(OutOfBounds, MemoryThatWasNeverAllocated) {
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 1}, write_at, out.get(), 50'000'000);
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kOutOfBounds);
}

__global__ void atomic_at(int* counter, int offset) { atomicAdd(counter + offset, 1); }

TEST(OutOfBounds, Atomics) {
  const auto counter = Buffer<int>::zeros("counter", 1);
  const gpusim::Report report = run({1, 1}, atomic_at, counter.get(), 1);
  EXPECT_TRUE(says(report, "Invalid __global__ atomic of size 4 bytes"));
}

/// Null pointers do not end the program: a plain access, an atomic operation, and one of a vector.
__global__ void vector_atomic_at(float4* sums, int offset) { atomicAdd(sums + offset, float4{1, 2, 3, 4}); }

TEST(OutOfBounds, NullPointers) {
  float* const null = nullptr;
  gpusim::Report report = run({2, 32}, write_at, null, 0);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: write")}, 64}}));
  EXPECT_TRUE(says(report, "Invalid __global__ write of size 4 bytes"));
  EXPECT_TRUE(says(report, "address is a null pointer"));
  EXPECT_TRUE(says(run({1, 1}, atomic_at, static_cast<int*>(nullptr), 5),
                   "address is 20 bytes after a null pointer"));
  report = run({1, 1}, vector_atomic_at, static_cast<float4*>(nullptr), 7);
  EXPECT_TRUE(says(report, "Invalid __global__ atomic of size 16 bytes"));
  EXPECT_TRUE(says(report, "address is 112 bytes after a null pointer"));
  const auto sums = Buffer<float>::zeros("sums", 32);
  EXPECT_TRUE(
      is_clean(run({1, 1}, vector_atomic_at, static_cast<float4*>(static_cast<void*>(sums.get())), 7)));
}

__global__ void vector_at_the_end(float4* out) {
  out[threadIdx.x] = make_float4(0, 0, 0, 0);  // oob: vector
}

TEST(OutOfBounds, AVectorThatIsPartlyOutside) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 4 * 32 - 2);
  const gpusim::Report report =
      run({1, 32}, vector_at_the_end, static_cast<float4*>(static_cast<void*>(out.get())));
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: vector")}, 1}}));
  EXPECT_TRUE(says(report, "size 16 bytes"));
}

// ---- out of bounds, shared --------------------------------------------------------------------------------

__global__ void dynamic_at(float* out, int offset) {
  smem[int(threadIdx.x) + offset] = 1.0f;  // oob: dynamic
  out[threadIdx.x] = smem[int(threadIdx.x) + offset];
}

TEST(OutOfBounds, DynamicSharedMemoryPastTheSizeOfTheLaunch) {
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32, 128}, dynamic_at, out.get(), 0)));
  EXPECT_TRUE(is_clean(run({1, 32, 256}, dynamic_at, out.get(), 32)));
  const gpusim::Report report = run({1, 32, 128}, dynamic_at, out.get(), 1);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: dynamic")}, 1}}));
  EXPECT_TRUE(says(report, "Invalid __shared__ write of size 4 bytes"));
  EXPECT_TRUE(says(report, "address is 0 bytes after the end of \"smem\" (128 bytes)"));
  EXPECT_EQ(told(run({1, 32}, dynamic_at, out.get(), 0)).size(), 1u) << "none was asked for";
}

__global__ void static_at(float* out, int offset) {
  __shared__ float tile[30];
  tile[int(threadIdx.x) % 30] = 0.0f;
  __syncthreads();
  const float* const elements = tile;  // an index into the array itself is checked before it is used
  out[threadIdx.x] = elements[int(threadIdx.x) % 30 + offset];  // oob: static
}

TEST(OutOfBounds, StaticArraysPastTheirEnd) {
  const Buffer<float> out("out", 30);
  EXPECT_TRUE(is_clean(run({1, 30}, static_at, out.get(), 0)));
  const gpusim::Report report = run({1, 30}, static_at, out.get(), 2);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: static")}, 2}}));
  EXPECT_TRUE(says(report, "after the end of \"tile\" (120 bytes)"));
}

__global__ void small_variables(int* out) {
  __shared__ char letter;
  __shared__ short number;
  __shared__ float2 pair;
  if (threadIdx.x == 0) {
    letter = 1;
    number = 2;
    pair = make_float2(3, 4);
  }
  __syncthreads();
  out[threadIdx.x] = letter + number + int(pair.x + pair.y);
}

TEST(OutOfBounds, SmallVariablesAreNotConfused) {
  const Buffer<int> out("out", 64);
  EXPECT_TRUE(is_clean(run({1, 64}, small_variables, out.get())));
  EXPECT_EQ(out.host()[63], 10);
}

// ---- misaligned -------------------------------------------------------------------------------------------

template <class T>
__global__ void vector_at(T* out, const char* in, int offset) {
  const T* vectors = reinterpret_cast<const T*>(in + offset);
  out[threadIdx.x] = vectors[threadIdx.x];  // misaligned
}

TEST(Misaligned, VectorsInGlobalMemory) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto in = Buffer<char>::zeros("in", 1024);
  const Buffer<float4> out4("out", 32);
  const Buffer<float2> out2("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, vector_at<float4>, out4.get(), in.get(), 16)));
  for (int offset : {4, 8, 12}) {
    const gpusim::Report report = run({1, 32}, vector_at<float4>, out4.get(), in.get(), offset);
    EXPECT_EQ(told(report), (Defects{{DefectKind::kMisaligned, {line_of("misaligned")}, 32}})) << offset;
    EXPECT_TRUE(says(report, "Misaligned __global__ read of size 16 bytes"));
    EXPECT_TRUE(says(report, "byte " + std::to_string(offset) + " of \"in\", not a multiple of 16"));
  }
  EXPECT_TRUE(is_clean(run({1, 32}, vector_at<float2>, out2.get(), in.get(), 8)));
  EXPECT_EQ(told(run({1, 32}, vector_at<float2>, out2.get(), in.get(), 4)),
            (Defects{{DefectKind::kMisaligned, {line_of("misaligned")}, 32}}));
}

__global__ void shared_vector_at(float* out, int offset) {
  smem[4 * threadIdx.x] = smem[4 * threadIdx.x + 1] = smem[4 * threadIdx.x + 2] = smem[4 * threadIdx.x + 3] =
      0;
  __syncthreads();
  if (threadIdx.x < 31) {
    out[threadIdx.x] = reinterpret_cast<const float2*>(smem + 4 * threadIdx.x + unsigned(offset))->x;
    const float2 pair = *reinterpret_cast<const float2*>(smem + 4 * threadIdx.x + unsigned(offset));  // pair
    out[threadIdx.x] += pair.x + pair.y;
  }
}

TEST(Misaligned, VectorsInSharedMemory) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32, 512}, shared_vector_at, out.get(), 2)));
  const gpusim::Report report = run({1, 32, 512}, shared_vector_at, out.get(), 1);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kMisaligned, {line_of("pair")}, 31}}));
  EXPECT_TRUE(says(report, "Misaligned __shared__ read of size 8 bytes"));
}

// ---- never written ----------------------------------------------------------------------------------------

__global__ void copy_floats(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x];  // uninitialized
}
__global__ void copy_vectors(const float4* in, float4* out) {
  const float4 v = in[threadIdx.x];  // uninitialized vector
  out[threadIdx.x] = v;
}

TEST(Uninitialized, GlobalMemoryBeforeAnyWrite) {
  const Buffer<float> in("in", 32);
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, copy_floats, in.get(), out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kUninitializedRead, {line_of("uninitialized")}, 32}}));
  EXPECT_TRUE(says(report, "Uninitialized __global__ memory read of size 4 bytes at memory_test.cu:"));
  EXPECT_TRUE(says(report, "address is byte 0 of \"in\", which nothing has written"));
  EXPECT_TRUE(is_clean(run({1, 32}, copy_floats, out.get(), in.get())))
      << "the kernel itself has written `out`";
}

TEST(Uninitialized, MemcpyAndMemsetWrite) {
  const Buffer<float> in("in", 32);
  const Buffer<float> out("out", 32);
  const std::vector<float> host(16);
  cudaMemcpy(in, host.data(), 64, cudaMemcpyHostToDevice);
  EXPECT_EQ(told(run({1, 32}, copy_floats, in.get(), out.get())),
            (Defects{{DefectKind::kUninitializedRead, {line_of("uninitialized")}, 16}}));
  cudaMemset(in.get() + 16, 0, 64);
  EXPECT_TRUE(is_clean(run({1, 32}, copy_floats, in.get(), out.get())));
}

TEST(Uninitialized, VectorsThatAreWrittenInPart) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> in("in", 128);
  const Buffer<float4> out("out", 32);
  cudaMemset(in, 0, 512 - 4);
  const auto* vectors = static_cast<const float4*>(static_cast<const void*>(in.get()));
  EXPECT_EQ(told(run({1, 32}, copy_vectors, vectors, out.get())),
            (Defects{{DefectKind::kUninitializedRead, {line_of("uninitialized vector")}, 1}}));
  cudaMemset(in.get() + 127, 0, 3);
  EXPECT_EQ(told(run({1, 32}, copy_vectors, vectors, out.get())),
            (Defects{{DefectKind::kUninitializedRead, {line_of("uninitialized vector")}, 1}}))
      << "one byte is still missing";
  cudaMemset(reinterpret_cast<char*>(in.get()) + 511, 0, 1);
  EXPECT_TRUE(is_clean(run({1, 32}, copy_vectors, vectors, out.get())));
}

TEST(Uninitialized, MarkedByTheHost) {
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  gpusim::mark_uninitialized(in, 32 * sizeof(float));
  EXPECT_EQ(told(run({1, 32}, copy_floats, in.get(), out.get())),
            (Defects{{DefectKind::kUninitializedRead, {line_of("uninitialized")}, 32}}));
  cudaMemset(in, 0, 32 * sizeof(float));
  gpusim::mark_uninitialized(reinterpret_cast<const char*>(in.get()) + 7, 2);
  EXPECT_EQ(told(run({1, 32}, copy_floats, in.get(), out.get())),
            (Defects{{DefectKind::kUninitializedRead, {line_of("uninitialized")}, 2}}));
}

TEST(Uninitialized, MemoryThatIsAllocatedAgain) {
  const Buffer<float> out("out", 32);
  float* before = nullptr;
  for (int round = 0; round < 2; ++round) {
    const Buffer<float> in("in", 32);
    ASSERT_TRUE(round == 0 || in.get() == before) << "another place: this tests nothing";
    before = in.get();
    EXPECT_EQ(told(run({1, 32}, copy_floats, in.get(), out.get())),
              (Defects{{DefectKind::kUninitializedRead, {line_of("uninitialized")}, 32}}));
    cudaMemset(in, 0, 128);
  }
}

__global__ void shared_in_part(float* out, int written) {
  __shared__ float tile[32];
  if (int(threadIdx.x) < written) tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // shared in part
}

TEST(Uninitialized, SharedMemoryOfEachBlock) {
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 32}, shared_in_part, out.get(), 32)));
  const gpusim::Report report = run({1, 32}, shared_in_part, out.get(), 20);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kUninitializedRead, {line_of("shared in part")}, 12}}));
  EXPECT_TRUE(says(report, "Uninitialized __shared__ memory read of size 4 bytes"));
  EXPECT_TRUE(says(report, place("tile[20]", "byte 80 of \"tile\"") + ", which nothing has written"));
}

__global__ void first_block_only(float* out) {
  __shared__ float tile[32];
  if (blockIdx.x == 0) tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x];  // next block
}

TEST(Uninitialized, ABlockFindsNothingOfTheOneBeforeIt) {
  const Buffer<float> out("out", 32 * 4);
  const gpusim::Report report = run({4, 32}, first_block_only, out.get());
  EXPECT_EQ(told(report), (Defects{{DefectKind::kUninitializedRead, {line_of("next block")}, 3 * 32}}));
}

struct KeyFirst {
  int key;
  double value;
};
struct ValueFirst {
  double value;
  int key;
};
struct Mixed {
  char tag;
  float x, y, z;
  double weight;
  short count;
};
template <class T>
__global__ void copy_structs(const T* in, T* out) {
  __shared__ T tile[32];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}
__global__ void write_members(KeyFirst* a, ValueFirst* b, Mixed* c) {
  a[threadIdx.x].key = b[threadIdx.x].key = int(threadIdx.x);
  a[threadIdx.x].value = b[threadIdx.x].value = 1.0;
  Mixed& m = c[threadIdx.x];
  m.tag = 1;
  m.x = m.y = m.z = 2.0f;
  m.weight = 3.0;
  m.count = 4;
}

TEST(Uninitialized, GapsBetweenMembersAreNoMatter) {
  GPUSIM_NEEDS_EXACT_ACCESSES();  // clang++ copies a structure with its gaps, 16 bytes at a time
  const Buffer<KeyFirst> a("a", 32), a_copy("a_copy", 32);
  const Buffer<ValueFirst> b("b", 32), b_copy("b_copy", 32);
  const Buffer<Mixed> c("c", 32), c_copy("c_copy", 32);
  EXPECT_FALSE(is_clean(run({1, 32}, copy_structs<Mixed>, c.get(), c_copy.get())));  // nothing is written
  EXPECT_TRUE(is_clean(run({1, 32}, write_members, a.get(), b.get(), c.get())));
  EXPECT_TRUE(is_clean(run({1, 32}, copy_structs<KeyFirst>, a.get(), a_copy.get())));
  EXPECT_TRUE(is_clean(run({1, 32}, copy_structs<ValueFirst>, b.get(), b_copy.get())));
  EXPECT_TRUE(is_clean(run({1, 32}, copy_structs<Mixed>, c.get(), c_copy.get())));
}

__global__ void halves_in_part(float* out) {
  __shared__ __half tile[64];
  if (threadIdx.x % 2 == 0) tile[threadIdx.x] = __half(1.0f);
  __syncthreads();
  out[threadIdx.x] = float(tile[threadIdx.x]);  // halves in part
}

TEST(Uninitialized, HalvesOfAWord) {
  const Buffer<float> out("out", 64);
  EXPECT_EQ(told(run({1, 64}, halves_in_part, out.get())),
            (Defects{{DefectKind::kUninitializedRead, {line_of("halves in part")}, 32}}));
}

// ---- and then --------------------------------------------------------------------------------------------

TEST(Reports, DefectsDoNotLeakIntoTheNext) {
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  EXPECT_FALSE(run({1, 32}, read_at, in.get(), out.get(), 1).defects.empty());
  EXPECT_TRUE(is_clean(gpusim::take_report()));
  EXPECT_TRUE(is_clean(run({1, 32}, read_at, in.get(), out.get(), 0)));
}

TEST(Reports, SumUpOverLaunches) {
  const Buffer<float> out("out", 32);
  gpusim::take_report();
  for (int i = 0; i < 3; ++i) try_run({1, 32}, write_at, out.get(), 16);
  const gpusim::Report report = gpusim::take_report();
  EXPECT_EQ(report.launches, 3);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kOutOfBounds, {line_of("oob: write")}, 3 * 16}}));
}

TEST(Reports, ABlockThatWentWrongDoesNotHarmTheNext) {
  const auto in = Buffer<float>::zeros("in", 32);
  const Buffer<float> out("out", 32);
  run({64, 32}, read_at, in.get(), out.get(), 1);
  const gpusim::Report report = run({1, 32}, read_at, in.get(), out.get(), 0);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.tensors.at("out").write_bytes, 128);
}

}  // namespace
}  // namespace gpusim_test
