/// @file
/// wgmma as attention uses it: the result of one product becomes A of the next, in registers, and products
/// overlap.
#include <gpusim_hopper.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ __align__(1024) unsigned char smem[];

namespace {

namespace ptx = gpusim::ptx;

constexpr int kHeadDim = 128, kQueries = 128, kKeys = 128;
constexpr int kPanel = kKeys * 128;  // bytes of 64 columns, with 128-byte swizzle
constexpr int kTile = 2 * kPanel;    // a tile of 128 rows
constexpr int kBytes = 3 * kTile;

__device__ std::uint64_t descriptor(const unsigned char* tile, int leading) {
  return ptx::shared_address(tile) >> 4 | std::uint64_t(leading / 16) << 16 | std::uint64_t(1024 / 16) << 32 |
         std::uint64_t(1) << 62;
}

/// Rows of 128 elements, to two panels.
__device__ void load(unsigned char* tile, const __nv_bfloat16* rows) {
  for (int i = threadIdx.x; i < 128 * 16; i += blockDim.x) {
    const int row = i / 16, chunk = i % 16;
    auto* const to = tile + chunk / 8 * kPanel + row * 128 + (chunk % 8 ^ row % 8) * 16;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(rows + row * kHeadDim + chunk * 8);
  }
}

/// @param a  a descriptor or registers
template <class A>
__device__ __forceinline__ void multiply(float (&d)[64], const A& a, std::uint64_t b, bool add) {
  constexpr bool kTransposed = std::is_array_v<A>;  // V
  if constexpr (kTransposed) {
    if (add) {
      ptx::wgmma<__nv_bfloat16, true, true>(d, a, b);
    } else {
      ptx::wgmma<__nv_bfloat16, false, true>(d, a, b);
    }
  } else if (add) {
    ptx::wgmma<__nv_bfloat16, true, false, false>(d, a, b);
  } else {
    ptx::wgmma<__nv_bfloat16, false, false, false>(d, a, b);
  }
}

/// o = (q k^T) v for two warpgroups of 64 queries, without a softmax.
__global__ void __launch_bounds__(256)
    apply(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, float* o, int keys) {
  unsigned char *const sQ = smem, *const sK = smem + kTile, *const sV = smem + 2 * kTile;
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
  q += std::size_t(blockIdx.y) * gridDim.x * kQueries * kHeadDim + blockIdx.x * kQueries * kHeadDim;
  k += std::size_t(blockIdx.y) * keys * kHeadDim;
  v += std::size_t(blockIdx.y) * keys * kHeadDim;
  o += std::size_t(blockIdx.y) * gridDim.x * kQueries * kHeadDim + blockIdx.x * kQueries * kHeadDim;
  load(sQ, q);
  float sums[64];
  for (int tile = 0; tile < keys / kKeys; ++tile) {
    __syncthreads();
    load(sK, k + tile * kKeys * kHeadDim);
    load(sV, v + tile * kKeys * kHeadDim);
    ptx::fence_proxy_async();
    __syncthreads();
    float scores[64];
    ptx::wgmma_fence();
    for (int step = 0; step < 8; ++step) {
      const int offset = step / 4 * kPanel + step % 4 * 32;
      multiply(scores, descriptor(sQ + group * 64 * 128 + offset, 16), descriptor(sK + offset, 16), step > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(scores);
    std::uint32_t p[8][4];
    for (int step = 0; step < 8; ++step) {
      for (int i = 0; i < 4; ++i) {
        const __nv_bfloat162 pair =
            __floats2bfloat162_rn(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1]);
        std::memcpy(&p[step][i], &pair, 4);
      }
    }
    ptx::wgmma_fence();
    for (int step = 0; step < 8; ++step)
      multiply(sums, p[step], descriptor(sV + step * 16 * 128, kPanel), tile > 0 || step > 0);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(sums);
  }
  const int row = group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4, column = 2 * (lane % 4);
  for (int i = 0; i < 64; ++i) o[(row + 8 * (i / 2 % 2)) * kHeadDim + 8 * (i / 4) + column + i % 2] = sums[i];
}

TEST(Wgmma, AppliesAttentionWithoutSoftmax) {
  constexpr int kHeads = 2, kRows = 256;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  std::vector<__nv_bfloat16> q(kHeads * kRows * kHeadDim), k(q.size()), v(q.size());
  for (auto* x : {&q, &k, &v}) {
    for (__nv_bfloat16& element : *x) element = __nv_bfloat16(value(random));
  }
  const Buffer<__nv_bfloat16> gQ("Q", q), gK("K", k), gV("V", v);
  const Buffer<float> gO("O", q.size());
  cudaFuncSetAttribute(reinterpret_cast<const void*>(apply), cudaFuncAttributeMaxDynamicSharedMemorySize,
                       kBytes);
  const gpusim::Report report =
      run({.grid = dim3(kRows / kQueries, kHeads), .block = 256, .dynamic_shared_bytes = kBytes}, apply,
          gQ.get(), gK.get(), gV.get(), gO.get(), kRows);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.ops.wgmma, kHeads * 2 * 2 * 2 * 16);
  EXPECT_EQ(report.ops.mma_units, report.ops.wgmma * 64);  // of 2 * 16 * 8 * 16 operations

  const std::vector<float> o = gO.host();
  for (int head = 0; head < kHeads; ++head) {
    for (int row = 0; row < kRows; row += 37) {
      std::vector<double> expected(kHeadDim);
      const auto at = [&](const std::vector<__nv_bfloat16>& x, int r, int c) {
        return double(float(x[std::size_t((head * kRows + r) * kHeadDim + c)]));
      };
      for (int key = 0; key < kRows; ++key) {
        double score = 0;
        for (int c = 0; c < kHeadDim; ++c) score += at(q, row, c) * at(k, key, c);
        for (int c = 0; c < kHeadDim; ++c)
          expected[std::size_t(c)] += double(float(__nv_bfloat16(float(score)))) * at(v, key, c);
      }
      for (int c = 0; c < kHeadDim; ++c)
        EXPECT_NEAR(o[std::size_t((head * kRows + row) * kHeadDim + c)], expected[std::size_t(c)], 0.1)
            << row << ' ' << c;
    }
  }
}

}  // namespace
}  // namespace gpusim_test
