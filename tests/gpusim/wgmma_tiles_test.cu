/// @file
/// wgmma: descriptors of tiles that the copy engine has brought, right ones and wrong ones.
#include <gpusim_hopper.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hopper.hpp"
#include "simulator.hpp"

namespace gpusim_test {

extern __shared__ __align__(1024) unsigned char smem[];

namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

constexpr int kBytes = 64 * 1024;

/// The parts of a descriptor.
struct Descriptor {
  int swizzle = 1;  ///< as in the descriptor: 1 is 128 bytes
  int leading = 16, stride = 1024;
  int start = 0, base_offset = 0;

  __device__ std::uint64_t bits() const {
    return (ptx::shared_address(smem) + std::uint32_t(start)) >> 4 | std::uint64_t(leading / 16) << 16 |
           std::uint64_t(stride / 16) << 32 | std::uint64_t(base_offset) << 49 | std::uint64_t(swizzle) << 62;
  }
};

enum class Before { kNothing, kNoWait, kStore };

/// Loads `boxes` boxes, one after the other along the innermost dimension, and multiplies.
template <bool kTransposed, int kSize, bool kIsA>
__global__ void multiply(const __grid_constant__ CUtensorMap map, int boxes, int box_bytes, int columns,
                         Descriptor descriptor, Before before, float* out) {
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, boxes * box_bytes);
    for (int i = 0; i < boxes; ++i)
      ptx::tma_load(smem + i * box_bytes, &map, &full, i * columns, 0, 0);  // copy
  }
  if (before != Before::kNoWait) ptx::mbarrier_wait(&full, 0);
  if (before == Before::kStore) {
    __syncthreads();
    for (int i = threadIdx.x; i < kBytes / 4; i += 128) reinterpret_cast<std::uint32_t*>(smem)[i] = 0;
    ptx::fence_proxy_async();
    __syncthreads();
  }
  const std::uint32_t a[4] = {};
  float d[kSize];
  ptx::wgmma_fence();
  if constexpr (kIsA) {
    // B is the first 16 rows.
    ptx::wgmma<__nv_bfloat16, false, kTransposed, false>(d, descriptor.bits(), Descriptor{}.bits());
  } else {
    ptx::wgmma<__nv_bfloat16, false, kTransposed>(d, a, descriptor.bits());  // product
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  for (int i = 0; i < kSize; ++i) out[threadIdx.x * kSize + i] = d[i];
}

constexpr int kSwizzleBytes[] = {0, 128, 64, 32};  // by the bits of the descriptor
constexpr CUtensorMapSwizzle kModes[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                         CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_32B};

/// A matrix of 128 rows and 128 columns comes in boxes of all rows. B has `2 * kSize` columns.
template <bool kTransposed, int kSize, bool kIsA = false>
gpusim::Report report_of(const Descriptor& descriptor, int mode = 1, Before before = Before::kNothing,
                         int planes = 0, int row_bytes = 0) {
  const Buffer<unsigned short> tensor("K", std::vector<unsigned short>(128 * 128));
  const Buffer<float> out("out", 128 * kSize);
  const int row = row_bytes != 0 ? row_bytes : std::max(kSwizzleBytes[mode], 16);
  const auto columns = unsigned(row / 2);
  Layout layout{.size = {128, 128, 1}, .box = {columns, 128, 1}, .swizzle = kModes[mode]};
  if (planes > 0) {  // panels as a third dimension
    layout = {.size = {columns, 128, 128 / columns},
              .box = {columns, 128, unsigned(planes)},
              .swizzle = kModes[mode],
              .row_bytes = 256,
              .plane_bytes = cuuint64_t(row)};
  }
  const CUtensorMap map = map_of(tensor.get(), layout);
  const int boxes = planes > 0 ? 1 : 256 / row, bytes = 128 * row * std::max(planes, 1);
  const auto kernel = multiply<kTransposed, kSize, kIsA>;
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                       kBytes);
  return run({.block = 128, .dynamic_shared_bytes = kBytes}, kernel, map, boxes, bytes, int(columns),
             descriptor, before, out.get());
}

std::string at(const std::string& tag) { return "wgmma_tiles_test.cu:" + std::to_string(line_of(tag)); }

testing::AssertionResult tells(const gpusim::Report& report, const std::string& why) {
  const std::string message = "Wgmma error detected. The descriptor of B at " + at("product") +
                              " does not fit the box that the copy at " + at("copy") +
                              " has brought, in block (0,0,0)\n    " + why;
  if (report.defects.size() == 1 && report.defects[0].kind == DefectKind::kWgmma &&
      report.defects[0].message == message)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "not only: " << message << "\n" << gpusim::format_defects(report);
}

TEST(WgmmaTiles, RightDescriptorsKMajor) {
  for (int mode = 1; mode < 4; ++mode) {
    const int width = kSwizzleBytes[mode];
    for (int step = 0; step < width / 32; ++step) {
      SCOPED_TRACE(testing::Message() << width << " bytes, step " << step);
      EXPECT_TRUE(is_clean(report_of<false, 64>({mode, 16, 8 * width, 32 * step}, mode)));
      EXPECT_TRUE(is_clean(
          report_of<false, 32>({mode, 16, 8 * width, 32 * step + 64 * width}, mode)));  // rows from 64 on
    }
  }
  EXPECT_TRUE(is_clean(report_of<false, 64>({0, 128 * 16, 128, 0}, 0)));  // boxes of 8 columns
}

TEST(WgmmaTiles, RightDescriptorsMnMajor) {
  for (int mode = 1; mode < 4; ++mode) {
    const int width = kSwizzleBytes[mode];
    SCOPED_TRACE(testing::Message() << width << " bytes");
    EXPECT_TRUE(is_clean(report_of<true, 64>({mode, 128 * width, 8 * width, 16 * width}, mode)));
    EXPECT_TRUE(is_clean(
        report_of<true, 64>({mode, 128 * width, 8 * width, 0}, mode, Before::kNothing, 256 / width)));
  }
  EXPECT_TRUE(is_clean(report_of<true, 64>({0, 128, 128 * 16, 0}, 0)));
}

TEST(WgmmaTiles, AnotherSwizzle) {
  EXPECT_TRUE(tells(report_of<false, 64>({0, 128, 256}),
                    "the tensor map has 128-byte swizzle, the descriptor has no swizzle"));
  EXPECT_TRUE(tells(report_of<false, 64>({2, 16, 512}),
                    "the tensor map has 128-byte swizzle, the descriptor has 64-byte swizzle"));
  EXPECT_TRUE(tells(report_of<false, 64>({1, 16, 1024}, 2),
                    "the tensor map has 64-byte swizzle, the descriptor has 128-byte swizzle"));
  EXPECT_TRUE(tells(report_of<true, 64>({3, 4096, 256}, 0),
                    "the tensor map has no swizzle, the descriptor has 32-byte swizzle"));
}

TEST(WgmmaTiles, AnotherStride) {
  EXPECT_TRUE(tells(report_of<false, 32>({1, 16, 2048}),
                    "B[0][7] is in row 7, byte 0 of the box, and B[0][8] in row 16, byte 0: the stride byte "
                    "offset is 2048"));
  EXPECT_TRUE(tells(
      report_of<false, 32>({1, 16, 512}),
      "B[0][7] is in row 7, byte 0 of the box, and B[0][8] in row 4, byte 0: the stride byte offset is 512"));
  EXPECT_TRUE(tells(
      report_of<true, 64>({1, 16 * 1024, 128}),
      "B[7][0] is in row 7, byte 0 of the box, and B[8][0] in row 1, byte 0: the stride byte offset is 128"));
  EXPECT_TRUE(tells(report_of<true, 64>({0, 256, 128 * 16}, 0),
                    "B[7][0] is in row 7, byte 0 of the box, and B[8][0] in row 16, byte 0: the leading byte "
                    "offset is 256"));
}

TEST(WgmmaTiles, AnotherLeadingOffset) {
  EXPECT_TRUE(tells(
      report_of<true, 64>({1, 1024, 1024}),
      "B[0][56] is in row 0, byte 112 of the box, and B[0][64] in row 8, byte 0: the leading byte offset is "
      "1024"));
  EXPECT_TRUE(tells(report_of<false, 64>({0, 128, 128}, 0),
                    "B[0][0] is in row 0, byte 0 of the box, and B[8][0] in row 8, byte 0: the leading byte "
                    "offset is 128"));
}

TEST(WgmmaTiles, AnotherPattern) {
  EXPECT_TRUE(
      tells(report_of<false, 64>({1, 16, 1024, 0, 3}),
            "B[0][0] is in row 0, byte 80 of the box, and B[8][0] in row 0, byte 64: the base offset is 3"));
  EXPECT_TRUE(tells(
      report_of<false, 32>({1, 16, 1024}, 1, Before::kNothing, 0, 64),
      "B[0][0] is in row 0, byte 0 of the box, and B[0][1] in row 2, byte 0: a row of the box has 64 bytes"));
}

TEST(WgmmaTiles, TheDescriptorOfA) {
  EXPECT_TRUE(is_clean(report_of<false, 8, true>({1, 16, 1024, 96})));
  EXPECT_TRUE(is_clean(report_of<true, 8, true>({1, 16, 1024, 2048})));  // one panel
  EXPECT_TRUE(says(report_of<false, 8, true>({2, 16, 512}), "The descriptor of A at "));
  EXPECT_TRUE(says(report_of<false, 8, true>({1, 16, 2048}),
                   "A[7][0] is in row 7, byte 0 of the box, and A[8][0] in row 16, byte 0: the stride"));
  EXPECT_TRUE(says(report_of<true, 8, true>({1, 16, 2048}),
                   "A[0][7] is in row 7, byte 0 of the box, and A[0][8] in row 16, byte 0: the stride"));
}

TEST(WgmmaTiles, OrdinaryStoresMayHaveAnyLayout) {
  EXPECT_TRUE(is_clean(report_of<false, 64>({0, 128, 256}, 1, Before::kStore)));
}

TEST(WgmmaTiles, TheCopyMustBeWaitedFor) {
  const gpusim::Report report = report_of<false, 64>({}, 1, Before::kNoWait);
  ASSERT_FALSE(report.defects.empty());
  EXPECT_EQ(report.defects[0].kind, DefectKind::kRace);
  EXPECT_TRUE(says(report, at("product")));
  EXPECT_TRUE(says(report, at("copy")));
}

}  // namespace
}  // namespace gpusim_test
