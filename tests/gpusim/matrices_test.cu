/// @file
/// ldmatrix, movmatrix and mma: their cost, their checks, and missing lanes. Their results are tested in
/// tests/device/mma_test.cu, through the functions that kernels call.
#include <gpusim_ptx.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

// ---- wavefronts -------------------------------------------------------------------------------------------

/// Loads kMatrices matrices whose rows are `stride` bytes apart, their 16 bytes at `chunk ^ row % 8` if
/// swizzled.
template <int kMatrices>
__global__ void load_rows(std::uint32_t* out, int stride, bool swizzled) {
  __shared__ __align__(128) unsigned char sTile[32 * 256];
  for (int i = threadIdx.x * 4; i < int(sizeof sTile); i += 128) *reinterpret_cast<int*>(sTile + i) = i;
  __syncwarp();
  const int row = threadIdx.x;
  std::uint32_t r[kMatrices];
  ptx::ldmatrix<false>(r, sTile + row * stride + (swizzled ? row % 8 * 16 : 0));
  for (int m = 0; m < kMatrices; ++m) out[threadIdx.x * kMatrices + m] = r[m];
}

template <int kMatrices>
gpusim::SharedCounters cost(int stride, bool swizzled = false) {
  const Buffer<std::uint32_t> out("out", 32 * kMatrices);
  const gpusim::Report report = run({}, load_rows<kMatrices>, out.get(), stride, swizzled);
  EXPECT_TRUE(is_clean(report));
  return report.shared;
}

TEST(LdmatrixTest, TakesAWavefrontForEachMatrix) {
  for (const int stride : {16, 48, 80, 144}) {
    EXPECT_EQ(cost<1>(stride).load_wavefronts, 1) << stride;
    EXPECT_EQ(cost<2>(stride).load_wavefronts, 2) << stride;
    EXPECT_EQ(cost<4>(stride).load_wavefronts, 4) << stride;
  }
  EXPECT_EQ(cost<4>(128, true).load_wavefronts, 4);
}

TEST(LdmatrixTest, CountsTheConflictsOfItsRows) {
  EXPECT_EQ(cost<1>(128).load_wavefronts, 8);
  EXPECT_EQ(cost<1>(64).load_wavefronts, 4);
  EXPECT_EQ(cost<4>(128).load_wavefronts, 32);
  EXPECT_EQ(cost<4>(128).load_wavefronts_ideal, 4);
  EXPECT_EQ(cost<4>(64).load_wavefronts, 16);
  EXPECT_EQ(cost<4>(32).load_wavefronts, 8);
  EXPECT_EQ(cost<2>(256).load_wavefronts, 16);
}

// ---- checks -----------------------------------------------------------------------------------------------

enum class Row { kMisaligned, kBehindTheEnd, kGlobal, kUnwritten, kUnwrittenUnused };

__global__ void load_bad_row(std::uint32_t* out, Row kind) {
  __shared__ __align__(128) std::uint16_t sTile[8 * 8 + 8];  // 144 bytes
  const int lane = threadIdx.x;
  if (kind < Row::kUnwritten || lane != 5) sTile[2 * lane] = sTile[2 * lane + 1] = 1;
  __syncwarp();
  const std::uint16_t* row = sTile + lane % 8 * 8;
  if (kind == Row::kMisaligned && lane == 3) row += 4;
  if (kind == Row::kBehindTheEnd && lane == 7) row += 16;
  if (kind == Row::kGlobal && lane == 0) row = reinterpret_cast<std::uint16_t*>(out);
  if (kind == Row::kUnwrittenUnused && lane % 8 == 1) row = sTile;
  std::uint32_t r[1];
  ptx::ldmatrix<false>(r, row);  // load
  out[lane] = r[0];
}

gpusim::Report report_of(Row kind) {
  const auto out = Buffer<std::uint32_t>::zeros("out", 32);
  return run({}, load_bad_row, out.get(), kind);
}

TEST(LdmatrixTest, ChecksTheAddressOfEachRow) {
  const int line = line_of("load");
  EXPECT_EQ(told(report_of(Row::kMisaligned)), (Defects{{DefectKind::kMisaligned, {line}, 1}}));
  EXPECT_EQ(told(report_of(Row::kBehindTheEnd)), (Defects{{DefectKind::kOutOfBounds, {line}, 1}}));
  const gpusim::Report global = report_of(Row::kGlobal);
  EXPECT_EQ(told(global), (Defects{{DefectKind::kOutOfBounds, {line}, 1}}));
  EXPECT_TRUE(says(global, "Invalid __shared__ read of size 16 bytes"));
  EXPECT_TRUE(says(global, "address is byte 0 of \"out\", in global memory"));
}

TEST(LdmatrixTest, ReportsBytesThatNobodyHasWritten) {
  EXPECT_EQ(told(report_of(Row::kUnwritten)),
            (Defects{{DefectKind::kUninitializedRead, {line_of("load")}, 1}}));
  EXPECT_TRUE(is_clean(report_of(Row::kUnwrittenUnused)));
}

__global__ void load_without_barrier(std::uint32_t* out) {
  __shared__ __align__(128) std::uint32_t sTile[8 * 4];
  sTile[threadIdx.x] = threadIdx.x;  // write
  std::uint32_t r[1];
  ptx::ldmatrix<false>(r, sTile + threadIdx.x % 8 * 4);  // racing load
  out[threadIdx.x] = r[0];
}

TEST(LdmatrixTest, OrdersNothing) {
  const Buffer<std::uint32_t> out("out", 32);
  const gpusim::Report report = run({}, load_without_barrier, out.get());
  ASSERT_FALSE(report.defects.empty());
  EXPECT_EQ(report.defects[0].kind, DefectKind::kRace);
  EXPECT_TRUE(says(report, "Race reported between"));
}

// ---- movmatrix --------------------------------------------------------------------------------------------

__global__ void transpose_registers(std::uint32_t* out, bool is_missing) {
  if (is_missing && threadIdx.x == 9) return;
  out[threadIdx.x] = ptx::movmatrix_transposed(out[threadIdx.x]);  // movmatrix
}

TEST(MovmatrixTest, IsCounted) {
  const auto out = Buffer<std::uint32_t>::zeros("out", 32);
  const gpusim::Report report = run({}, transpose_registers, out.get(), false);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.ops.transposes, 1);
}

TEST(MovmatrixTest, ReportsALaneThatDoesNotCome) {
  const auto out = Buffer<std::uint32_t>::zeros("out", 32);
  const gpusim::Report report = run({}, transpose_registers, out.get(), true);
  EXPECT_EQ(told(report), (Defects{{DefectKind::kBarrierDivergence, {line_of("movmatrix")}, 1}}));
  EXPECT_TRUE(says(report, "31 of 32 threads named in mask 0xffffffff reached "));
  EXPECT_EQ(report.ops.transposes, 0);
}

// ---- missing lanes ----------------------------------------------------------------------------------------

enum class Absence { kNone, kEnded, kSkips, kElsewhere };

__global__ void multiply(float* out, Absence absence) {
  const int lane = threadIdx.x;
  if (absence == Absence::kEnded && lane == 9) return;
  const std::uint32_t a[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u},
                      b[2] = {0x3c003c00u, 0x3c003c00u};
  float c[4] = {};
  if (absence == Absence::kElsewhere && lane == 9) {
    ptx::mma_m16n8k16_f16(c, a, b);
  } else if (absence != Absence::kSkips || lane != 9) {
    ptx::mma_m16n8k16_f16(c, a, b);  // mma
  }
  __syncwarp();
  for (int i = 0; i < 4; ++i) out[4 * lane + i] = c[i];
}

gpusim::Report report_of(Absence absence, std::vector<float>* result = nullptr) {
  const Buffer<float> out("out", 128);
  gpusim::Report report = run({}, multiply, out.get(), absence);
  if (result != nullptr) *result = out.host();
  return report;
}

TEST(MmaTest, IsCounted) {
  std::vector<float> result;
  const gpusim::Report report = report_of(Absence::kNone, &result);
  EXPECT_TRUE(is_clean(report));
  EXPECT_EQ(report.ops.mma, 1);
  EXPECT_EQ(result, std::vector<float>(128, 16.0f));
}

TEST(MmaTest, ReportsALaneThatDoesNotCome) {
  for (const Absence absence : {Absence::kEnded, Absence::kSkips, Absence::kElsewhere}) {
    const gpusim::Report report = report_of(absence);
    ASSERT_EQ(report.defects.size(), 1u);
    EXPECT_EQ(report.defects[0].kind, DefectKind::kBarrierDivergence);
    EXPECT_EQ(lines_of(report.defects[0].message, __FILE__)[0], line_of("mma"));
    EXPECT_TRUE(says(report, "31 of 32 threads"));
    EXPECT_EQ(report.ops.mma, 0);
  }
}

// ---- registers that are never set -------------------------------------------------------------------------

enum class Unset { kNothing, kA, kB, kC };

__global__ void multiply_unset(float* out, Unset unset) {
  std::uint32_t a[4], b[2];
  float c[4];
  for (int i = 0; i < 4 && unset != Unset::kA; ++i) a[i] = 0x3c003c00u;
  for (int i = 0; i < 2 && unset != Unset::kB; ++i) b[i] = 0x3c003c00u;
  for (int i = 0; i < (unset == Unset::kC ? 3 : 4); ++i) c[i] = 0.0f;
  ptx::mma_m16n8k16_f16(c, a, b);  // unset
  for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + unsigned(i)] = c[i];
}

TEST(MmaTest, ReportsRegistersThatAreNeverSet) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  const Buffer<float> out("out", 128);
  EXPECT_TRUE(is_clean(run({}, multiply_unset, out.get(), Unset::kNothing)));
  for (const Unset unset : {Unset::kA, Unset::kB, Unset::kC}) {
    const gpusim::Report report = run({}, multiply_unset, out.get(), unset);
    EXPECT_EQ(told(report), (Defects{{DefectKind::kUninitializedRead, {line_of("unset")}, 32}}));
    EXPECT_TRUE(says(report, "Uninitialized __local__ memory read of size 4 bytes"));
  }
}

// ---- numbers ----------------------------------------------------------------------------------------------

/// D = a * b + c in every element, from bf16 numbers of which the rows of A and columns of B are full.
__global__ void multiply_all(std::uint32_t a, std::uint32_t b, float c, float* out) {
  const std::uint32_t rA[4] = {a, a, a, a}, rB[2] = {b, b};
  float rC[4] = {c, c, c, c};
  ptx::mma_m16n8k16_bf16(rC, rA, rB);
  if (threadIdx.x == 0) *out = rC[0];
}

float result_of(std::uint32_t a, std::uint32_t b, float c) {
  const Buffer<float> out("out", 1);
  run({}, multiply_all, a, b, c, out.get());
  return out.host()[0];
}

TEST(MmaTest, RoundsTheSumOnce) {
  constexpr std::uint32_t kOnes = 0x3f803f80u, kTiny = 0x33803380u;  // 1 and 2^-24, twice
  EXPECT_EQ(result_of(kOnes, kTiny, 1.0f), 1.0f + 16 * 0x1p-24f);    // each alone would be lost
}

TEST(MmaTest, PassesInfinityAndNaNOn) {
  constexpr std::uint32_t kOnes = 0x3f803f80u, kInfinities = 0x7f807f80u;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(result_of(kOnes, kInfinities, 0.0f), kInfinity);
  EXPECT_TRUE(result_of(kOnes, kInfinities, -kInfinity) != result_of(kOnes, kInfinities, -kInfinity));
  EXPECT_TRUE(result_of(0, kInfinities, 0.0f) != result_of(0, kInfinities, 0.0f));
}

}  // namespace
}  // namespace gpusim_test
