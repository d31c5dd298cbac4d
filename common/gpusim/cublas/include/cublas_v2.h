/// @file
/// The simulator's <cublas_v2.h>: vectors, matrix-vector products and GEMMs, as the library has them.
///
/// The host computes them. Their traffic is counted as the minimum: each element of an operand is read once,
/// each element of the result is written once, and read if it is added to. The kernels of cuBLAS divide C
/// into tiles and read A and B again for each tile, so the counters on a GPU are higher.
///
/// Names and numbers are those of cuBLAS, and so is column-major order: element (row, column) of a matrix is
/// at [row + column * ld]. Whatever is not supported here returns CUBLAS_STATUS_NOT_SUPPORTED: matrices of a
/// batch that overlap where they are written, types that are not listed. TF32 is computed in fp32. There are
/// no complex numbers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <library_types.h>

struct cublasContext;
using cublasHandle_t = cublasContext*;

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16,
};

enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2, CUBLAS_OP_HERMITAN = 2 };
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_FILL_MODE_FULL = 2 };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 };

enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
};

enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_16F_PEDANTIC = 65,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71,
  CUBLAS_COMPUTE_32I = 72,
  CUBLAS_COMPUTE_32I_PEDANTIC = 73,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum cublasGemmAlgo_t {
  CUBLAS_GEMM_DFALT = -1,
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_GEMM_ALGO0 = 0,
  CUBLAS_GEMM_ALGO1 = 1,
  CUBLAS_GEMM_ALGO2 = 2,
  CUBLAS_GEMM_ALGO3 = 3,
  CUBLAS_GEMM_ALGO23 = 23,
  CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
  CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
  CUBLAS_GEMM_ALGO0_TENSOR_OP = 100,
  CUBLAS_GEMM_ALGO15_TENSOR_OP = 115,
};
using cublasDataType_t = cudaDataType;

#define CUBLAS_VER_MAJOR 12
#define CUBLAS_VER_MINOR 8
#define CUBLAS_VERSION 120800

extern "C" {

const char* cublasGetStatusString(cublasStatus_t status);
const char* cublasGetStatusName(cublasStatus_t status);

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode);

// Copies between host and device.
cublasStatus_t cublasSetVector(int n, int elemSize, const void* x, int incx, void* y, int incy);
cublasStatus_t cublasGetVector(int n, int elemSize, const void* x, int incx, void* y, int incy);
cublasStatus_t cublasSetMatrix(int rows, int cols, int elemSize, const void* A, int lda, void* B, int ldb);
cublasStatus_t cublasGetMatrix(int rows, int cols, int elemSize, const void* A, int lda, void* B, int ldb);
cublasStatus_t cublasSetVectorAsync(int n, int elemSize, const void* x, int incx, void* y, int incy,
                                    cudaStream_t stream);
cublasStatus_t cublasGetVectorAsync(int n, int elemSize, const void* x, int incx, void* y, int incy,
                                    cudaStream_t stream);
cublasStatus_t cublasSetMatrixAsync(int rows, int cols, int elemSize, const void* A, int lda, void* B,
                                    int ldb, cudaStream_t stream);
cublasStatus_t cublasGetMatrixAsync(int rows, int cols, int elemSize, const void* A, int lda, void* B,
                                    int ldb, cudaStream_t stream);

// For float (S) and double (D). alpha, beta and results are on the host, or on the device in that pointer
// mode.
#define GPUSIM_CUBLAS(S, s, T)                                                                               \
  cublasStatus_t cublas##S##axpy(cublasHandle_t, int n, const T* alpha, const T* x, int incx, T* y,          \
                                 int incy);                                                                  \
  cublasStatus_t cublas##S##copy(cublasHandle_t, int n, const T* x, int incx, T* y, int incy);               \
  cublasStatus_t cublas##S##swap(cublasHandle_t, int n, T* x, int incx, T* y, int incy);                     \
  cublasStatus_t cublas##S##scal(cublasHandle_t, int n, const T* alpha, T* x, int incx);                     \
  cublasStatus_t cublas##S##rot(cublasHandle_t, int n, T* x, int incx, T* y, int incy, const T* c,           \
                                const T* sine);                                                              \
  cublasStatus_t cublas##S##dot(cublasHandle_t, int n, const T* x, int incx, const T* y, int incy,           \
                                T* result);                                                                  \
  cublasStatus_t cublas##S##nrm2(cublasHandle_t, int n, const T* x, int incx, T* result);                    \
  cublasStatus_t cublas##S##asum(cublasHandle_t, int n, const T* x, int incx, T* result);                    \
  cublasStatus_t cublasI##s##amax(cublasHandle_t, int n, const T* x, int incx, int* result);                 \
  cublasStatus_t cublasI##s##amin(cublasHandle_t, int n, const T* x, int incx, int* result);                 \
  cublasStatus_t cublas##S##gemv(cublasHandle_t, cublasOperation_t trans, int m, int n, const T* alpha,      \
                                 const T* A, int lda, const T* x, int incx, const T* beta, T* y, int incy);  \
  cublasStatus_t cublas##S##ger(cublasHandle_t, int m, int n, const T* alpha, const T* x, int incx,          \
                                const T* y, int incy, T* A, int lda);                                        \
  cublasStatus_t cublas##S##symv(cublasHandle_t, cublasFillMode_t, int n, const T* alpha, const T* A,        \
                                 int lda, const T* x, int incx, const T* beta, T* y, int incy);              \
  cublasStatus_t cublas##S##trsv(cublasHandle_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t,      \
                                 int n, const T* A, int lda, T* x, int incx);                                \
  cublasStatus_t cublas##S##trmv(cublasHandle_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t,      \
                                 int n, const T* A, int lda, T* x, int incx);                                \
  cublasStatus_t cublas##S##gemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,  \
                                 const T* alpha, const T* A, int lda, const T* B, int ldb, const T* beta,    \
                                 T* C, int ldc);                                                             \
  cublasStatus_t cublas##S##gemmBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,  \
                                        int k, const T* alpha, const T* const A[], int lda,                  \
                                        const T* const B[], int ldb, const T* beta, T* const C[], int ldc,   \
                                        int batchCount);                                                     \
  cublasStatus_t cublas##S##gemmStridedBatched(                                                              \
      cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const T* alpha, const T* A, \
      int lda, long long strideA, const T* B, int ldb, long long strideB, const T* beta, T* C, int ldc,      \
      long long strideC, int batchCount);                                                                    \
  cublasStatus_t cublas##S##symm(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, int m, int n,           \
                                 const T* alpha, const T* A, int lda, const T* B, int ldb, const T* beta,    \
                                 T* C, int ldc);                                                             \
  cublasStatus_t cublas##S##syrk(cublasHandle_t, cublasFillMode_t, cublasOperation_t, int n, int k,          \
                                 const T* alpha, const T* A, int lda, const T* beta, T* C, int ldc);         \
  cublasStatus_t cublas##S##trsm(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,      \
                                 cublasDiagType_t, int m, int n, const T* alpha, const T* A, int lda, T* B,  \
                                 int ldb);                                                                   \
  cublasStatus_t cublas##S##trmm(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,      \
                                 cublasDiagType_t, int m, int n, const T* alpha, const T* A, int lda,        \
                                 const T* B, int ldb, T* C, int ldc);                                        \
  cublasStatus_t cublas##S##geam(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,         \
                                 const T* alpha, const T* A, int lda, const T* beta, const T* B, int ldb,    \
                                 T* C, int ldc);                                                             \
  cublasStatus_t cublas##S##dgmm(cublasHandle_t, cublasSideMode_t, int m, int n, const T* A, int lda,        \
                                 const T* x, int incx, T* C, int ldc);
GPUSIM_CUBLAS(S, s, float)
GPUSIM_CUBLAS(D, d, double)
#undef GPUSIM_CUBLAS

/// C = alpha * op(A) * op(B) + beta * C in fp16: sums are fp32 and are rounded once.
cublasStatus_t cublasHgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                           int n, int k, const __half* alpha, const __half* A, int lda, const __half* B,
                           int ldb, const __half* beta, __half* C, int ldc);
cublasStatus_t cublasHgemmBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                  int m, int n, int k, const __half* alpha, const __half* const A[], int lda,
                                  const __half* const B[], int ldb, const __half* beta, __half* const C[],
                                  int ldc, int batchCount);
cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k, const __half* alpha,
                                         const __half* A, int lda, long long strideA, const __half* B,
                                         int ldb, long long strideB, const __half* beta, __half* C, int ldc,
                                         long long strideC, int batchCount);

/// The same for matrices that each have a type of their own. alpha and beta have that of the computation.
cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                             int n, int k, const float* alpha, const void* A, cudaDataType Atype, int lda,
                             const void* B, cudaDataType Btype, int ldb, const float* beta, void* C,
                             cudaDataType Ctype, int ldc);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                            int n, int k, const void* alpha, const void* A, cudaDataType Atype, int lda,
                            const void* B, cudaDataType Btype, int ldb, const void* beta, void* C,
                            cudaDataType Ctype, int ldc, cublasComputeType_t computeType,
                            cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                   int m, int n, int k, const void* alpha, const void* const A[],
                                   cudaDataType Atype, int lda, const void* const B[], cudaDataType Btype,
                                   int ldb, const void* beta, void* const C[], cudaDataType Ctype, int ldc,
                                   int batchCount, cublasComputeType_t computeType, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k, const void* alpha,
                                          const void* A, cudaDataType Atype, int lda, long long strideA,
                                          const void* B, cudaDataType Btype, int ldb, long long strideB,
                                          const void* beta, void* C, cudaDataType Ctype, int ldc,
                                          long long strideC, int batchCount, cublasComputeType_t computeType,
                                          cublasGemmAlgo_t algo);

}  // extern "C"

// The old names of versions.
#define cublasCreate_v2 cublasCreate
#define cublasDestroy_v2 cublasDestroy
#define cublasSetStream_v2 cublasSetStream
#define cublasSgemm_v2 cublasSgemm
#define cublasDgemm_v2 cublasDgemm

/// The type of the computation as a type of elements: of older versions.
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                   int m, int n, int k, const void* alpha, const void* A, cudaDataType Atype,
                                   int lda, const void* B, cudaDataType Btype, int ldb, const void* beta,
                                   void* C, cudaDataType Ctype, int ldc, cudaDataType computeType,
                                   cublasGemmAlgo_t algo) {
  const cublasComputeType_t type = computeType == CUDA_R_64F   ? CUBLAS_COMPUTE_64F
                                   : computeType == CUDA_R_16F ? CUBLAS_COMPUTE_16F
                                   : computeType == CUDA_R_32I ? CUBLAS_COMPUTE_32I
                                                               : CUBLAS_COMPUTE_32F;
  return cublasGemmEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype,
                      ldc, type, algo);
}
