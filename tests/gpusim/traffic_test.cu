/// @file
/// Requests, sectors and bytes of global memory, and how accesses of 32 threads become one warp instruction.
#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

/// The expected counts of one kind of access, computed instruction by instruction from the addresses.
class Expected {
 public:
  /// A warp instruction by the lanes for which `address` is not negative: an offset in bytes, `size` of them.
  void instruction(const std::function<long(int lane)>& address, long size = 4) {
    std::set<long> touched, sectors_touched;
    for (int lane = 0; lane < 32; ++lane) {
      const long first = address(lane);
      for (long b = first; first >= 0 && b < first + size; ++b) {
        touched.insert(b);
        sectors_touched.insert(b / 32);
      }
    }
    if (touched.empty()) return;
    ++requests;
    sectors += std::int64_t(sectors_touched.size());
    bytes += std::int64_t(touched.size());
  }
  std::int64_t requests = 0, sectors = 0, bytes = 0;
  bool operator==(const Expected&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Expected& e) {
  return out << e.requests << " requests, " << e.sectors << " sectors, " << e.bytes << " bytes";
}
Expected counted(std::int64_t requests, std::int64_t sectors, std::int64_t bytes) {
  Expected e;
  e.requests = requests;
  e.sectors = sectors;
  e.bytes = bytes;
  return e;
}
Expected reads(const gpusim::Report& report, const std::string& name) {
  EXPECT_TRUE(is_clean(report));
  const auto it = report.tensors.find(name);
  if (it == report.tensors.end()) return {};
  return counted(it->second.read_requests, it->second.read_sectors, it->second.read_bytes);
}
Expected writes(const gpusim::Report& report, const std::string& name) {
  EXPECT_TRUE(is_clean(report));
  const auto it = report.tensors.find(name);
  if (it == report.tensors.end()) return {};
  return counted(it->second.write_requests, it->second.write_sectors, it->second.write_bytes);
}

// ---- one instruction --------------------------------------------------------------------------------------

template <class T>
__global__ void gather(const T* x, const int* index, T* y) {
  y[threadIdx.x] = x[index[threadIdx.x]];
}

/// The cost of reading x[index(lane)], compared with the expectation from the addresses alone.
template <class T, class Index>
Expected gathered(Index index, unsigned threads = 32) {
  std::vector<int> indices;
  for (unsigned i = 0; i < threads; ++i) indices.push_back(index(int(i)));
  const auto x = Buffer<T>::zeros("x", 4096);
  const Buffer<int> indexes("index", indices);
  const Buffer<T> y("y", threads);
  const Expected result = reads(run({1, threads}, gather<T>, x.get(), indexes.get(), y.get()), "x");
  Expected expected;
  for (unsigned warp = 0; warp < (threads + 31) / 32; ++warp) {
    expected.instruction(
        [&](int lane) {
          const unsigned i = 32 * warp + unsigned(lane);
          return i < threads ? long(sizeof(T)) * indices[i] : -1;
        },
        sizeof(T));
  }
  EXPECT_EQ(result, expected);
  return result;
}

TEST(Traffic, KnownPatterns) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(gathered<float>([](int i) { return i; }), counted(1, 4, 128));
  EXPECT_EQ(gathered<float>([](int i) { return 31 - i; }), counted(1, 4, 128)) << "any order";
  EXPECT_EQ(gathered<float>([](int i) { return 2 * i; }), counted(1, 8, 128));
  EXPECT_EQ(gathered<float>([](int i) { return 8 * i; }), counted(1, 32, 128)) << "a sector each";
  EXPECT_EQ(gathered<float>([](int i) { return 100 * i; }), counted(1, 32, 128));
  EXPECT_EQ(gathered<float>([](int i) { return i + 1; }), counted(1, 5, 128)) << "misaligned by 4 bytes";
  EXPECT_EQ(gathered<float>([](int i) { return i + 8; }), counted(1, 4, 128)) << "aligned to a sector";
  EXPECT_EQ(gathered<float>([](int) { return 17; }), counted(1, 1, 4)) << "broadcast";
  EXPECT_EQ(gathered<float>([](int i) { return i / 4; }), counted(1, 1, 32));
  EXPECT_EQ(gathered<float>([](int i) { return i % 2; }), counted(1, 1, 8));
  EXPECT_EQ(gathered<float4>([](int i) { return i; }), counted(1, 16, 512));
  EXPECT_EQ(gathered<float4>([](int i) { return 2 * i; }), counted(1, 32, 512)) << "half of each sector";
  EXPECT_EQ(gathered<float2>([](int i) { return i; }), counted(1, 8, 256));
  EXPECT_EQ(gathered<double>([](int i) { return i; }), counted(1, 8, 256));
  EXPECT_EQ(gathered<short>([](int i) { return i; }), counted(1, 2, 64));
  EXPECT_EQ(gathered<char>([](int i) { return i; }), counted(1, 1, 32));
  EXPECT_EQ(gathered<char>([](int i) { return i + 1; }), counted(1, 2, 32));
}

TEST(Traffic, PartialWarps) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_EQ(gathered<float>([](int i) { return i; }, 1), counted(1, 1, 4));
  EXPECT_EQ(gathered<float>([](int i) { return i; }, 7), counted(1, 1, 28));
  EXPECT_EQ(gathered<float>([](int i) { return i; }, 33), counted(2, 5, 132));
  EXPECT_EQ(gathered<float>([](int i) { return 4 * i; }, 48), counted(2, 24, 192));
}

TEST(Traffic, RandomAddresses) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  std::mt19937 random(3);
  for (int range : {4, 30, 200, 4096}) {
    for (int round = 0; round < 5; ++round) {
      const auto any = [&](int) { return int(random() % unsigned(range)); };
      gathered<float>(any, 64);
      gathered<float4>(any, 40);
      gathered<short>(any);
    }
  }
}

__global__ void update(float* x, float* y) {
  x[threadIdx.x] = 1.0f;
  y[2 * threadIdx.x] += 1.0f;
  atomicAdd(&x[32], 1.0f);
  atomicAdd(&x[64 + threadIdx.x], 1.0f);
}

TEST(Traffic, WritesAndAtomicsHaveTheirOwnCounters) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto x = Buffer<float>::zeros("x", 96);
  const auto y = Buffer<float>::zeros("y", 64);
  const gpusim::Report report = run({1, 32}, update, x.get(), y.get());
  const gpusim::GlobalCounters& cx = report.tensors.at("x");
  const gpusim::GlobalCounters& cy = report.tensors.at("y");
  EXPECT_EQ(cx.write_requests, 1);
  EXPECT_EQ(cx.write_sectors, 4);
  EXPECT_EQ(cx.read_requests, 0);
  EXPECT_EQ(cx.read_sectors, 0);
  EXPECT_EQ(cx.atomic_requests, 2);
  EXPECT_EQ(cx.atomic_sectors, 1 + 4);
  EXPECT_EQ(cx.read_bytes, 4 + 128) << "an atomic reads and writes the bytes that it changes";
  EXPECT_EQ(cx.write_bytes, 128 + 4 + 128);
  EXPECT_EQ(cy.read_bytes, 128);
  EXPECT_EQ(cy.write_bytes, 128);
  EXPECT_EQ(cy.read_sectors, 8);
  EXPECT_EQ(cy.write_sectors, 8);
  EXPECT_EQ(report.total().write_bytes, cx.write_bytes + cy.write_bytes);
  EXPECT_EQ(report.total().read_sectors, 8);
}

__global__ void from_two(const float* a, const float* b, float* out) {
  const float* p = threadIdx.x < 8 ? a : b;
  out[threadIdx.x] = p[threadIdx.x];
}

TEST(Traffic, OneInstructionOverTwoAllocations) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto a = Buffer<float>::zeros("a", 32);
  const auto b = Buffer<float>::zeros("b", 32);
  const Buffer<float> out("out", 32);
  const gpusim::Report report = run({1, 32}, from_two, a.get(), b.get(), out.get());
  EXPECT_EQ(reads(report, "a"), counted(1, 1, 32));
  EXPECT_EQ(reads(report, "b"), counted(1, 3, 96));
  // The next time, the pattern is known, and the lanes must still be distinguished.
  const gpusim::Report turned = run({1, 32}, from_two, b.get(), a.get(), out.get());
  EXPECT_EQ(reads(turned, "b"), counted(1, 1, 32));
  EXPECT_EQ(reads(turned, "a"), counted(1, 3, 96));
}

TEST(Traffic, AllocationsOfOneNameAreOneTensor) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto a = Buffer<float>::zeros("both", 32);
  const auto b = Buffer<float>::zeros("both", 32);
  const Buffer<float> out("out", 32);
  EXPECT_EQ(reads(run({1, 32}, from_two, a.get(), b.get(), out.get()), "both"), counted(2, 4, 128));
}

// ---- many warps, many blocks ------------------------------------------------------------------------------

__global__ void scale(const float* x, float* y, int n) {
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += int(gridDim.x * blockDim.x)) {
    y[i] = 2.0f * x[i];
  }
}

TEST(Traffic, AGridStrideLoopMovesEveryByteOnce) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  for (int n : {1, 31, 1000, 4096, 10007}) {
    const auto x = Buffer<float>::zeros("x", std::size_t(n));
    const Buffer<float> y("y", std::size_t(n));
    const gpusim::Report report = run({5, 96}, scale, x.get(), y.get(), n);
    EXPECT_EQ(reads(report, "x"), counted((n + 31) / 32, (n + 7) / 8, 4 * n)) << n;
    EXPECT_EQ(writes(report, "y"), counted((n + 31) / 32, (n + 7) / 8, 4 * n)) << n;
  }
}

// ---- lanes that go different ways -------------------------------------------------------------------------

__global__ void one_lane(const float* x, float* y) {
  float v = 0;
  if (threadIdx.x == 0) v = x[5];
  y[threadIdx.x] = v;
}
__global__ void two_ways(const float* x, float* y) {
  float v;
  if (threadIdx.x % 2 == 0) {
    v = x[threadIdx.x];
  } else {
    v = x[threadIdx.x + 32];
  }
  y[threadIdx.x] = v;
}
__global__ void many_ways(const float* x, float* y) {
  float v = 0;
  switch (threadIdx.x % 4) {
    case 0: v = x[threadIdx.x]; break;
    case 1: v = x[threadIdx.x] + x[threadIdx.x + 32]; break;
    case 2: break;
    default: v = x[threadIdx.x + 64];
  }
  y[threadIdx.x] = v;
}

TEST(Divergence, Branches) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto x = Buffer<float>::zeros("x", 96);
  const Buffer<float> y("y", 32);
  const gpusim::Report one = run({1, 32}, one_lane, x.get(), y.get());
  EXPECT_EQ(reads(one, "x"), counted(1, 1, 4));
  EXPECT_EQ(writes(one, "y"), counted(1, 4, 128)) << "together again";
  const gpusim::Report two = run({1, 32}, two_ways, x.get(), y.get());
  EXPECT_EQ(reads(two, "x"), counted(2, 8, 128));
  EXPECT_EQ(writes(two, "y"), counted(1, 4, 128));
  const gpusim::Report four = run({1, 32}, many_ways, x.get(), y.get());
  EXPECT_EQ(reads(four, "x"), counted(4, 16, 128));
  EXPECT_EQ(writes(four, "y"), counted(1, 4, 128));
}

/// Lane l makes first + l * per_lane iterations of a loop that reads one column each, then one more read.
__global__ void uneven_trips(const float* x, const float* z, float* y, int first, int per_lane) {
  float sum = 0;
  const int trips = first + int(threadIdx.x) * per_lane;
  for (int i = 0; i < trips; ++i) sum += x[i * 32 + int(threadIdx.x)];
  sum += z[threadIdx.x];
  y[threadIdx.x] = sum;
}

void check_uneven_trips(int first, int per_lane) {
  const int most = first + std::max(0, 31 * per_lane);
  const auto x = Buffer<float>::zeros("x", std::size_t(most) * 32 + 32);
  const auto z = Buffer<float>::zeros("z", 32);
  const Buffer<float> y("y", 32);
  const gpusim::Report report = run({1, 32}, uneven_trips, x.get(), z.get(), y.get(), first, per_lane);
  Expected expected;
  for (int i = 0; i < most; ++i) {
    expected.instruction([&](int lane) { return i < first + lane * per_lane ? 4 * (32 * i + lane) : -1; });
  }
  EXPECT_EQ(reads(report, "x"), expected);
  EXPECT_EQ(reads(report, "z"), counted(1, 4, 128)) << "the lanes meet after the loop";
  EXPECT_EQ(writes(report, "y"), counted(1, 4, 128));
}

TEST(Divergence, LoopsOfUnevenLength) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  check_uneven_trips(1, 1);
  check_uneven_trips(0, 1);
  check_uneven_trips(40, -1);
  check_uneven_trips(3, 0);
  check_uneven_trips(0, 0);
}

// Far more accesses than are kept at once.
TEST(Divergence, LongLoopsOfUnevenLength) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  check_uneven_trips(5000, 0);
  check_uneven_trips(1000, 1);
  check_uneven_trips(1031, -1);
  check_uneven_trips(0, 100);
  check_uneven_trips(3100, -100);
  check_uneven_trips(600, 7);
}

/// Three loops over a triangle, as in a thread per row with a causal mask.
__global__ void triangle(const float* x, float* y, int rows, int columns) {
  const int row = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  const float* line = x + row * columns;
  float most = 0, sum = 0;
  for (int c = 0; c <= row; ++c) most = fmaxf(most, line[c]);
  for (int c = 0; c <= row; ++c) sum += expf(line[c] - most);
  for (int c = 0; c < columns; ++c) y[row * columns + c] = c <= row ? expf(line[c] - most) / sum : 0.0f;
}

TEST(Divergence, AThreadForEachRowOfATriangle) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  constexpr int kRows = 150, kColumns = 200;
  const auto x = Buffer<float>::zeros("x", kRows * kColumns);
  const Buffer<float> y("y", kRows * kColumns);
  const gpusim::Report report = run({3, 64}, triangle, x.get(), y.get(), kRows, kColumns);
  Expected read, written;
  for (int warp = 0; warp < 5; ++warp) {
    for (int pass = 0; pass < 3; ++pass) {
      for (int c = 0; c < kColumns; ++c) {
        const auto element = [&](int lane, bool inside) {
          const int row = 32 * warp + lane;
          return row < kRows && (!inside || c <= row) ? 4 * (row * kColumns + c) : -1;
        };
        read.instruction([&](int lane) { return element(lane, true); });
        if (pass == 2) written.instruction([&](int lane) { return element(lane, false); });
      }
    }
  }
  EXPECT_EQ(reads(report, "x"), read);
  EXPECT_EQ(writes(report, "y"), written);
}

/// Different lanes take part in every iteration.
__global__ void skipping(const float* x, float* y, int trips) {
  float sum = 0;
  for (int i = 0; i < trips; ++i) {
    if ((i + int(threadIdx.x)) % 3 == 0) continue;
    sum += x[i * 32 + int(threadIdx.x)];
    if (i % 4 == int(threadIdx.x % 4)) sum += x[(i + 1) * 32];
  }
  y[threadIdx.x] = sum;
}

TEST(Divergence, IterationsThatSomeLanesSkip) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  for (int trips : {1, 7, 40, 3000}) {
    const auto x = Buffer<float>::zeros("x", std::size_t(trips + 1) * 32);
    const Buffer<float> y("y", 32);
    Expected expected;
    for (int i = 0; i < trips; ++i) {
      const auto skips = [&](int lane) { return (i + lane) % 3 == 0; };
      expected.instruction([&](int lane) { return skips(lane) ? -1 : 4 * (32 * i + lane); });
      expected.instruction(
          [&](int lane) { return !skips(lane) && i % 4 == lane % 4 ? 4 * 32 * (i + 1) : -1; });
    }
    const gpusim::Report report = run({1, 32}, skipping, x.get(), y.get(), trips);
    EXPECT_EQ(reads(report, "x"), expected) << trips;
    EXPECT_EQ(writes(report, "y"), counted(1, 4, 128));
  }
}

/// A loop in a loop: the lanes meet again at the end of each round of the outer one.
__global__ void nested(const float* x, const float* z, float* y, int rounds, int inner) {
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    sum += z[r * 32 + int(threadIdx.x)];
    const int trips = (int(threadIdx.x) + r) % inner;
    for (int i = 0; i < trips; ++i) sum += x[(r * inner + i) * 32 + int(threadIdx.x)];
  }
  y[threadIdx.x] = sum;
}

TEST(Divergence, LoopsInLoops) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  for (const auto& [rounds, inner] :
       {std::pair(3, 4), std::pair(10, 33), std::pair(2, 700), std::pair(300, 9)}) {
    const auto x = Buffer<float>::zeros("x", std::size_t(rounds * inner) * 32);
    const auto z = Buffer<float>::zeros("z", std::size_t(rounds) * 32);
    const Buffer<float> y("y", 32);
    Expected expected;
    for (int r = 0; r < rounds; ++r) {
      for (int i = 0; i < inner; ++i) {
        expected.instruction(
            [&, n = inner](int lane) { return i < (lane + r) % n ? 4 * ((r * n + i) * 32 + lane) : -1; });
      }
    }
    const gpusim::Report report = run({1, 32}, nested, x.get(), z.get(), y.get(), rounds, inner);
    EXPECT_EQ(reads(report, "x"), expected) << rounds << " rounds";
    EXPECT_EQ(reads(report, "z"), counted(rounds, 4 * rounds, 128 * rounds));
  }
}

/// Lanes leave by a break, a return from a function, or because the condition fails.
__device__ int find(const int* x, int n, int wanted) {
  for (int i = 0; i < n; ++i) {
    if (x[i] == wanted) return i;
  }
  return -1;
}
__global__ void search(const int* x, int* y, int n) {
  y[threadIdx.x] = find(x, n, int(threadIdx.x) * 3);
  y[threadIdx.x + 32] = find(x, n, 5);
  int i = 0;
  while (true) {
    if (x[i] >= int(threadIdx.x)) break;
    ++i;
  }
  y[threadIdx.x + 64] = i;
}

TEST(Divergence, LeavingALoopFromWithin) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  constexpr int kCount = 100;
  std::vector<int> values(kCount);
  std::iota(values.begin(), values.end(), 0);
  const Buffer<int> x("x", values);
  const Buffer<int> y("y", 96);
  Expected expected;
  for (int i = 0; i < kCount; ++i) expected.instruction([&](int lane) { return i <= 3 * lane ? 4 * i : -1; });
  for (int i = 0; i <= 5; ++i) expected.instruction([&](int) { return 4 * i; });
  for (int i = 0; i < 32; ++i) expected.instruction([&](int lane) { return i <= lane ? 4 * i : -1; });
  const gpusim::Report report = run({1, 32}, search, x.get(), y.get(), kCount);
  EXPECT_EQ(reads(report, "x"), expected);
  EXPECT_EQ(writes(report, "y"), counted(3, 12, 384));
  EXPECT_EQ(y.host()[31], 93);
}

/// The same function from two places, with a loop inside it, in a loop.
__device__ float sum_of(const float* x, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i];
  return sum;
}
__global__ void calls_in_a_loop(const float* x, float* y, int rounds) {
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    sum += sum_of(x + r, int(threadIdx.x) % 3 + 1);
    if (threadIdx.x < 16) sum += sum_of(x + r + 8, 2);
  }
  y[threadIdx.x] = sum;
}

TEST(Divergence, FunctionsWithLoops) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  constexpr int kRounds = 90;
  const auto x = Buffer<float>::zeros("x", 128);
  const Buffer<float> y("y", 32);
  Expected expected;
  for (int r = 0; r < kRounds; ++r) {
    for (int i = 0; i < 3; ++i)
      expected.instruction([&](int lane) { return i < lane % 3 + 1 ? 4 * (r + i) : -1; });
    for (int i = 0; i < 2; ++i)
      expected.instruction([&](int lane) { return lane < 16 ? 4 * (r + 8 + i) : -1; });
  }
  EXPECT_EQ(reads(run({1, 32}, calls_in_a_loop, x.get(), y.get(), kRounds), "x"), expected);
}

/// Between two synchronisations, nothing is forgotten; across them, nothing is mixed up.
__global__ void rounds_with_barriers(const float* x, float* y, int rounds) {
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    const int trips = int(threadIdx.x) % 2 == 0 ? 5 : 8;
    for (int i = 0; i < trips; ++i) sum += x[i];
    __syncwarp();
    if (threadIdx.x >= 8) sum += x[threadIdx.x];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  }
  y[threadIdx.x] = sum;
}

TEST(Divergence, SynchronisationsInBetween) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const auto x = Buffer<float>::zeros("x", 32);
  const Buffer<float> y("y", 32);
  EXPECT_EQ(reads(run({1, 32}, rounds_with_barriers, x.get(), y.get(), 20), "x"),
            counted(20 * 9, 20 * (8 + 3), 20 * (8 * 4 + 96)));
}

/// Groups of lanes that do different work for a long time and then meet.
__global__ void specialised(const float* x, const float* z, float* y, int trips) {
  float sum = 0;
  if (threadIdx.x < 10) {
    for (int i = 0; i < trips; ++i) sum += x[i];
  } else if (threadIdx.x < 20) {
    for (int i = 0; i < trips / 2; ++i) sum += x[i] * x[trips - 1 - i];
  }
  y[threadIdx.x] = sum + z[threadIdx.x];
}

TEST(Divergence, GroupsThatGoDifferentWaysForLong) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  for (int trips : {10, 100, 300}) {
    const auto x = Buffer<float>::zeros("x", std::size_t(trips));
    const auto z = Buffer<float>::zeros("z", 32);
    const Buffer<float> y("y", 32);
    const gpusim::Report report = run({1, 32}, specialised, x.get(), z.get(), y.get(), trips);
    EXPECT_EQ(reads(report, "x"), counted(2 * trips, 2 * trips, 4 * 2 * trips)) << trips;
    EXPECT_EQ(reads(report, "z"), counted(1, 4, 128)) << trips;
    EXPECT_EQ(writes(report, "y"), counted(1, 4, 128)) << trips;
  }
}

}  // namespace
}  // namespace gpusim_test
