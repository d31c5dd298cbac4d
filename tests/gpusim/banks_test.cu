/// @file
/// Bank conflicts in shared memory, for patterns whose cost is known.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ float smem[];

namespace {

constexpr int kFloats = 4096;  // more than any pattern reaches

/// The cost of one warp instruction.
struct Wavefronts {
  std::int64_t taken, ideal;
  bool operator==(const Wavefronts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Wavefronts& w) {
  return out << w.taken << " wavefronts, ideal " << w.ideal;
}

/// Fills the memory without conflicts, then makes the one access to measure.
template <class T, class Index>
__global__ void load(float* out, Index index, unsigned lanes) {
  for (int i = int(threadIdx.x); i < kFloats; i += 32) smem[i] = 0.0f;
  __syncthreads();
  if ((lanes >> threadIdx.x & 1) == 0) return;
  const T value = reinterpret_cast<const T*>(smem)[index(int(threadIdx.x))];
  *reinterpret_cast<T*>(out + 4 * threadIdx.x) = value;
}
template <class T, class Index>
__global__ void store(float* out, Index index, unsigned lanes) {
  if ((lanes >> threadIdx.x & 1) == 0) return;
  const T value = reinterpret_cast<const T*>(out + 4 * threadIdx.x)[0];
  reinterpret_cast<T*>(smem)[index(int(threadIdx.x))] = value;
}

/// Element index(lane) of an array of T is read by each lane.
template <class T, class Index>
Wavefronts load_cost(Index index, unsigned lanes = 0xffffffffu) {
  const auto out = Buffer<float>::zeros("out", 128);
  const gpusim::Report report = run({1, 32, kFloats * 4}, load<T, Index>, out.get(), index, lanes);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.shared.store_wavefronts, kFloats / 32);
  EXPECT_EQ(report.shared.bytes_per_block, kFloats * 4);
  return {report.shared.load_wavefronts, report.shared.load_wavefronts_ideal};
}

/// The same for a write; no two lanes to the same element.
template <class T, class Index>
Wavefronts store_cost(Index index, unsigned lanes = 0xffffffffu) {
  const auto out = Buffer<float>::zeros("out", 128);
  const gpusim::Report report = run({1, 32, kFloats * 4}, store<T, Index>, out.get(), index, lanes);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.shared.load_wavefronts, 0);
  return {report.shared.store_wavefronts, report.shared.store_wavefronts_ideal};
}

template <int kStride>
constexpr auto stride = [](int lane) { return kStride * lane; };

TEST(Banks, Words) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(load_cost<float>(stride<1>), (Wavefronts{1, 1}));
  EXPECT_EQ(load_cost<float>(stride<2>), (Wavefronts{2, 1}));
  EXPECT_EQ(load_cost<float>(stride<4>), (Wavefronts{4, 1}));
  EXPECT_EQ(load_cost<float>(stride<32>), (Wavefronts{32, 1})) << "a column of a 32x32 matrix";
  EXPECT_EQ(load_cost<float>(stride<33>), (Wavefronts{1, 1})) << "padded";
  EXPECT_EQ(load_cost<float>(stride<3>), (Wavefronts{1, 1})) << "odd strides meet every bank once";
  EXPECT_EQ(load_cost<float>([](int) { return 7; }), (Wavefronts{1, 1})) << "broadcast";
  EXPECT_EQ(load_cost<float>([](int lane) { return lane / 4; }), (Wavefronts{1, 1}));
  EXPECT_EQ(load_cost<float>([](int lane) { return lane % 4 * 32; }), (Wavefronts{4, 1}));
  EXPECT_EQ(load_cost<float>([](int lane) { return 31 - lane; }), (Wavefronts{1, 1})) << "any order";
  EXPECT_EQ(load_cost<float>([](int lane) { return lane % 2 * 32 + lane / 2; }), (Wavefronts{2, 1}))
      << "two rows, 16 columns each";
}

TEST(Banks, StoresCostTheSame) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(store_cost<float>(stride<1>), (Wavefronts{1, 1}));
  EXPECT_EQ(store_cost<float>(stride<2>), (Wavefronts{2, 1}));
  EXPECT_EQ(store_cost<float>(stride<32>), (Wavefronts{32, 1}));
  EXPECT_EQ(store_cost<float>(stride<33>), (Wavefronts{1, 1}));
  EXPECT_EQ(store_cost<float4>(stride<1>), (Wavefronts{4, 4}));
  EXPECT_EQ(store_cost<float4>(stride<8>), (Wavefronts{32, 4}));
}

TEST(Banks, Pairs) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(load_cost<float2>(stride<1>), (Wavefronts{2, 2})) << "half a warp at a time";
  EXPECT_EQ(load_cost<float2>(stride<2>), (Wavefronts{4, 2}));
  EXPECT_EQ(load_cost<float2>(stride<16>), (Wavefronts{32, 2}));
  EXPECT_EQ(load_cost<float2>(stride<17>), (Wavefronts{2, 2}));
  EXPECT_EQ(load_cost<float2>([](int) { return 5; }), (Wavefronts{1, 1}))
      << "lanes that pair up: all at once";
  EXPECT_EQ(load_cost<float2>([](int lane) { return lane / 2; }), (Wavefronts{1, 1}));
}

TEST(Banks, Quads) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(load_cost<float4>(stride<1>), (Wavefronts{4, 4})) << "a quarter of a warp at a time";
  EXPECT_EQ(load_cost<float4>(stride<2>), (Wavefronts{8, 4}));
  EXPECT_EQ(load_cost<float4>(stride<8>), (Wavefronts{32, 4})) << "rows of 128 bytes";
  EXPECT_EQ(load_cost<float4>(stride<9>), (Wavefronts{4, 4})) << "padded by 16 bytes";
  EXPECT_EQ(load_cost<float4>([](int) { return 5; }), (Wavefronts{2, 2}));
}

/// Rows of 128 bytes whose eight 16-byte chunks are permuted depending on the row number.
TEST(Banks, Swizzled) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto piece = [](int row, int column) { return row * 8 + (column ^ (row % 8)); };
  EXPECT_EQ(load_cost<float4>([=](int lane) { return piece(lane, 3); }), (Wavefronts{4, 4}))
      << "down a column";
  EXPECT_EQ(load_cost<float4>([=](int lane) { return piece(lane / 8, lane % 8); }), (Wavefronts{4, 4}))
      << "along rows";
  EXPECT_EQ(store_cost<float4>([=](int lane) { return piece(lane, 5); }), (Wavefronts{4, 4}));
}

TEST(Banks, HalvesOfAWordAreOneWord) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(load_cost<__half>(stride<1>), (Wavefronts{1, 1})) << "16 words";
  EXPECT_EQ(load_cost<__half>(stride<2>), (Wavefronts{1, 1}));
  EXPECT_EQ(load_cost<__half>(stride<64>), (Wavefronts{32, 1})) << "a column of halves in rows of 128 bytes";
  EXPECT_EQ(load_cost<__half>(stride<66>), (Wavefronts{1, 1})) << "padded by a word";
  EXPECT_EQ(load_cost<__half>(stride<65>), (Wavefronts{2, 1}))
      << "padded by half a word: lanes 1 and 2 meet 32 and 33";
  EXPECT_EQ(load_cost<__half2>(stride<1>), (Wavefronts{1, 1}));
  EXPECT_EQ(load_cost<char>(stride<1>), (Wavefronts{1, 1}));
}

TEST(Banks, LanesThatTakeNoPartCostNothing) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(load_cost<float>(stride<32>, 0x0000000fu), (Wavefronts{4, 1}));
  EXPECT_EQ(load_cost<float>(stride<2>, 0x0000ffffu), (Wavefronts{1, 1}));
  EXPECT_EQ(load_cost<float>(stride<2>, 0x55555555u), (Wavefronts{2, 1}));
  EXPECT_EQ(load_cost<float>(stride<2>, 0x80000000u), (Wavefronts{1, 1}));
  EXPECT_EQ(load_cost<float4>(stride<1>, 0x000000ffu), (Wavefronts{1, 1}));
  EXPECT_EQ(load_cost<float4>(stride<1>, 0x00ff00ffu), (Wavefronts{2, 2}));
}

__global__ void atomics_on_a_word(int* out) {
  __shared__ int bins[32];
  bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[threadIdx.x % 4], 1);
  __syncthreads();
  out[threadIdx.x] = bins[threadIdx.x];
}

TEST(Banks, AtomicsAreLoads) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, atomics_on_a_word, out.get());
  EXPECT_EQ(report.shared.load_wavefronts, 2);
  EXPECT_EQ(report.shared.store_wavefronts, 1);
}

__global__ void shifting(float* out, int first, int step, int count) {
  for (int i = int(threadIdx.x); i < kFloats; i += 32) smem[i] = 0.0f;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += smem[first + i * step + 2 * int(threadIdx.x)];
  out[threadIdx.x] = sum;
}

// A pattern that moves through memory is analysed once, but must be analysed again when it changes.
TEST(Banks, PatternsThatMove) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 32);
  for (int step : {1, 3, 32}) {
    const gpusim::Report report = run({1, 32, kFloats * 4}, shifting, out.get(), 5, step, 50);
    EXPECT_EQ(report.shared.load_wavefronts, 100);
    EXPECT_EQ(report.shared.load_wavefronts_ideal, 50);
  }
  for (int lanes_per_word = 1; lanes_per_word <= 4; ++lanes_per_word) {
    EXPECT_EQ(load_cost<float>([=](int lane) { return lane / lanes_per_word * 32; }),
              (Wavefronts{(31 / lanes_per_word) + 1, 1}));
  }
}

__global__ void two_sizes_of_static(float* out) {
  __shared__ float small[10];
  __shared__ float4 large[20];
  small[threadIdx.x] = 1.0f;
  large[threadIdx.x] = make_float4(1, 2, 3, 4);
  out[threadIdx.x] = small[threadIdx.x] + large[threadIdx.x].x;
}

TEST(Banks, BytesPerBlock) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 10);
  EXPECT_EQ(run({3, 10}, two_sizes_of_static, out.get()).shared.bytes_per_block, 40 + 320);
  EXPECT_EQ(run({1, 10, 1000}, two_sizes_of_static, out.get()).shared.bytes_per_block, 40 + 320 + 1000);
}

}  // namespace
}  // namespace gpusim_test
