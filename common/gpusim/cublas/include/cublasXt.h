/// @file
/// The simulator's <cublasXt.h>: products of matrices in the host's memory. The library copies them to its
/// devices, of which there is one here.
#pragma once

#include <cublas_v2.h>

struct cublasXtContext {
  cublasHandle_t handle = nullptr;
  int block_size = 2048;
};
using cublasXtHandle_t = cublasXtContext*;
enum cublasXtPinnedMemMode_t { CUBLASXT_PINNING_DISABLED = 0, CUBLASXT_PINNING_ENABLED = 1 };

inline cublasStatus_t cublasXtCreate(cublasXtHandle_t* handle) {
  *handle = new cublasXtContext;
  return cublasCreate(&(*handle)->handle);
}
inline cublasStatus_t cublasXtDestroy(cublasXtHandle_t handle) {
  const cublasStatus_t status = cublasDestroy(handle->handle);
  delete handle;
  return status;
}
inline cublasStatus_t cublasXtDeviceSelect(cublasXtHandle_t, int count, const int* devices) {
  for (int i = 0; i < count; ++i) {
    if (devices[i] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  return count < 1 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasXtSetBlockDim(cublasXtHandle_t handle, int size) {
  if (size < 1) return CUBLAS_STATUS_INVALID_VALUE;
  handle->block_size = size;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasXtGetBlockDim(cublasXtHandle_t handle, int* size) {
  *size = handle->block_size;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasXtSetPinningMemMode(cublasXtHandle_t, cublasXtPinnedMemMode_t) {
  return CUBLAS_STATUS_SUCCESS;
}

namespace gpusim::cublas_xt {

/// A matrix on the device, copied from where it is.
template <class T>
class OnDevice {
 public:
  OnDevice(const T* matrix, size_t rows, size_t columns, size_t ld)
      : rows_(rows), columns_(columns), ld_(ld) {
    cudaMalloc(reinterpret_cast<void**>(&data), rows * columns * sizeof(T));
    if (matrix != nullptr) copy(data, rows, matrix, ld);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data); }
  void copy_to(T* matrix) const { copy(matrix, ld_, data, rows_); }

  T* data = nullptr;

 private:
  void copy(T* to, size_t to_ld, const T* from, size_t from_ld) const {
    cudaMemcpy2D(to, to_ld * sizeof(T), from, from_ld * sizeof(T), rows_ * sizeof(T), columns_,
                 cudaMemcpyDefault);
  }
  size_t rows_, columns_, ld_;
};

template <class T, class Gemm>
cublasStatus_t gemm(cublasXtHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, size_t m, size_t n,
                    size_t k, const T* alpha, const T* a, size_t lda, const T* b, size_t ldb, const T* beta,
                    T* c, size_t ldc, Gemm&& product) {
  const OnDevice<T> a_there(a, ta == CUBLAS_OP_N ? m : k, ta == CUBLAS_OP_N ? k : m, lda);
  const OnDevice<T> b_there(b, tb == CUBLAS_OP_N ? k : n, tb == CUBLAS_OP_N ? n : k, ldb);
  const OnDevice<T> c_there(*beta == T(0) ? nullptr : c, m, n, ldc);
  const cublasStatus_t status = product(handle->handle, ta, tb, int(m), int(n), int(k), alpha, a_there.data,
                                        int(ta == CUBLAS_OP_N ? m : k), b_there.data,
                                        int(tb == CUBLAS_OP_N ? k : n), beta, c_there.data, int(m));
  if (status == CUBLAS_STATUS_SUCCESS) c_there.copy_to(c);
  return status;
}

}  // namespace gpusim::cublas_xt

inline cublasStatus_t cublasXtSgemm(cublasXtHandle_t handle, cublasOperation_t transa,
                                    cublasOperation_t transb, size_t m, size_t n, size_t k,
                                    const float* alpha, const float* A, size_t lda, const float* B,
                                    size_t ldb, const float* beta, float* C, size_t ldc) {
  return gpusim::cublas_xt::gemm(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc,
                                 cublasSgemm);
}
inline cublasStatus_t cublasXtDgemm(cublasXtHandle_t handle, cublasOperation_t transa,
                                    cublasOperation_t transb, size_t m, size_t n, size_t k,
                                    const double* alpha, const double* A, size_t lda, const double* B,
                                    size_t ldb, const double* beta, double* C, size_t ldc) {
  return gpusim::cublas_xt::gemm(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc,
                                 cublasDgemm);
}
