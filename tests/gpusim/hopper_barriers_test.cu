/// @file
/// mbarriers, named barriers and the order that they give: what a ring of stages needs, and what is reported if it is missing.
#include <cuda_runtime.h>
#include <gpusim_hopper.h>

#include <numeric>
#include <string>
#include <vector>

#include "hopper.hpp"
#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

std::string at(const std::string& tag) {
  return "hopper_barriers_test.cu:" + std::to_string(line_of(tag));
}

// ---- a ring of stages ---------------------------------------------------------------------------------------

constexpr int kStages = 2;
constexpr int kTile = 128;
constexpr int kTiles = 6;

/// The possible mistakes in the ring below.
struct Right {
  static constexpr bool kInit = true;
  static constexpr bool kFenceInit = true;
  static constexpr bool kInitBarrier = true;
  static constexpr bool kWaitFull = true;
  static constexpr bool kWaitEmpty = true;
  static constexpr bool kArriveEmpty = true;
  static constexpr bool kArriveEarly = false;  ///< before the tile is read
  static constexpr bool kSyncWarp = true;      ///< between reading and the arrival of one lane
  static constexpr int kFullParity = 0;        ///< of the first wait
  static constexpr int kEmptyParity = 1;
  static constexpr bool kFlip = true;  ///< consumers flip the parity when the ring wraps
  static constexpr int kEmptyArrivals = 2;
  static constexpr int kBytes = kTile * 4;
  static constexpr int kLoads = kTiles;
};

/// Warp 0 loads tiles, and warps 1 and 2 double them.
template <class Plan>
__global__ void ring(const float* in, float* out) {
  __shared__ __align__(128) float tiles[kStages][kTile];
  __shared__ std::uint64_t full[kStages], empty[kStages];
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      if (Plan::kInit) ptx::mbarrier_init(&full[s], 1);   // ring: init full
      ptx::mbarrier_init(&empty[s], Plan::kEmptyArrivals);  // ring: init empty
    }
    if (Plan::kFenceInit) ptx::fence_mbarrier_init();
  }
  if (Plan::kInitBarrier) __syncthreads();
  if (warp == 0) {
    if (lane == 0) {
      for (int tile = 0; tile < Plan::kLoads; ++tile) {
        const int s = tile % kStages;
        if (Plan::kWaitEmpty) {
          ptx::mbarrier_wait(&empty[s], (tile / kStages + Plan::kEmptyParity) % 2);  // ring: wait empty
        }
        ptx::mbarrier_arrive_expect_tx(&full[s], Plan::kBytes);                 // ring: expect
        ptx::bulk_load(tiles[s], in + tile % kTiles * kTile, kTile * 4, &full[s]);  // ring: load
      }
    }
  } else {
    for (int tile = 0; tile < kTiles; ++tile) {
      const int s = tile % kStages;
      const int parity = Plan::kFlip ? (tile / kStages + Plan::kFullParity) % 2 : Plan::kFullParity;
      if (Plan::kWaitFull) ptx::mbarrier_wait(&full[s], parity);  // ring: wait full
      if (Plan::kArriveEarly && lane == 0) ptx::mbarrier_arrive(&empty[s]);  // ring: early arrival
      for (int i = 32 * (warp - 1) + lane; i < kTile; i += 64) {
        out[tile * kTile + i] = 2.0f * tiles[s][i];  // ring: read
      }
      if (Plan::kSyncWarp) __syncwarp();
      if (Plan::kArriveEmpty && lane == 0) ptx::mbarrier_arrive(&empty[s]);  // ring: arrive
    }
  }
}

std::vector<float> numbers(int count) {
  std::vector<float> values(std::size_t(count), 0.0f);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

template <class Plan>
gpusim::Report run_ring(bool expect_right = false) {
  const Buffer<float> in("in", numbers(kTiles * kTile));
  const Buffer<float> out("out", kTiles * kTile);
  const gpusim::Report report = run({1, 96}, ring<Plan>, in.get(), out.get());
  if (expect_right) {
    std::vector<float> doubled = numbers(kTiles * kTile);
    for (float& x : doubled) x *= 2.0f;
    EXPECT_EQ(out.host(), doubled);
  }
  return report;
}

TEST(Ring, Right) {
  const gpusim::Report report = run_ring<Right>(true);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.tensors.at("in").read_bytes, kTiles * kTile * 4);
}

#define WRONG(name, ...) struct name : Right { __VA_ARGS__; };
WRONG(NoInit, static constexpr bool kInit = false)
WRONG(NoFenceInit, static constexpr bool kFenceInit = false)
WRONG(NoInitBarrier, static constexpr bool kInitBarrier = false)
WRONG(NoWaitFull, static constexpr bool kWaitFull = false)
WRONG(NoWaitEmpty, static constexpr bool kWaitEmpty = false)
WRONG(NoArrive, static constexpr bool kArriveEmpty = false)
WRONG(ArriveEarly, static constexpr bool kArriveEmpty = false; static constexpr bool kArriveEarly = true)
WRONG(NoSyncWarp, static constexpr bool kSyncWarp = false)
WRONG(FullParity, static constexpr int kFullParity = 1)
WRONG(EmptyParity, static constexpr int kEmptyParity = 0)
WRONG(NoFlip, static constexpr bool kFlip = false)
WRONG(OneArrival, static constexpr int kEmptyArrivals = 1)
WRONG(ThreeArrivals, static constexpr int kEmptyArrivals = 3)
WRONG(TooFewBytes, static constexpr int kBytes = kTile * 2)
WRONG(TooManyBytes, static constexpr int kBytes = kTile * 8)
WRONG(NoBytes, static constexpr int kBytes = 0)
WRONG(OneLoadMore, static constexpr int kLoads = kTiles + 1)
template <class P> void show(const char* n) { std::cout << "---- " << n << "\n" << gpusim::format_defects(run_ring<P>()); }
TEST(Ring, Show) {
#define SHOW(x) show<x>(#x);
  SHOW(NoInit) SHOW(NoFenceInit) SHOW(NoInitBarrier) SHOW(NoWaitFull) SHOW(NoWaitEmpty) SHOW(NoArrive) SHOW(ArriveEarly) SHOW(NoSyncWarp)
  SHOW(FullParity) SHOW(EmptyParity) SHOW(NoFlip) SHOW(OneArrival) SHOW(ThreeArrivals) SHOW(TooFewBytes) SHOW(TooManyBytes) SHOW(NoBytes) SHOW(OneLoadMore)
}

}  // namespace
}  // namespace gpusim_test
