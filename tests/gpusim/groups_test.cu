/// @file
/// <cooperative_groups.h> and its companions: what the groups compute, and that their mistakes are found.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

namespace cg = cooperative_groups;
using gpusim::DefectKind;

template <class... Params, class... Args>
gpusim::Report run_cooperatively(const Launch& launch, void (*kernel)(Params...), Args... args) {
  gpusim::take_report();
  void* pointers[] = {&args...};
  const cudaError_t status =
      cudaLaunchCooperativeKernel(kernel, launch.grid, launch.block, pointers, launch.dynamic_shared_bytes);
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  return gpusim::take_report();
}

/// The sum of the values by a tree, in the memory that the group's threads share.
__device__ int tree_sum(const cg::thread_group& group, int* values, int value) {
  const unsigned rank = group.thread_rank();
  for (unsigned i = group.size() / 2; i > 0; i /= 2) {
    values[rank] = value;
    group.sync();
    if (rank < i) value += values[rank + i];
    group.sync();
  }
  return value;
}

__global__ void sums(int* out) {
  __shared__ int s[96];
  const cg::thread_block block = cg::this_thread_block();
  const int of_block = tree_sum(block, s, int(block.thread_rank()) % 64 < 64 && block.thread_rank() < 64);
  const cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(warp);
  const int of_tile = cg::reduce(tile, int(block.thread_rank()), cg::plus<int>());
  const int least = cg::reduce(warp, int(block.thread_rank()), cg::less<int>());
  const int most = cg::reduce(warp, int(block.thread_rank()), cg::greater<int>());
  const int until = cg::inclusive_scan(tile, 1);
  const int before = cg::exclusive_scan(tile, 2, cg::plus<int>());
  const cg::thread_group quarter = cg::tiled_partition(block, 4);
  const int of_quarter = tree_sum(quarter, s + block.thread_rank() / 4 * 4, int(block.thread_rank()));
  int* mine = out + 10 * block.thread_rank();
  mine[0] = of_block;
  mine[1] = of_tile;
  mine[2] = least;
  mine[3] = most;
  mine[4] = until;
  mine[5] = before;
  mine[6] = quarter.thread_rank() == 0 ? of_quarter : -1;
  mine[7] = int(tile.meta_group_rank() * 10 + tile.meta_group_size());
  mine[8] = int(tile.ballot(tile.thread_rank() % 2 == 0));
  mine[9] = tile.shfl(int(block.thread_rank()), 3);
}

TEST(Groups, TilesAndPartsOfABlock) {
  const Buffer<int> out("out", 640);
  EXPECT_TRUE(is_clean(run({1, dim3(16, 4)}, sums, out.get())));
  const std::vector<int> values = out.host();
  EXPECT_EQ(values[0], 64);
  for (int i = 0; i < 64; ++i) {
    const int* mine = &values[std::size_t(10 * i)];
    const int first = i / 8 * 8;
    EXPECT_EQ(mine[1], 8 * first + 28);
    EXPECT_EQ(mine[2], i / 32 * 32);
    EXPECT_EQ(mine[3], i / 32 * 32 + 31);
    EXPECT_EQ(mine[4], i % 8 + 1);
    EXPECT_EQ(mine[5], i % 8 * 2);
    EXPECT_EQ(mine[6], i % 4 == 0 ? 4 * i + 6 : -1);
    EXPECT_EQ(mine[7], i % 32 / 8 * 10 + 4);
    EXPECT_EQ(mine[8], 0x55);
    EXPECT_EQ(mine[9], first + 3);
  }
}

struct Big {
  double a[3];
  int b;
};

__global__ void partitions(int* out) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int rank = int(warp.thread_rank());
  const cg::coalesced_group same = cg::labeled_partition(warp, rank % 3);
  const cg::coalesced_group odd = cg::binary_partition(warp, rank % 2 == 1);
  int* mine = out + 8 * rank;
  mine[0] = cg::reduce(same, rank, cg::plus<int>());
  mine[1] = int(same.size());
  mine[2] = int(same.thread_rank());
  mine[3] = int(odd.meta_group_rank());
  mine[4] = cg::inclusive_scan(odd, 1, cg::plus<>());
  const Big big = warp.shfl(Big{{double(rank), 0, 2.5}, rank}, 7);
  mine[5] = int(big.a[0]) + big.b;
  mine[6] = int(same.ballot(rank < 6));
  int all = 0;
  warp.match_all(rank / 32, all);
  mine[7] = all + cg::invoke_one_broadcast(warp, [] { return 40; });
}

TEST(Groups, PartitionsByLabel) {
  const Buffer<int> out("out", 256);
  EXPECT_TRUE(is_clean(run({1, 32}, partitions, out.get())));
  const std::vector<int> values = out.host();
  for (int i = 0; i < 32; ++i) {
    const int* mine = &values[std::size_t(8 * i)];
    int sum = 0, size = 0;
    for (int j = i % 3; j < 32; j += 3, ++size) sum += j;
    EXPECT_EQ(mine[0], sum);
    EXPECT_EQ(mine[1], size);
    EXPECT_EQ(mine[2], i / 3);
    EXPECT_EQ(mine[3], i % 2);
    EXPECT_EQ(mine[4], i / 2 + 1);
    EXPECT_EQ(mine[5], 14);
    EXPECT_EQ(mine[6], 3);
    EXPECT_EQ(mine[7], 41);
  }
}

__global__ void without_tile_sync(int* out) {
  __shared__ int s[32];
  const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  s[threadIdx.x] = int(threadIdx.x);
  out[threadIdx.x] = s[threadIdx.x ^ 1];  // unsynced
  tile.sync();
}

TEST(Groups, AMissingSyncIsARace) {
  const Buffer<int> out("out", 32);
  const gpusim::Report report = run({1, 32}, without_tile_sync, out.get());
  ASSERT_FALSE(report.defects.empty());
  EXPECT_EQ(report.defects[0].kind, DefectKind::kRace);
  EXPECT_TRUE(says(report, "groups_test.cu:" + std::to_string(line_of("unsynced"))));
}

// ---- the grid ---------------------------------------------------------------------------------------------

/// Each block shifts what the block before it has written, several times.
template <bool kSyncs>
__global__ void rounds(int* a, int* b, int n) {
  const cg::grid_group grid = cg::this_grid();
  const int i = int(grid.thread_rank());
  for (int round = 0; round < 3; ++round) {
    b[i] = a[(i + int(blockDim.x)) % n] + 1;
    if (kSyncs) grid.sync();
    a[i] = b[(i + int(blockDim.x)) % n] + 1;
    grid.sync();
  }
}

TEST(Groups, ABarrierOfTheGridOrdersItsBlocks) {
  const unsigned blocks = 6, threads = 64;
  std::vector<int> values(blocks * threads);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = int(i);
  const Buffer<int> a("a", values), b("b", values.size());
  const gpusim::Report report =
      run_cooperatively({blocks, threads}, rounds<true>, a.get(), b.get(), int(values.size()));
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(a.host(), [&] {
    std::vector<int> expected(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) expected[i] = int((i + 6 * threads) % values.size()) + 6;
    return expected;
  }());
  EXPECT_EQ(report.ops.barriers, 6 * blocks * threads / 32);
}

TEST(Groups, AMissingBarrierOfTheGridIsARace) {
  const Buffer<int> a = Buffer<int>::zeros("a", 128), b = Buffer<int>::zeros("b", 128);
  const gpusim::Report report = run_cooperatively({2, 64}, rounds<false>, a.get(), b.get(), 128);
  ASSERT_FALSE(report.defects.empty());
  EXPECT_EQ(report.defects[0].kind, DefectKind::kRace);
  EXPECT_TRUE(says(report, "blocks"));
}

__global__ void not_all_come(int* out) {
  if (blockIdx.x == 1) return;
  cg::this_grid().sync();
  out[blockIdx.x] = 1;
}

TEST(Groups, EachBlockHasToComeToTheGridsBarrier) {
  const Buffer<int> out("out", 4);
  const gpusim::Report report = run_cooperatively({4, 32}, not_all_come, out.get());
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kBarrierDivergence);
  EXPECT_TRUE(says(report, "in the grid: 96 of 128 threads"));
}

TEST(Groups, ABarrierOfTheGridNeedsACooperativeLaunch) {
  const Buffer<int> out("out", 4);
  const gpusim::Report report = run({4, 32}, not_all_come, out.get());
  ASSERT_FALSE(report.defects.empty());
  EXPECT_TRUE(says(report, "cudaLaunchCooperativeKernel()"));
}

TEST(Groups, ACooperativeLaunchHasToFitOnTheDevice) {
  const Buffer<int> out("out", 4);
  int* pointer = out.get();
  void* arguments[] = {&pointer};
  EXPECT_EQ(cudaLaunchCooperativeKernel(not_all_come, dim3(133 * 2), dim3(1024), arguments),
            cudaErrorCooperativeLaunchTooLarge);
}

// ---- copies -----------------------------------------------------------------------------------------------

template <bool kWaits>
__global__ void copied(const float* in, float* out) {
  alignas(16) __shared__ float s[2][128];
  const cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, s[0], in, sizeof(float) * 128);
  cg::memcpy_async(block, s[1], in + 128, sizeof(float) * 128);
  cg::wait_prior<1>(block);
  out[threadIdx.x] = s[0][127 - threadIdx.x];
  if (kWaits) cg::wait(block);
  out[threadIdx.x + 128] = s[1][127 - threadIdx.x];  // second
}

TEST(Groups, CopiesLandAtTheWait) {
  std::vector<float> values(256);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  const Buffer<float> in("in", values), out("out", 256);
  EXPECT_TRUE(is_clean(run({1, 128}, copied<true>, in.get(), out.get())));
  EXPECT_EQ(out.host()[0], 127.0f);
  EXPECT_EQ(out.host()[128], 255.0f);
  const gpusim::Report report = run({1, 128}, copied<false>, in.get(), out.get());
  ASSERT_FALSE(report.defects.empty());
  EXPECT_TRUE(says(report, "groups_test.cu:" + std::to_string(line_of("second"))));
}

}  // namespace
}  // namespace gpusim_test
