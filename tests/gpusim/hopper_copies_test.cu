/// @file
/// The copy engine: what it copies, when the copies land, and what is counted.
#include <cuda_runtime.h>
#include <gpusim_hopper.h>

#include <numeric>
#include <vector>

#include "hopper.hpp"
#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

constexpr int kStages = 2;
constexpr int kTile = 128;  ///< floats: 16 x 8
constexpr int kTiles = 6;

std::vector<float> numbers(int count) {
  std::vector<float> values(std::size_t(count), 0.0f);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

/// A warp loads tiles, and two warps multiply them by two.
__global__ void ring(const __grid_constant__ CUtensorMap in, float* out) {
  __shared__ __align__(128) float tiles[kStages][kTile];
  __shared__ std::uint64_t full[kStages], empty[kStages];
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrier_init(&full[s], 1);
      ptx::mbarrier_init(&empty[s], 2);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp == 0) {
    if (ptx::elect_sync()) {
      for (int tile = 0; tile < kTiles; ++tile) {
        const int s = tile % kStages;
        ptx::mbarrier_wait(&empty[s], (tile / kStages + 1) % 2);
        ptx::mbarrier_arrive_expect_tx(&full[s], kTile * 4);
        ptx::tma_load(tiles[s], &in, &full[s], 0, 8 * tile, 0);
      }
    }
  } else {
    for (int tile = 0; tile < kTiles; ++tile) {
      const int s = tile % kStages;
      ptx::mbarrier_wait(&full[s], tile / kStages % 2);
      for (int i = 32 * (warp - 1) + lane; i < kTile; i += 64) out[tile * kTile + i] = 2.0f * tiles[s][i];
      __syncwarp();
      if (lane == 0) ptx::mbarrier_arrive(&empty[s]);
    }
  }
}

TEST(HopperCopies, ARingOfStages) {
  const Buffer<float> in("in", numbers(kTiles * kTile));
  const Buffer<float> out("out", kTiles * kTile);
  const CUtensorMap map = map_of(in.get(), {.size = {16, 8 * kTiles, 1}, .box = {16, 8, 1}});
  const gpusim::Report report = run({1, 96}, ring, map, out.get());
  EXPECT_TRUE(is_clean(report));
  for (int i = 0; i < kTiles * kTile; ++i) EXPECT_EQ(out.host()[std::size_t(i)], 2.0f * float(i + 1));
  EXPECT_EQ(report.tensors.at("in").read_bytes, kTiles * kTile * 4);
  EXPECT_EQ(report.tensors.at("in").read_sectors, kTiles * kTile / 8);
  EXPECT_EQ(report.tensors.at("in").read_requests, kTiles);
}

/// Each of four warps adds 1 to a quarter of a tile, then one thread stores all of it.
__global__ void load_and_store(const __grid_constant__ CUtensorMap in,
                               const __grid_constant__ CUtensorMap out) {
  __shared__ __align__(1024) float tile[kTile];
  __shared__ std::uint64_t full;
  const int i = int(threadIdx.x);
  if (i == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, kTile * 4);
    ptx::tma_load(tile, &in, &full, 0, 0, 0);
  }
  __syncthreads();
  ptx::mbarrier_wait(&full, 0);
  tile[i] += 1.0f;
  ptx::fence_proxy_async();
  __syncthreads();
  if (i == 0) {
    ptx::tma_store(&out, tile, 0, 0, 0);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
  }
}

TEST(HopperCopies, LoadAndStore) {
  const Buffer<float> in("in", numbers(kTile));
  const Buffer<float> out("out", kTile);
  const Layout layout{.size = {16, 8, 1}, .box = {16, 8, 1}, .swizzle = CU_TENSOR_MAP_SWIZZLE_64B};
  const gpusim::Report report =
      run({1, kTile}, load_and_store, map_of(in.get(), layout), map_of(out.get(), layout));
  EXPECT_TRUE(is_clean(report));
  for (int i = 0; i < kTile; ++i) EXPECT_EQ(out.host()[std::size_t(i)], float(i + 2));
  EXPECT_EQ(report.tensors.at("out").write_bytes, kTile * 4);
}

}  // namespace
}  // namespace gpusim_test
