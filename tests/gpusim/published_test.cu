/// @file
/// Values that blocks hand to blocks with higher numbers.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <gpusim_ptx.h>

#include <cstdint>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

constexpr unsigned kBlocks = 40, kMark = 0xffffffff;

/// The possible mistakes in the kernel below.
struct Right {
  static constexpr int kFrom = -1;          ///< the block whose value a block takes, from its own on
  static constexpr bool kWaits = true;      ///< for the value
  static constexpr bool kPublishes = true;  ///< or stores it in the usual way
  static constexpr bool kPublishesMark = false;
};
struct FromTheNextBlock : Right {
  static constexpr int kFrom = 1;
};
struct FromItself : Right {
  static constexpr int kFrom = 0;
};
struct NoWait : Right {
  static constexpr bool kWaits = false;
};
struct PlainStore : Right {
  static constexpr bool kPublishes = false;
};
struct Mark : Right {
  static constexpr bool kPublishesMark = true;
};

/// Each block adds its number to what the block before it has published.
template <class Plan>
__global__ void running_sum(std::uint32_t* sums, std::uint32_t* out) {
  __shared__ std::uint32_t before;
  const int block = int(blockIdx.x), from = block + Plan::kFrom;
  std::uint32_t sum = 0;
  if (block > 0 && from < int(gridDim.x)) {
    ptx::copy_published_async(&before, &sums[from]);  // sum: copy
    __pipeline_commit();
    __pipeline_wait_prior(0);
    sum = before;
    if (Plan::kWaits && sum == kMark) sum = ptx::await_published(&sums[from]);  // sum: wait
  }
  sum += std::uint32_t(block);
  if (Plan::kPublishesMark && block == 3) sum = kMark;
  if (Plan::kPublishes) {
    ptx::publish(&sums[block], sum);  // sum: publish
  } else {
    sums[block] = sum;  // sum: store
  }
  out[block] = sum;
}

Buffer<std::uint32_t> marked() { return {"sums", std::vector<std::uint32_t>(kBlocks, kMark)}; }

template <class Plan>
gpusim::Report run_sum() {
  const auto sums = marked();
  const Buffer<std::uint32_t> out("out", kBlocks);
  return run({kBlocks, 1}, running_sum<Plan>, sums.get(), out.get());
}

TEST(Published, BlocksTakeValuesOfEarlierOnes) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto sums = marked();
    const Buffer<std::uint32_t> out("out", kBlocks);
    const gpusim::Report report = run({kBlocks, 1}, running_sum<Right>, sums.get(), out.get());
    ASSERT_TRUE(is_clean(report));
    for (unsigned block = 0; block < kBlocks; ++block) ASSERT_EQ(out.host()[block], block * (block + 1) / 2);
    // Each value is written once, and read once by the copy. Waiting does not count.
    EXPECT_EQ(report.tensors.at("sums").write_bytes, 4 * kBlocks);
    EXPECT_EQ(report.tensors.at("sums").read_bytes, 4 * (kBlocks - 1));
    EXPECT_EQ(report.tensors.at("sums").atomic_requests, 0);
  }
}

TEST(Published, AWaitForALaterBlockIsReported) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    EXPECT_TRUE(
        says(run_sum<FromTheNextBlock>(), "waits for a value that no earlier block of the grid publishes"));
    EXPECT_TRUE(says(run_sum<FromItself>(), "waits for a value that no earlier block of the grid publishes"));
  }
}

TEST(Published, WithoutAWaitTheMarkIsTaken) {
  const auto sums = marked();
  const Buffer<std::uint32_t> out("out", kBlocks);
  run({kBlocks, 1}, running_sum<NoWait>, sums.get(), out.get());
  EXPECT_EQ(out.host()[5], kMark + 5);
}

TEST(Published, AMarkIsNoValue) {
  EXPECT_TRUE(says(run_sum<Mark>(), "publishes the mark of a missing value"));
}

TEST(Published, APlainStoreIsARace) {
  const gpusim::Report report = run_sum<PlainStore>();
  EXPECT_TRUE(says(report, "Race reported between Write access"));
  EXPECT_TRUE(says(report, "blocks are not ordered"));
}

TEST(Published, TheWordHoldsTheMarkBefore) {
  const char* const words = "publishes a value where nothing says that it was missing";
  const auto zeros = Buffer<std::uint32_t>::zeros("sums", kBlocks);
  const Buffer<std::uint32_t> never("sums", kBlocks), out("out", kBlocks);
  EXPECT_TRUE(says(run({kBlocks, 1}, running_sum<Right>, zeros.get(), out.get()), words));
  EXPECT_TRUE(says(run({kBlocks, 1}, running_sum<Right>, never.get(), out.get()), words));
  const auto twice = marked();
  EXPECT_TRUE(is_clean(run({kBlocks, 1}, running_sum<Right>, twice.get(), out.get())));
  EXPECT_TRUE(says(run({kBlocks, 1}, running_sum<Right>, twice.get(), out.get()), words));
}

}  // namespace
}  // namespace gpusim_test
