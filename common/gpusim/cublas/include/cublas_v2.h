/// @file
/// The simulator's `<cublas_v2.h>`: strided batched GEMMs in fp32, and in fp16 and bf16 with sums in fp32.
///
/// The host computes them with Eigen. Their traffic is counted as the minimum for a GEMM: each element of A
/// and B is read once, each element of C is written once. The kernels of cuBLAS divide C into tiles and read
/// A and B again for each tile, so the counters on a GPU are higher.
///
/// Names and numbers are those of cuBLAS, and so is column-major order: element (row, column) of a matrix is
/// at [row + column * ld]. Whatever is not supported here returns CUBLAS_STATUS_NOT_SUPPORTED: beta other
/// than 0, CUBLAS_OP_C, matrices of a batch that overlap, TF32, other types.
#pragma once

#include <cuda_runtime_api.h>

struct cublasContext;
using cublasHandle_t = cublasContext*;

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };

enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
};

enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC = 69 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
using cudaDataType = cudaDataType_t;

extern "C" {

const char* cublasGetStatusString(cublasStatus_t status);

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);

/// C = alpha * op(A) * op(B) for each i < batchCount, with A at A + i * strideA, and so on; fp32.
/// op(A) is m x k, op(B) is k x n, C is m x n; op is the matrix itself (N) or its transpose (T).
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k, const float* alpha,
                                         const float* A, int lda, long long strideA, const float* B, int ldb,
                                         long long strideB, const float* beta, float* C, int ldc,
                                         long long strideC, int batchCount);

/// The same for matrices that are all of one type. alpha and beta are float; sums are fp32 and are rounded
/// once.
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k, const void* alpha,
                                          const void* A, cudaDataType Atype, int lda, long long strideA,
                                          const void* B, cudaDataType Btype, int ldb, long long strideB,
                                          const void* beta, void* C, cudaDataType Ctype, int ldc,
                                          long long strideC, int batchCount, cublasComputeType_t computeType,
                                          cublasGemmAlgo_t algo);

}  // extern "C"
