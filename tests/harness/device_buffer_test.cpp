#include "harness/device_buffer.hpp"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "harness/backend.hpp"
#include "harness/errors.hpp"

namespace fa {
namespace {

class Buffer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  }
};

TEST_F(Buffer, GivesBackWhatItWasGiven) {
  const std::vector<float> values = {1, 2, 3, 4, 5};
  DeviceBuffer buffer("x", values.size() * sizeof(float));
  buffer.upload(values.data());
  std::vector<float> copy(values.size());
  buffer.download(copy.data());
  EXPECT_EQ(copy, values);
  EXPECT_EQ(buffer.bytes(), 20u);
}

TEST_F(Buffer, PoisonMakesEveryElementNaN) {
  std::vector<float> values(1000, 1.0f);
  DeviceBuffer buffer("x", values.size() * sizeof(float));
  buffer.upload(values.data());
  buffer.poison();
  buffer.download(values.data());
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); }));
}

TEST_F(Buffer, IsFreedOnce) {
  if (backend::name() != "sim") GTEST_SKIP() << "other programs allocate memory of a GPU at the same time";
  const std::size_t before = free_device_bytes();
  constexpr std::size_t kBytes = 8 << 20;
  {
    DeviceBuffer first("x", kBytes);
    const DeviceBuffer second(std::move(first));
    EXPECT_EQ(first.get(), nullptr);  // NOLINT(bugprone-use-after-move)
    EXPECT_LE(free_device_bytes(), before - kBytes);
  }
  EXPECT_EQ(free_device_bytes(), before);
}

TEST_F(Buffer, GuardsTellOfWritesOutsideOfIt) {
  constexpr std::size_t kBytes = 100, kGuard = 256;
  for (const std::ptrdiff_t at : {std::ptrdiff_t(-1), std::ptrdiff_t(kBytes)}) {
    DeviceBuffer buffer("x", kBytes, kGuard);
    const std::vector<char> values(kBytes);
    buffer.upload(values.data());
    buffer.poison();
    EXPECT_TRUE(buffer.guards_intact());
    EXPECT_EQ(buffer.bytes(), kBytes);
    ASSERT_EQ(cudaMemset(static_cast<char*>(buffer.get()) + at, 0, 1), cudaSuccess);
    EXPECT_FALSE(buffer.guards_intact()) << at;
  }
}

TEST_F(Buffer, TooMuchIsADeviceError) {
  EXPECT_THROW(DeviceBuffer("x", std::size_t(1) << 50), DeviceError);
  const DeviceBuffer buffer("x", 4);  // the earlier failure has no effect
  EXPECT_NE(buffer.get(), nullptr);
}

}  // namespace
}  // namespace fa
