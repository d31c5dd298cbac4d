/// @file
/// wgmma: products of all shapes, from matrices in all layouts, compared with float64.
#include <gpusim_hopper.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ __align__(1024) unsigned char smem[];

namespace {

namespace ptx = gpusim::ptx;

constexpr int kM = 64, kK = 16, kBytes = 48 * 1024;

/// How a matrix lies in shared memory, as a kernel would plan it.
struct Layout {
  int swizzle = 0;  ///< bytes: 0, 32, 64, 128
  bool mn_major = false;
  int start = 0;  ///< of the matrix in shared memory
  int leading = 0, stride = 0;
  int base_offset = 0;

  std::uint64_t descriptor() const {
    const std::uint64_t mode = swizzle == 0 ? 0 : swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    return std::uint64_t(leading) >> 4 << 16 | std::uint64_t(stride) >> 4 << 32 |
           std::uint64_t(base_offset) << 49 | mode << 62;
  }

  /// Where an element is. @param x  m or n
  int place(int x, int k) const {
    const int major = mn_major ? x : k, minor = mn_major ? k : x;
    if (swizzle == 0) {  // blocks of 8 x 8 elements, each of them 128 contiguous bytes
      const int block =
          mn_major ? major / 8 * stride + minor / 8 * leading : major / 8 * leading + minor / 8 * stride;
      return start + block + minor % 8 * 16 + major % 8 * 2;
    }
    const int panel = mn_major ? major / (swizzle / 2) : 0;  // rows of `swizzle` bytes, 8 rows to a pattern
    const int at = start + panel * leading + minor / 8 * stride + minor % 8 * swizzle +
                   (major - panel * swizzle / 2) * 2;
    const int row = (at / 128 - base_offset) % 8;
    const int bits = swizzle == 128 ? row : swizzle == 64 ? row % 4 : row % 2;
    return at ^ bits << 4;
  }
};

/// The descriptor of a matrix whose start is `start` bytes from the array's.
__device__ std::uint64_t at(std::uint64_t descriptor, int start) {
  return descriptor | (ptx::shared_address(smem) + std::uint32_t(start)) >> 4;
}

template <class T, bool kTransposedA, bool kTransposedB, int kSize>
__global__ void multiply(const uint4* image, std::uint64_t a, int a_start, std::uint64_t b, int b_start,
                         const float* c, float* d, bool add) {
  for (int i = threadIdx.x; i < kBytes / 16; i += blockDim.x) reinterpret_cast<uint4*>(smem)[i] = image[i];
  ptx::fence_proxy_async();
  __syncthreads();
  float sums[kSize];
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
  for (int i = 0; i < kSize; ++i)
    sums[i] = c[(row + 8 * (i / 2 % 2)) * 2 * kSize + 8 * (i / 4) + column + i % 2];
  ptx::wgmma_fence();
  if (add) {
    ptx::wgmma<T, true, kTransposedA, kTransposedB>(sums, at(a, a_start), at(b, b_start));
  } else {
    ptx::wgmma<T, false, kTransposedA, kTransposedB>(sums, at(a, a_start), at(b, b_start));
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(sums);
  for (int i = 0; i < kSize; ++i)
    d[(row + 8 * (i / 2 % 2)) * 2 * kSize + 8 * (i / 4) + column + i % 2] = sums[i];
}

template <class T, bool kTransposedB, int kSize>
__global__ void multiply_registers(const uint4* image, const T* a, std::uint64_t b, int b_start,
                                   const float* c, float* d, bool add) {
  for (int i = threadIdx.x; i < kBytes / 16; i += blockDim.x) reinterpret_cast<uint4*>(smem)[i] = image[i];
  ptx::fence_proxy_async();
  __syncthreads();
  float sums[kSize];
  std::uint32_t registers[4];
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
  for (int i = 0; i < kSize; ++i)
    sums[i] = c[(row + 8 * (i / 2 % 2)) * 2 * kSize + 8 * (i / 4) + column + i % 2];
  for (int i = 0; i < 4; ++i)
    registers[i] =
        *reinterpret_cast<const std::uint32_t*>(&a[(row + 8 * (i % 2)) * kK + column + 8 * (i / 2)]);
  ptx::wgmma_fence();
  if (add) {
    ptx::wgmma<T, true, kTransposedB>(sums, registers, at(b, b_start));
  } else {
    ptx::wgmma<T, false, kTransposedB>(sums, registers, at(b, b_start));
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(sums);
  for (int i = 0; i < kSize; ++i)
    d[(row + 8 * (i / 2 % 2)) * 2 * kSize + 8 * (i / 4) + column + i % 2] = sums[i];
}

/// Random numbers and their product.
template <class T>
struct Problem {
  int n;
  std::vector<T> a, b;   ///< [64][16], [16][n]
  std::vector<float> c;  ///< [64][n]

  Problem(int n_, unsigned seed) : n(n_), a(kM * kK), b(std::size_t(kK * n_)), c(std::size_t(kM * n_)) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-1.0f, 1.0f);
    for (T& x : a) x = T(value(random));
    for (T& x : b) x = T(value(random));
    for (float& x : c) x = value(random);
  }

  void put_a(std::vector<unsigned char>& image, const Layout& layout) const {
    for (int k = 0; k < kK; ++k) {
      for (int m = 0; m < kM; ++m)
        std::memcpy(&image[std::size_t(layout.place(m, k))], &a[std::size_t(m * kK + k)], 2);
    }
  }
  void put_b(std::vector<unsigned char>& image, const Layout& layout) const {
    for (int k = 0; k < kK; ++k) {
      for (int x = 0; x < n; ++x)
        std::memcpy(&image[std::size_t(layout.place(x, k))], &b[std::size_t(k * n + x)], 2);
    }
  }

  void expect(const std::vector<float>& d, bool add) const {
    double worst = 0;
    for (int m = 0; m < kM; ++m) {
      for (int x = 0; x < n; ++x) {
        double sum = add ? double(c[std::size_t(m * n + x)]) : 0;
        for (int k = 0; k < kK; ++k)
          sum += double(float(a[std::size_t(m * kK + k)])) * double(float(b[std::size_t(k * n + x)]));
        const double error = std::abs(sum - double(d[std::size_t(m * n + x)]));
        worst = error <= worst ? worst : error;  // NaN counts
      }
    }
    EXPECT_LT(worst, 16 * 0x1p-24 * 4) << "n = " << n;
  }
};

/// The whole of shared memory; what no matrix covers is NaN.
struct Image {
  std::vector<unsigned char> bytes = std::vector<unsigned char>(kBytes, 0xff);
  Buffer<unsigned char> on_device() const { return {"image", bytes}; }
};

template <class T, bool kTransposedA, bool kTransposedB, int kSize>
void check(const Layout& a, const Layout& b, bool add = true) {
  const Problem<T> problem(2 * kSize, kSize);
  Image image;
  problem.put_a(image.bytes, a);
  problem.put_b(image.bytes, b);
  const Buffer<unsigned char> bytes = image.on_device();
  const Buffer<float> c("c", problem.c), d("d", problem.c.size());
  const gpusim::Report report =
      run({.block = 128, .dynamic_shared_bytes = kBytes}, multiply<T, kTransposedA, kTransposedB, kSize>,
          reinterpret_cast<const uint4*>(bytes.get()), a.descriptor(), a.start, b.descriptor(), b.start,
          c.get(), d.get(), add);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.ops.wgmma, 1);
  EXPECT_EQ(report.ops.mma_units, kSize);
  problem.expect(d.host(), add);
}

template <class T, bool kTransposedB, int kSize>
void check_registers(const Layout& b, bool add) {
  const Problem<T> problem(2 * kSize, kSize);
  Image image;
  problem.put_b(image.bytes, b);
  const Buffer<unsigned char> bytes = image.on_device();
  const Buffer<T> a("a", problem.a);
  const Buffer<float> c("c", problem.c), d("d", problem.c.size());
  const gpusim::Report report = run(
      {.block = 128, .dynamic_shared_bytes = kBytes}, multiply_registers<T, kTransposedB, kSize>,
      reinterpret_cast<const uint4*>(bytes.get()), a.get(), b.descriptor(), b.start, c.get(), d.get(), add);
  EXPECT_TRUE(is_clean(report));
  problem.expect(d.host(), add);
}

/// The layout of a matrix that is packed as tightly as the mode allows. @param size  m or n
Layout packed(int swizzle, bool mn_major, int size, int start) {
  if (swizzle == 0 && mn_major) return {0, true, start, size / 8 * 128, 128};
  if (swizzle == 0) return {0, false, start, 128, 256};
  if (mn_major) return {swizzle, true, start, 16 * swizzle, 8 * swizzle};
  return {swizzle, false, start, 16, 8 * swizzle};
}

template <class T, bool kTransposedA, bool kTransposedB, int kSize>
void check_swizzles() {
  for (const int a : {0, 32, 64, 128}) {
    for (const int b : {0, 32, 64, 128}) {
      SCOPED_TRACE(testing::Message() << "swizzles " << a << ' ' << b);
      check<T, kTransposedA, kTransposedB, kSize>(packed(a, kTransposedA, kM, 0),
                                                  packed(b, kTransposedB, 2 * kSize, 16 * 1024));
    }
  }
}

TEST(Wgmma, MultipliesMatricesInAllLayouts) {
  check_swizzles<__half, false, false, 32>();
  check_swizzles<__half, true, false, 32>();
  check_swizzles<__half, false, true, 32>();
  check_swizzles<__half, true, true, 32>();
  check_swizzles<__nv_bfloat16, false, true, 64>();
  check_swizzles<__nv_bfloat16, true, false, 64>();
}

TEST(Wgmma, TakesAFromRegisters) {
  for (const int swizzle : {0, 32, 64, 128}) {
    check_registers<__half, false, 32>(packed(swizzle, false, 64, 0), true);
    check_registers<__half, true, 128>(packed(swizzle, true, 256, 0), false);
    check_registers<__nv_bfloat16, true, 40>(packed(swizzle, true, 80, 0), true);
    check_registers<__nv_bfloat16, false, 4>(packed(swizzle, false, 8, 0), false);
  }
}

template <int... kQuarters>
void check_sizes(std::integer_sequence<int, kQuarters...>) {
  (check<__nv_bfloat16, false, false, 4 * (kQuarters + 1)>(
       packed(128, false, kM, 0), packed(128, false, 8 * (kQuarters + 1), 16 * 1024)),
   ...);
  (check<__nv_bfloat16, false, true, 4 * (kQuarters + 1)>(
       packed(64, false, kM, 0), packed(0, true, 8 * (kQuarters + 1), 16 * 1024), false),
   ...);
}

TEST(Wgmma, HasAllMultiplesOf8Columns) { check_sizes(std::make_integer_sequence<int, 32>()); }

}  // namespace
}  // namespace gpusim_test
