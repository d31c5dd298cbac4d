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

/// @param address  of a tensor of 2 x 100 x cols elements; only the map is made
std::string refusal(std::uintptr_t address, int cols, int box_rows) {
  try {
    tensor_map(reinterpret_cast<const __nv_bfloat16*>(address), 2, 100, cols, box_rows);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(TensorMaps, ThatTheDriverRefusesAreExplained) {
  if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  constexpr std::uintptr_t kAddress = 0x7f0000000000;
  EXPECT_EQ(refusal(kAddress, 64, 128), "");
  EXPECT_EQ(
      refusal(kAddress, 64, 300),
      "no tensor map for 2 x 100 x 64 elements in boxes of 300 x 64: boxDim[1] is 300: must be 1 to 256");
  EXPECT_EQ(
      refusal(kAddress, 68, 128),
      "no tensor map for 2 x 100 x 68 elements in boxes of 128 x 64: globalStrides[0] is 136 bytes: must be "
      "a multiple of 16");
  EXPECT_EQ(
      refusal(kAddress + 8, 64, 128),
      "no tensor map for 2 x 100 x 64 elements in boxes of 128 x 64: the global address is 0x7f0000000008: "
      "must be a multiple of 16, and not 0");
}

}  // namespace
}  // namespace fa::ch09
