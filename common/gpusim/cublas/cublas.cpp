#include <cublas_v2.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/host_memory.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

/// The matrices of one operand: column-major, one of them every `stride` elements.
template <class Pointer>
struct Operand {
  Pointer data;
  std::int64_t rows, cols, ld, stride;

  bool has_valid_ld() const { return ld >= std::max<std::int64_t>(1, rows); }
  bool overlaps(int batch) const { return batch > 1 && stride < ld * (cols - 1) + rows; }

  /// Calls `account` for the elements of every matrix, without the gaps between matrices.
  template <class Account>
  bool each_range(int batch, Account account) const {
    constexpr std::size_t kBytes = sizeof(*data);
    bool inside = true;
    for (std::int64_t matrix = 0; matrix < batch; ++matrix) {
      Pointer first = data + matrix * stride;
      if (ld == rows) {
        inside = account(first, std::size_t(rows * cols) * kBytes) && inside;
        continue;
      }
      for (std::int64_t col = 0; col < cols; ++col) {
        inside = account(first + col * ld, std::size_t(rows) * kBytes) && inside;
      }
    }
    return inside;
  }
};

template <class T>
auto map(const Operand<T*>& operand, std::int64_t matrix) {
  using Matrix = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  using Constness = std::conditional_t<std::is_const_v<T>, const Matrix, Matrix>;
  return Eigen::Map<Constness, Eigen::Unaligned, Eigen::OuterStride<>>(
      operand.data + matrix * operand.stride, operand.rows, operand.cols, Eigen::OuterStride<>(operand.ld));
}

/// @tparam T  float, Eigen::half or Eigen::bfloat16
template <class T>
cublasStatus_t gemm(const char* routine, cublasHandle_t handle, cublasOperation_t transa,
                    cublasOperation_t transb, int m, int n, int k, const float* alpha, const T* a, int lda,
                    long long stride_a, const T* b, int ldb, long long stride_b, const float* beta, T* c,
                    int ldc, long long stride_c, int batch) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto supported = [](cublasOperation_t op) { return op == CUBLAS_OP_N || op == CUBLAS_OP_T; };
  if (!supported(transa) || !supported(transb)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || alpha == nullptr || beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool a_as_is = transa == CUBLAS_OP_N, b_as_is = transb == CUBLAS_OP_N;
  const Operand<const T*> in_a{a, a_as_is ? m : k, a_as_is ? k : m, lda, stride_a};
  const Operand<const T*> in_b{b, b_as_is ? k : n, b_as_is ? n : k, ldb, stride_b};
  const Operand<T*> out{c, m, n, ldc, stride_c};
  if (!in_a.has_valid_ld() || !in_b.has_valid_ld() || !out.has_valid_ld()) return CUBLAS_STATUS_INVALID_VALUE;
  if (*beta != 0 || k == 0 || in_a.overlaps(batch) || in_b.overlaps(batch) || out.overlaps(batch)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }

  gpusim::begin_routine(handle->stream, routine);
  const auto read = [&](const T* first, std::size_t bytes) {
    return gpusim::account_read(first, bytes, routine);
  };
  const auto write = [&](T* first, std::size_t bytes) {
    return gpusim::account_write(first, bytes, routine);
  };
  const bool a_inside = in_a.each_range(batch, read);  // check all three, even if one is outside
  const bool b_inside = in_b.each_range(batch, read);
  const bool c_inside = out.each_range(batch, write);
  if (!a_inside || !b_inside || !c_inside) return CUBLAS_STATUS_EXECUTION_FAILED;

  const gpusim::HostRuntime runtime;
  using Float = Eigen::MatrixXf;
  for (std::int64_t matrix = 0; matrix < batch; ++matrix) {
    const Float wide_a = map(in_a, matrix).template cast<float>();
    const Float wide_b = map(in_b, matrix).template cast<float>();
    Float product(m, n);
    if (a_as_is && b_as_is) product.noalias() = wide_a * wide_b;
    if (a_as_is && !b_as_is) product.noalias() = wide_a * wide_b.transpose();
    if (!a_as_is && b_as_is) product.noalias() = wide_a.transpose() * wide_b;
    if (!a_as_is && !b_as_is) product.noalias() = wide_a.transpose() * wide_b.transpose();
    map(out, matrix) = (*alpha * product).cast<T>();
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "?";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return mode == CUBLAS_TF32_TENSOR_OP_MATH ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k, const float* alpha,
                                         const float* A, int lda, long long strideA, const float* B, int ldb,
                                         long long strideB, const float* beta, float* C, int ldc,
                                         long long strideC, int batchCount) {
  return gemm(__func__, handle, transa, transb, m, n, k, alpha, A, lda, strideA, B, ldb, strideB, beta, C,
              ldc, strideC, batchCount);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k, const void* alpha,
                                          const void* A, cudaDataType Atype, int lda, long long strideA,
                                          const void* B, cudaDataType Btype, int ldb, long long strideB,
                                          const void* beta, void* C, cudaDataType Ctype, int ldc,
                                          long long strideC, int batchCount, cublasComputeType_t computeType,
                                          cublasGemmAlgo_t algo) {
  const bool sums_in_fp32 = computeType == CUBLAS_COMPUTE_32F || computeType == CUBLAS_COMPUTE_32F_PEDANTIC;
  if (Atype != Btype || Atype != Ctype || !sums_in_fp32 || algo != CUBLAS_GEMM_DEFAULT) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const char* const routine = __func__;
  const auto gemm_of = [&]<class T>(T* c) {
    return gemm(routine, handle, transa, transb, m, n, k, static_cast<const float*>(alpha),
                static_cast<const T*>(A), lda, strideA, static_cast<const T*>(B), ldb, strideB,
                static_cast<const float*>(beta), c, ldc, strideC, batchCount);
  };
  switch (Ctype) {
    case CUDA_R_32F: return gemm_of(static_cast<float*>(C));
    case CUDA_R_16F: return gemm_of(static_cast<Eigen::half*>(C));
    case CUDA_R_16BF: return gemm_of(static_cast<Eigen::bfloat16*>(C));
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
