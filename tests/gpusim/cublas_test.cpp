/// @file
/// Compares the simulator's cuBLAS with loops, in column-major order like cuBLAS.
#include <cublas_v2.h>

#include <Eigen/Core>
#include <cmath>
#include <random>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

class Cublas : public testing::Test {
 protected:
  Cublas() {
    cublasCreate(&handle);
    gpusim::take_report();
  }
  ~Cublas() override { cublasDestroy(handle); }

  cublasHandle_t handle = nullptr;
};

/// The arguments of a GEMM except the data.
struct Gemm {
  cublasOperation_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
  int m, n, k, lda, ldb, ldc;
  long long stride_a, stride_b, stride_c;
  int batch = 1;
  float alpha = 1, beta = 0;

  /// Matrices without gaps.
  static Gemm dense(cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, int batch = 1) {
    return {.transa = transa,
            .transb = transb,
            .m = m,
            .n = n,
            .k = k,
            .lda = transa == CUBLAS_OP_N ? m : k,
            .ldb = transb == CUBLAS_OP_N ? k : n,
            .ldc = m,
            .stride_a = static_cast<long long>(m) * k,
            .stride_b = static_cast<long long>(k) * n,
            .stride_c = static_cast<long long>(m) * n,
            .batch = batch};
  }
};

/// C computed from its definition; -1 in the gaps between its elements.
template <class T>
std::vector<float> expected(const Gemm& g, const std::vector<T>& a, const std::vector<T>& b,
                            std::size_t size) {
  std::vector<float> c(size, -1);
  for (int i = 0; i < g.batch; ++i) {
    for (int row = 0; row < g.m; ++row) {
      for (int col = 0; col < g.n; ++col) {
        double sum = 0;
        for (int inner = 0; inner < g.k; ++inner) {
          const auto at_a =
              i * g.stride_a + (g.transa == CUBLAS_OP_N ? row + inner * g.lda : inner + row * g.lda);
          const auto at_b =
              i * g.stride_b + (g.transb == CUBLAS_OP_N ? inner + col * g.ldb : col + inner * g.ldb);
          sum += double(float(a[std::size_t(at_a)])) * double(float(b[std::size_t(at_b)]));
        }
        c[std::size_t(i * g.stride_c + row + col * g.ldc)] = float(T(float(g.alpha * sum)));
      }
    }
  }
  return c;
}

template <class T>
std::vector<T> random_values(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(size);
  for (T& value : values) value = T(float(int(random() % 64)) / 16 - 2);  // few digits: products are exact
  return values;
}

std::size_t elements(int batch, long long stride) { return std::size_t(batch * stride); }

cublasStatus_t sgemm(cublasHandle_t handle, const Gemm& g, const float* a, const float* b, float* c) {
  return cublasSgemmStridedBatched(handle, g.transa, g.transb, g.m, g.n, g.k, &g.alpha, a, g.lda, g.stride_a,
                                   b, g.ldb, g.stride_b, &g.beta, c, g.ldc, g.stride_c, g.batch);
}

template <class T>
cublasStatus_t gemm_ex(cublasHandle_t handle, const Gemm& g, cudaDataType type, const T* a, const T* b, T* c,
                       cublasComputeType_t compute = CUBLAS_COMPUTE_32F) {
  return cublasGemmStridedBatchedEx(handle, g.transa, g.transb, g.m, g.n, g.k, &g.alpha, a, type, g.lda,
                                    g.stride_a, b, type, g.ldb, g.stride_b, &g.beta, c, type, g.ldc,
                                    g.stride_c, g.batch, compute, CUBLAS_GEMM_DEFAULT);
}

constexpr cublasOperation_t kOperations[] = {CUBLAS_OP_N, CUBLAS_OP_T};

TEST_F(Cublas, MultipliesWithAndWithoutTransposes) {
  for (const cublasOperation_t transa : kOperations) {
    for (const cublasOperation_t transb : kOperations) {
      Gemm g = Gemm::dense(transa, transb, 5, 7, 3, 4);
      g.alpha = 0.5f;
      const auto a = random_values<float>(elements(4, g.stride_a), 1),
                 b = random_values<float>(elements(4, g.stride_b), 2);
      const Buffer<float> in_a("a", a), in_b("b", b), out("c", elements(4, g.stride_c));
      ASSERT_EQ(sgemm(handle, g, in_a, in_b, out), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(out.host(), expected(g, a, b, elements(4, g.stride_c))) << transa << ' ' << transb;
    }
  }
}

TEST_F(Cublas, LeavesGapsBetweenColumnsAndMatricesAlone) {
  const Gemm g{.transa = CUBLAS_OP_T,
               .m = 5,
               .n = 2,
               .k = 3,
               .lda = 4,
               .ldb = 6,
               .ldc = 9,
               .stride_a = 30,
               .stride_b = 20,
               .stride_c = 25,
               .batch = 3};
  const auto a = random_values<float>(90, 1), b = random_values<float>(60, 2);
  const Buffer<float> in_a("a", a), in_b("b", b);
  const Buffer<float> out("c", std::vector<float>(75, -1));
  ASSERT_EQ(sgemm(handle, g, in_a, in_b, out), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(out.host(), expected(g, a, b, 75));
  const gpusim::Report report = gpusim::take_report();
  EXPECT_EQ(report.tensors.at("a").read_bytes, 3 * 5 * 3 * 4);
  EXPECT_EQ(report.tensors.at("b").read_bytes, 3 * 3 * 2 * 4);
  EXPECT_EQ(report.tensors.at("c").write_bytes, 3 * 5 * 2 * 4);
  EXPECT_EQ(report.tensors.at("c").read_bytes, 0);
}

template <class T>
void expect_sixteen_bits(cublasHandle_t handle, cudaDataType type) {
  const Gemm g = Gemm::dense(CUBLAS_OP_T, CUBLAS_OP_N, 6, 4, 50, 2);
  const auto a = random_values<T>(elements(2, g.stride_a), 1),
             b = random_values<T>(elements(2, g.stride_b), 2);
  const Buffer<T> in_a("a", a), in_b("b", b), out("c", elements(2, g.stride_c));
  gpusim::take_report();
  ASSERT_EQ(gemm_ex<T>(handle, g, type, in_a, in_b, out), CUBLAS_STATUS_SUCCESS);
  const std::vector<T> c = out.host();
  EXPECT_EQ(std::vector<float>(c.begin(), c.end()), expected(g, a, b, c.size()));
  const gpusim::Report report = gpusim::take_report();
  EXPECT_EQ(report.tensors.at("a").read_bytes, 2 * 6 * 50 * 2);
  EXPECT_EQ(report.tensors.at("c").write_bytes, 2 * 6 * 4 * 2);
}

TEST_F(Cublas, SumsSixteenBitTypesInFp32) {
  expect_sixteen_bits<Eigen::half>(handle, CUDA_R_16F);
  expect_sixteen_bits<Eigen::bfloat16>(handle, CUDA_R_16BF);
}

TEST_F(Cublas, ReadingWhatNothingHasWrittenIsADefect) {
  const Gemm g = Gemm::dense(CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4);
  const auto a = Buffer<float>::zeros("a", 16);
  const Buffer<float> b("b", 16), c("c", 16);
  EXPECT_EQ(sgemm(handle, g, a, b, c), CUBLAS_STATUS_SUCCESS);
  const gpusim::Report report = gpusim::take_report();
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(report.defects[0].kind, gpusim::DefectKind::kUninitializedRead);
  EXPECT_NE(report.defects[0].message.find("by cublasSgemmStridedBatched"), std::string::npos);
  EXPECT_NE(report.defects[0].message.find("byte 0 of \"b\""), std::string::npos);
}

TEST_F(Cublas, AMatrixBeyondItsAllocationFails) {
  const Gemm g = Gemm::dense(CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, 2);
  const auto a = Buffer<float>::zeros("a", 32), b = Buffer<float>::zeros("b", 31);
  const Buffer<float> c("c", 32);
  EXPECT_EQ(sgemm(handle, g, a, b, c), CUBLAS_STATUS_EXECUTION_FAILED);
  const gpusim::Report report = gpusim::take_report();
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(report.defects[0].kind, gpusim::DefectKind::kOutOfBounds);
}

TEST_F(Cublas, RefusesWhatItDoesNotCompute) {
  const auto a = Buffer<float>::zeros("a", 64), b = Buffer<float>::zeros("b", 64),
             c = Buffer<float>::zeros("c", 64);
  const Gemm good = Gemm::dense(CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, 2);
  const auto status = [&](auto change) {
    Gemm g = good;
    change(g);
    return sgemm(handle, g, a, b, c);
  };
  EXPECT_EQ(status([](Gemm&) {}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(status([](Gemm& g) { g.beta = 1; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(status([](Gemm& g) { g.transa = CUBLAS_OP_C; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(status([](Gemm& g) { g.stride_a = 0; }), CUBLAS_STATUS_SUCCESS)
      << "one matrix for the whole batch";
  EXPECT_EQ(status([](Gemm& g) { g.stride_c = 15; }), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status([](Gemm& g) { g.lda = 3; }), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status([](Gemm& g) { g.ldc = 3; }), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status([](Gemm& g) { g.m = -1; }), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(sgemm(nullptr, good, a, b, c), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(gemm_ex<float>(handle, good, CUDA_R_32F, a, b, c), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(gemm_ex<float>(handle, good, CUDA_R_32F, a, b, c, cublasComputeType_t(7)),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace gpusim_test
