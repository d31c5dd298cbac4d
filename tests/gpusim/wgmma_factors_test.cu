/// @file
/// wgmma: products that add to the same accumulators, on tiles that the copy engine has brought.
#include <gpusim_hopper.h>

#include <array>
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

// Two panels of 64 columns, of which wgmma needs 64 rows.
constexpr int kRows = 72, kPanel = kRows * 128, kTile = 2 * kPanel, kBytes = 2 * kTile;

/// Where a product's operands begin, in bytes from the start of their tile.
struct Step {
  int a, b;
};
using Steps = std::array<Step, 4>;

__device__ std::uint64_t descriptor(int start, int leading = 16) {
  return (ptx::shared_address(smem) + std::uint32_t(start)) / 16 | std::uint64_t(leading / 16) << 16 |
         std::uint64_t(1024 / 16) << 32 | std::uint64_t(1) << 62;
}

__device__ void load(const CUtensorMap& a, const CUtensorMap& b) {
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    for (int panel = 0; panel < 2; ++panel) {
      ptx::tma_load(smem + panel * kPanel, &a, &full, 64 * panel, 0, 0);
      ptx::tma_load(smem + kTile + panel * kPanel, &b, &full, 64 * panel, 0, 0);  // B
    }
  }
  ptx::mbarrier_wait(&full, 0);
}

__global__ void from_shared(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                            Steps steps, bool stored, float* out) {
  load(a, b);
  if (stored) {  // by threads: A is no longer from a tensor
    for (int i = int(threadIdx.x); i < kTile / 4; i += 128) reinterpret_cast<unsigned*>(smem)[i] = 0;
    ptx::fence_proxy_async();
    __syncthreads();
  }
  float d[32];
  ptx::wgmma_fence();
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t a_now = descriptor(steps[std::size_t(i)].a);
    const std::uint64_t b_now = descriptor(kTile + steps[std::size_t(i)].b);
    if (i == 0) {
      ptx::wgmma<__nv_bfloat16, false, false, false>(d, a_now, b_now);  // first
    } else {
      ptx::wgmma<__nv_bfloat16, true, false, false>(d, a_now, b_now);  // others
    }
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  out[threadIdx.x] = d[0];
}

/// A is in registers, the same ones or others for each product.
__global__ void from_registers(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                               Steps steps, bool same, float* out) {
  load(a, b);
  const std::uint32_t registers[4][4] = {};
  float d[64];
  ptx::wgmma_fence();
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t b_now = descriptor(kTile + steps[std::size_t(i)].b, kPanel);
    if (i == 0) {
      ptx::wgmma<__nv_bfloat16, false, true>(d, registers[0], b_now);  // P first
    } else {
      ptx::wgmma<__nv_bfloat16, true, true>(d, registers[same ? 0 : i], b_now);  // P others
    }
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  out[threadIdx.x] = d[0];
}

template <class Kernel, class... Args>
gpusim::Report report_of(Kernel kernel, const Steps& steps, Args... args) {
  const std::vector<unsigned short> zeros(kRows * 128);
  const Buffer<unsigned short> a("A", zeros), b("B", zeros);
  const Buffer<float> out("out", 128);
  const Layout layout{.size = {128, kRows, 1}, .box = {64, kRows, 1}, .swizzle = CU_TENSOR_MAP_SWIZZLE_128B};
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                       kBytes);
  return run({.block = 128, .dynamic_shared_bytes = kBytes}, kernel, map_of(a.get(), layout),
             map_of(b.get(), layout), steps, args..., out.get());
}

/// The same step of both operands, and at last one in the second panel.
Steps both(int second, int third, int fourth = kPanel + 96) {
  return {{{0, 0}, {second, second}, {third, third}, {fourth, fourth}}};
}

std::string at(const std::string& tag) { return "wgmma_factors_test.cu:" + std::to_string(line_of(tag)); }

testing::AssertionResult tells(const gpusim::Report& report, const std::string& one, const std::string& other,
                               const std::string& why) {
  const std::string message = "Wgmma error detected. The products at " + at(one) + " and " + at(other) +
                              " add to the same accumulators, but do not go through k together, in block "
                              "(0,0,0)\n    " +
                              why;
  if (!report.defects.empty() && report.defects[0].kind == DefectKind::kWgmma &&
      report.defects[0].message == message)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "not: " << message << "\n" << gpusim::format_defects(report);
}

TEST(WgmmaFactors, EachKOnce) {
  EXPECT_TRUE(is_clean(report_of(from_shared, both(32, 64), false)));
  EXPECT_TRUE(is_clean(report_of(from_shared, both(kPanel, kPanel + 32), false)));
  EXPECT_TRUE(is_clean(report_of(
      from_shared, {{{32, 64}, {64, 96}, {kPanel, kPanel + 32}, {kPanel + 32, kPanel + 64}}}, false)))
      << "always 16 columns apart";
  EXPECT_TRUE(is_clean(report_of(from_registers, both(16 * 128, 32 * 128, 48 * 128), false)));
}

TEST(WgmmaFactors, AStepThatIsTooShort) {
  EXPECT_TRUE(tells(report_of(from_shared, both(16, 32), false), "first", "others",
                    "k is from 0 to 15 in the tensor of B, then 8 to 23: both have the elements from 8 on"));
  EXPECT_TRUE(tells(report_of(from_shared, both(0, 32), false), "first", "others",
                    "k is from 0 to 15 in the tensor of B, then 0 to 15: both have the elements from 0 on"));
  EXPECT_TRUE(tells(report_of(from_registers, both(8 * 128, 16 * 128, 48 * 128), false), "P first",
                    "P others",
                    "k of B is from 0 to 15 in its tensor, then 8 to 23: both have the elements from 8 on"));
}

TEST(WgmmaFactors, AThatThreadsHaveStored) {
  EXPECT_TRUE(is_clean(report_of(from_shared, both(32, 64), true)));
  EXPECT_TRUE(is_clean(report_of(from_shared, {{{0, 0}, {kPanel, 32}, {32, 64}, {64, 96}}}, true)))
      << "in any order";
  EXPECT_TRUE(is_clean(report_of(from_shared, {{{0, 0}, {32, 0}, {64, 32}, {96, 64}}}, true)))
      << "A as a sum of two";
  EXPECT_TRUE(tells(report_of(from_shared, {{{0, 0}, {32, 16}, {64, 64}}}, true), "first", "others",
                    "k of B is from 0 to 15 in its tensor, then 8 to 23: both have the elements from 8 on"));
  EXPECT_TRUE(tells(report_of(from_shared, {{{0, 0}, {32, 0}, {64, 0}, {96, 0}}}, true), "others", "others",
                    "k of B is from 0 to 15 in its tensor in 4 products"));
  EXPECT_TRUE(tells(report_of(from_shared, {{{0, 0}, {0, 32}, {64, 64}}}, true), "first", "others",
                    "k of B is from 0 to 15 in its tensor, then 16 to 31: A is in part the same"));
  EXPECT_TRUE(tells(report_of(from_shared, {{{0, 0}, {16, 32}, {64, 64}}}, true), "first", "others",
                    "k of B is from 0 to 15 in its tensor, then 16 to 31: A is in part the same"));
}

TEST(WgmmaFactors, TheSameBForOtherRegisters) {
  EXPECT_TRUE(is_clean(report_of(from_registers, both(0, 16 * 128, 48 * 128), false))) << "A as a sum of two";
  EXPECT_TRUE(tells(report_of(from_registers, both(0, 16 * 128, 48 * 128), true), "P first", "P others",
                    "k of B is from 0 to 15 in its tensor, then 0 to 15: both have the elements from 0 on"));
}

TEST(WgmmaFactors, TheSameBMoreOftenThanAFloatHasParts) {
  EXPECT_TRUE(is_clean(report_of(from_registers, both(0, 0, 16 * 128), false)));
  EXPECT_TRUE(tells(report_of(from_registers, both(0, 0, 0), false), "P others", "P others",
                    "k of B is from 0 to 15 in its tensor in 4 products"));
}

TEST(WgmmaFactors, OperandsThatAreApart) {
  EXPECT_TRUE(tells(report_of(from_shared, {{{0, 0}, {32, 0}, {64, 64}}}, false), "first", "others",
                    "k of A is from 0 to 15 in its tensor and that of B from 0 to 15, then 16 to 31 and 0 to "
                    "15"));
  EXPECT_TRUE(
      tells(report_of(from_shared, {{{0, 0}, {32, 32}, {kPanel, 64}}}, false), "first", "others",
            "k of A is from 0 to 15 in its tensor and that of B from 0 to 15, then 64 to 79 and 32 to "
            "47"));
}

TEST(WgmmaFactors, OtherRows) {
  EXPECT_TRUE(tells(report_of(from_shared, both(128, 32), false), "first", "others",
                    "A begins in row 0 of its tensor, then in row 1; B in row 0, then in row 1"));
}

TEST(WgmmaFactors, APanelInTheMiddle) {
  const gpusim::Report report =
      report_of(from_shared, {{{0, 0}, {32, 32}, {kPanel, kPanel / 2 - 512}}}, false);
  EXPECT_TRUE(says(report, "The descriptor of B at " + at("others") +
                               " does not fit the box that the copy at " + at("B")));
  EXPECT_TRUE(says(report,
                   "B[0][0] is from row 32, column 0 of its tensor, and B[0][40] from row 0, column 64: "
                   "elements with the same k are in different columns"));
}

}  // namespace
}  // namespace gpusim_test
