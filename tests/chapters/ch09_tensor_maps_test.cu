// The tensor maps of chapter 09: what is said of one that the driver would refuse.

#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "harness/backend.hpp"
#include "tensor_maps.cuh"

namespace fa::ch09 {
namespace {

constexpr std::uintptr_t kAddress = 0x7f0000000000;

/// Of a tensor [2, 3, 100, cols]; only the map is made.
std::string refusal(std::uintptr_t address, const Strides& strides, int cols, int box_rows = 128) {
  try {
    tensor_map<__nv_bfloat16>({reinterpret_cast<const __nv_bfloat16*>(address), strides, 2, 3, 100, cols},
                              box_rows);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}
Strides dense(int cols) { return {std::int64_t(300) * cols, std::int64_t(100) * cols, cols}; }

TEST(TensorMaps, ThatTheDriverRefusesAreExplained) {
  if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  const std::string of_64 = "no tensor map for 2 x 3 x 100 x 64 elements in boxes of 128 x 64: ";
  EXPECT_EQ(refusal(kAddress, dense(64), 64), "");
  EXPECT_EQ(
      refusal(kAddress, dense(64), 64, 300),
      "no tensor map for 2 x 3 x 100 x 64 elements in boxes of 300 x 64: boxDim[1] is 300: must be 1 to 256");
  EXPECT_EQ(refusal(kAddress, dense(68), 68),
            "no tensor map for 2 x 3 x 100 x 68 elements in boxes of 128 x 64: globalStrides[0] is 136 "
            "bytes: must be "
            "a multiple of 16");
  EXPECT_EQ(refusal(kAddress, {64 * 300, 64 * 100 + 4, 64}, 64),
            of_64 + "globalStrides[1] is 12808 bytes: must be a multiple of 16");
  EXPECT_EQ(refusal(kAddress, {std::int64_t(1) << 40, 6400, 64}, 64),
            of_64 + "globalStrides[2] is 2199023255552 bytes: must be below 2^40");
  EXPECT_EQ(refusal(kAddress + 8, dense(64), 64),
            of_64 + "the global address is 0x7f0000000008: must be a multiple of 16, and not 0");
}

// Fewer columns than a box has, and heads that are neighbours, as in [batch, rows, heads, cols].
TEST(TensorMaps, TakeTensorsThatAreNarrowerThanABoxAndOtherLayouts) {
  if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  for (int cols = 8; cols <= 256; cols += 8) {
    EXPECT_EQ(refusal(kAddress, dense(cols), cols), "");
    EXPECT_EQ(refusal(kAddress, {std::int64_t(300) * cols, cols, std::int64_t(3) * cols}, cols), "");
  }
}

}  // namespace
}  // namespace fa::ch09
