/// @file
/// Kernels of the kind that people write first compile here as they do with nvcc, give the right numbers, and
/// have no defects.
#include "first_programs.cuh"

#include <numeric>
#include <random>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

TEST(FirstPrograms, ElementByElement) {
  const Buffer<float> a("a", std::vector<float>(100, 2.0f)), b("b", std::vector<float>(100, 3.0f)),
      c("c", 100);
  EXPECT_TRUE(is_clean(run({2, 64}, add_vectors<float>, a.get(), b.get(), c.get(), 100)));
  EXPECT_EQ(c.host(), std::vector<float>(100, 6.0f));
  EXPECT_TRUE(is_clean(run({2, 32}, saxpy_strided, 2.0f, a.get(), c.get(), 100u)));
  EXPECT_EQ(c.host(), std::vector<float>(100, 10.0f));
}

TEST(FirstPrograms, MinimumAndMaximumOfMixedTypes) {
  const Buffer<double> out("out", 32);
  EXPECT_TRUE(is_clean(run({1, 1}, smallest_and_largest, out.get())));
  constexpr double k32 = 4294967295.0, k64 = 0x1p64;
  EXPECT_EQ(out.host(), (std::vector<double>{-1,   3,   5,    k32, 5,   k32,  3,   5,    -7,   8,    9,
                                             k64,  -11, 8,    13,  k64, -1.5, 1,   -1.5, 2.25, -1.5, 2.25,
                                             2.25, 4.5, -1.5, 4.5, 3,   5,    1.5, 2.25, 1,    11}));
}

TEST(FirstPrograms, FunctionsAndNumbersOfTheGlobalNamespace) {
  const Buffer<double> out("out", 11);
  EXPECT_TRUE(is_clean(run({1, 1}, arithmetic, out.get())));
  EXPECT_EQ(out.host(), (std::vector<double>{float(M_PI), 1, 0.5, 2, -88, 233, 1, 1, 5, 1, 103}));
}

TEST(FirstPrograms, Transpose) {
  constexpr int n = 70;
  std::vector<float> values(n * n), expected(n * n);
  std::iota(values.begin(), values.end(), 0.0f);
  for (int i = 0; i < n * n; ++i) expected[i % n * n + i / n] = values[i];
  const Buffer<float> in("in", values), out("out", n * n);
  EXPECT_TRUE(is_clean(run({dim3(3, 3), dim3(32, 8)}, transpose, in.get(), out.get(), n)));
  EXPECT_EQ(out.host(), expected);
}

TEST(FirstPrograms, ReductionHistogramStencilScan) {
  const Buffer<float> x("x", std::vector<float>(1000, 0.5f));
  const auto sum = Buffer<float>::zeros("sum", 1);
  EXPECT_TRUE(is_clean(run({3, 128}, reduce<128>, x.get(), sum.get(), 1000)));
  EXPECT_EQ(sum.host()[0], 500.0f);

  std::vector<unsigned char> letters(1000);
  std::vector<unsigned> counts(256);
  for (int i = 0; i < 1000; ++i) ++counts[letters[i] = static_cast<unsigned char>(i * 7)];
  const Buffer<unsigned char> text("text", letters);
  const auto bins = Buffer<unsigned>::zeros("bins", 256);
  EXPECT_TRUE(is_clean(run({4, 64}, histogram, text.get(), bins.get(), 1000)));
  EXPECT_EQ(bins.host(), counts);

  const float weights[3] = {1.0f, 2.0f, 4.0f};
  float known[3];
  ASSERT_EQ(cudaMemcpyToSymbol(kStencil, weights, sizeof weights, 0, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpyFromSymbol(known, kStencil, sizeof known), cudaSuccess);
  EXPECT_EQ(known[2], 4.0f);
  const Buffer<float> out("out", 100);
  EXPECT_TRUE(is_clean(run({2, 64}, stencil, x.get(), out.get(), 100)));
  EXPECT_EQ(out.host()[0], 3.0f);
  EXPECT_EQ(out.host()[64], 3.5f);

  const Buffer<int> ones("ones", std::vector<int>(64, 1)), sums("sums", 64);
  EXPECT_TRUE(is_clean(run({1, 64, 2 * 64 * sizeof(int)}, scan, ones.get(), sums.get(), 64)));
  std::vector<int> expected(64);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(sums.host(), expected);
}

TEST(FirstPrograms, CooperativeGroups) {
  std::vector<int> values(128);
  std::iota(values.begin(), values.end(), 0);
  const Buffer<int> x("x", values), sums("sums", 8), before("before", 128);
  EXPECT_TRUE(is_clean(run({2, 64}, sum_by_groups, x.get(), sums.get(), before.get())));
  EXPECT_EQ(sums.host()[0], 120);
  EXPECT_EQ(sums.host()[7], 16 * 112 + 120);
  EXPECT_EQ(before.host()[64 + 15], 15 * 64 + 105);
  EXPECT_EQ(before.host()[64 + 16], 0);
}

TEST(FirstPrograms, AtomicOperations) {
  const Buffer<unsigned> u("u", std::vector<unsigned>{5, 3, 0});
  const auto ll = Buffer<long long>::zeros("ll", 1);
  const auto h = Buffer<__half>::zeros("h", 2);
  const auto h2 = Buffer<__half2>::zeros("h2", 1);
  const auto b = Buffer<__nv_bfloat16>::zeros("b", 2);
  EXPECT_TRUE(is_clean(run({1, 32}, many_atomics, u.get(), ll.get(), h.get(), h2.get(), b.get())));
  EXPECT_EQ(u.host(), (std::vector<unsigned>{(5 + 32) % 10, (3 + 10 * 4 - 32) % 10, 32}));
  EXPECT_EQ(ll.host()[0], 31);
  EXPECT_EQ(float(h.host()[0]), 32.0f);
  EXPECT_EQ(float(h2.host()[0].y), 64.0f);
  EXPECT_EQ(float(b.host()[0]), 32.0f);
}

TEST(FirstPrograms, LaunchWithPointersToTheArguments) {
  const Buffer<float> a("a", std::vector<float>(4, 2.0f)), c("c", 4);
  const float* x = a;
  float* z = c;
  int n = 4;
  void* arguments[] = {&x, &x, &z, &n};
  EXPECT_EQ(cudaLaunchKernel(add_vectors<float>, dim3(1), dim3(32), arguments), cudaSuccess);
  EXPECT_TRUE(is_clean(gpusim::take_report()));
  EXPECT_EQ(c.host(), std::vector<float>(4, 5.0f));
}

// ---- static shared memory ---------------------------------------------------------------------------------

TEST(FirstPrograms, StaticSharedMemoryIsLimitedWhateverTheAttributeSays) {
  const Buffer<float> out("out", 32);
  EXPECT_TRUE(is_clean(run({}, large_static_tile<48 * 256>, out.get())));
  ASSERT_EQ(cudaFuncSetAttribute(large_static_tile<64 * 256>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 100 * 1024),
            cudaSuccess);
  EXPECT_EQ(try_run({}, large_static_tile<64 * 256>, out.get()), cudaErrorInvalidValue);
  const gpusim::Report report = gpusim::take_report();
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kUnsupported);
  EXPECT_TRUE(says(report, "Too much shared memory in kernel large_static_tile"));
  EXPECT_TRUE(says(report, "it has 65536 bytes in variables of fixed size"));
  EXPECT_TRUE(says(report,
                   "ptxas allows 49152 of them, whatever cudaFuncSetAttribute() says: for more, declare "
                   "extern __shared__"));
}

// ---- WMMA -------------------------------------------------------------------------------------------------

/// Small integers, so that every sum is exact in fp16.
template <class T>
std::vector<T> small_numbers(int count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<T> values;
  for (int i = 0; i < count; ++i) values.push_back(T(float(int(random() % 7)) - 3));
  return values;
}

template <class Sum, class LayoutA, class LayoutB>
void check_product(int m, int n, int k) {
  constexpr bool kRowsA = std::is_same_v<LayoutA, wmma::row_major>,
                 kRowsB = std::is_same_v<LayoutB, wmma::row_major>;
  const auto a = small_numbers<__half>(m * k, 1), b = small_numbers<__half>(k * n, 2);
  const Buffer<__half> gA("a", a), gB("b", b);
  const Buffer<Sum> gC("c", std::size_t(m * n));
  const gpusim::Report report =
      run({dim3(unsigned(m / 32), unsigned(n / 16)), 64}, wmma_product<Sum, LayoutA, LayoutB>, gA.get(),
          gB.get(), gC.get(), m, n, k);
  EXPECT_TRUE(is_clean(report));
  const std::vector<Sum> c = gC.host();
  for (int row = 0; row < m; ++row) {
    for (int col = 0; col < n; ++col) {
      float sum = 0;
      for (int i = 0; i < k; ++i)
        sum += float(a[kRowsA ? row * k + i : i * m + row]) * float(b[kRowsB ? i * n + col : col * k + i]);
      ASSERT_EQ(float(c[row * n + col]), sum) << row << ", " << col;
    }
  }
  // Each lane loads four pairs of a tile: 4 requests of 8 rows of 16 bytes. The sums are stored in pairs as
  // well.
  const long tiles = m / 16 * (n / 16), loads = tiles * (k / 16);
  for (const char* operand : {"a", "b"}) {
    EXPECT_EQ(report.tensors.at(operand).read_bytes, 512 * loads);
    EXPECT_EQ(report.tensors.at(operand).read_requests, 4 * loads);
    EXPECT_EQ(report.tensors.at(operand).read_sectors, 32 * loads);
  }
  EXPECT_EQ(report.tensors.at("c").write_bytes, long(256 * sizeof(Sum)) * tiles);
  EXPECT_EQ(report.tensors.at("c").write_requests, 4 * tiles);
  EXPECT_EQ(report.tensors.at("c").write_sectors, 32 * tiles);
  EXPECT_EQ(report.ops.mma, 2 * loads);
  EXPECT_EQ(report.shared.load_wavefronts, 0);
}

TEST(FirstWmma, ProductsOfTilesInGlobalMemory) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  check_product<__half, wmma::row_major, wmma::col_major>(32, 48, 64);
  check_product<__half, wmma::col_major, wmma::row_major>(32, 48, 64);
  check_product<float, wmma::row_major, wmma::row_major>(64, 16, 32);
  check_product<float, wmma::col_major, wmma::col_major>(64, 16, 32);
}

template <int kM, int kN, class Element, class Sum>
void check_tile() {
  const auto a = small_numbers<Element>(kM * 16, 3), b = small_numbers<Element>(16 * kN, 4);
  const auto c = small_numbers<Sum>(kM * kN, 5);
  const Buffer<Element> gA("a", a), gB("b", b);
  const Buffer<Sum> gC("c", c), gD("d", std::size_t(kM * kN));
  EXPECT_TRUE(is_clean(run({}, wmma_tile<kM, kN, Element, Sum>, gA.get(), gB.get(), gC.get(), gD.get())));
  const std::vector<Sum> d = gD.host();
  for (int row = 0; row < kM; ++row) {
    for (int col = 0; col < kN; ++col) {
      float sum = 2 * float(c[col * kM + row]);
      for (int k = 0; k < 16; ++k) sum += float(a[row * 16 + k]) * float(b[k * kN + col]);
      ASSERT_EQ(float(d[col * kM + row]), sum) << row << ", " << col;
    }
  }
}

TEST(FirstWmma, OtherShapesAndTypes) {
  check_tile<16, 16, __half, float>();
  check_tile<16, 16, __half, __half>();
  check_tile<32, 8, __half, float>();
  check_tile<32, 8, __half, __half>();
  check_tile<8, 32, __half, __half>();
  check_tile<8, 32, __nv_bfloat16, float>();
}

/// Fragments of each shape from shared memory, where ldmatrix loads them.
template <int kM, int kN>
__global__ void from_shared(const __half* a, const __half* b, float* d) {
  __shared__ __align__(32) __half sA[kM * 16], sB[16 * kN];
  for (int i = threadIdx.x; i < kM * 16; i += 32) sA[i] = a[i];
  for (int i = threadIdx.x; i < kN * 16; i += 32) sB[i] = b[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, kM, kN, 16, __half, wmma::row_major> fA;
  wmma::fragment<wmma::matrix_b, kM, kN, 16, __half, wmma::row_major> fB;
  wmma::fragment<wmma::accumulator, kM, kN, 16, float> fD;
  wmma::load_matrix_sync(fA, sA, 16);
  wmma::load_matrix_sync(fB, sB, kN);
  wmma::fill_fragment(fD, 0.0f);
  wmma::mma_sync(fD, fA, fB, fD);
  wmma::store_matrix_sync(d, fD, kN, wmma::mem_row_major);
}

template <int kM, int kN>
void check_from_shared() {
  const auto a = small_numbers<__half>(kM * 16, 6), b = small_numbers<__half>(16 * kN, 7);
  const Buffer<__half> gA("a", a), gB("b", b);
  const Buffer<float> gD("d", std::size_t(kM * kN));
  EXPECT_TRUE(is_clean(run({}, from_shared<kM, kN>, gA.get(), gB.get(), gD.get())));
  const std::vector<float> d = gD.host();
  for (int i = 0; i < kM * kN; ++i) {
    float sum = 0;
    for (int k = 0; k < 16; ++k) sum += float(a[i / kN * 16 + k]) * float(b[k * kN + i % kN]);
    ASSERT_EQ(d[i], sum) << i;
  }
}

TEST(FirstWmma, FragmentsFromSharedMemory) {
  check_from_shared<16, 16>();
  check_from_shared<32, 8>();
  check_from_shared<8, 32>();
}

}  // namespace
}  // namespace gpusim_test
