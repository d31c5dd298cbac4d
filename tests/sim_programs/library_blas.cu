// verdict: clean
// flags: -lcublas -lcublasLt
// Vectors, triangles, batches and an epilogue: what cuBLAS has besides GEMM.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cmath>
#include <cstdio>
#include <vector>
#define OK(x)                                                      \
  do {                                                             \
    cublasStatus_t s = (x);                                        \
    if (s) {                                                       \
      printf("line %d: %s\n", __LINE__, cublasGetStatusString(s)); \
      return 1;                                                    \
    }                                                              \
  } while (0)
template <class T>
T* up(const std::vector<T>& v) {
  T* p;
  cudaMalloc(&p, v.size() * sizeof(T));
  cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
  return p;
}
template <class T>
std::vector<T> down(const T* p, size_t n) {
  std::vector<T> v(n);
  cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost);
  return v;
}
int bad = 0;
void check(const char* what, double a, double b) {
  if (!(std::fabs(a - b) <= 1e-4 * (1 + std::fabs(b)))) {
    printf("%s: %g, not %g\n", what, a, b);
    ++bad;
  }
}
int main() {
  cublasHandle_t h;
  OK(cublasCreate(&h));
  const int n = 5, m = 4, k = 3;
  std::vector<float> A(m * k), B(k * n), C(m * n, 1.0f), x(n), y(m);
  for (int i = 0; i < m * k; ++i) A[i] = i - 3;
  for (int i = 0; i < k * n; ++i) B[i] = 2 * i - 7;
  for (int i = 0; i < n; ++i) x[i] = i - 2.5f;
  for (int i = 0; i < m; ++i) y[i] = i;
  float *a = up(A), *b = up(B), *c = up(C), *dx = up(x), *dy = up(y);
  float one = 1, two = 2, half = 0.5f;
  OK(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &two, a, m, b, k, &half, c, m));
  auto r = down(c, m * n);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double s = 0;
      for (int l = 0; l < k; ++l) s += A[i + l * m] * B[l + j * k];
      check("gemm", r[i + j * m], 2 * s + 0.5);
    }
  OK(cublasSgemv(h, CUBLAS_OP_T, m, n, &one, c, m, dy, 1, &two, dx, 1));
  auto rx = down(dx, n);
  for (int j = 0; j < n; ++j) {
    double s = 0;
    for (int i = 0; i < m; ++i) s += r[i + j * m] * y[i];
    check("gemv", rx[j], s + 2 * x[j]);
  }
  float dot, nrm, asum;
  int imax, imin;
  OK(cublasSdot(h, n, dx, 1, dx, 1, &dot));
  OK(cublasSnrm2(h, n, dx, 1, &nrm));
  OK(cublasSasum(h, n, dx, 1, &asum));
  OK(cublasIsamax(h, n, dx, 1, &imax));
  OK(cublasIsamin(h, n, dx, 1, &imin));
  check("nrm2", nrm * nrm, dot);
  OK(cublasSscal(h, n, &two, dx, 1));
  OK(cublasSaxpy(h, m, &two, dy, 1, dx, 1));
  check("axpy", down(dx, n)[1], 2 * rx[1] + 2 * y[1]);
  // device pointer mode
  float* dres;
  cudaMalloc(&dres, 4);
  OK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
  OK(cublasSdot(h, m, dy, 1, dy, 1, dres));
  OK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
  check("dot", down(dres, 1)[0], 14);
  // trsm: L * X = B
  std::vector<double> L = {2, 1, 3, 0, 4, 5, 0, 0, 6}, R = {2, 5, 14, 4, 14, 45};
  double *l = up(L), *rr = up(R), d1 = 1;
  OK(cublasDtrsm(h, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, 3, 2, &d1, l,
                 3, rr, 3));
  auto X = down(rr, 6);
  check("trsm", X[0], 1);
  check("trsm", X[1], 1);
  check("trsm", X[2], 1);
  check("trsm", X[3], 2);
  check("trsm", X[4], 3);
  check("trsm", X[5], 4);
  // B * L^T
  std::vector<double> Q = {1, 2, 3, 4, 5, 6};
  double* q = up(Q);
  OK(cublasDtrsm(h, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, CUBLAS_DIAG_NON_UNIT, 2, 3, &d1,
                 l, 3, q, 2));
  OK(cublasDtrmm(h, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, CUBLAS_DIAG_NON_UNIT, 2, 3, &d1,
                 l, 3, q, 2, q, 2));
  auto q2 = down(q, 6);
  for (int i = 0; i < 6; ++i) check("trmm", q2[i], Q[i]);
  float* t;
  cudaMalloc(&t, m * n * 4);
  float zero = 0;
  OK(cublasSgeam(h, CUBLAS_OP_T, CUBLAS_OP_N, n, m, &one, c, m, &zero, (float*)nullptr, n, t, n));
  check("geam", down(t, m * n)[1], r[m]);
  OK(cublasSger(h, m, n, &one, dy, 1, dx, 1, c, m));
  // gemmEx with halves, and batched
  std::vector<__half> H(16);
  for (int i = 0; i < 16; ++i) H[i] = __float2half(i);
  __half* hh = up(H);
  float* f;
  cudaMalloc(&f, 64);
  OK(cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, hh, CUDA_R_16F, 4, hh, CUDA_R_16F, 4, &zero, f,
                  CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP));
  check("gemmEx", down(f, 1)[0], 0 * 0 + 4 * 1 + 8 * 2 + 12 * 3);
  std::vector<float*> pa = {a, a}, pb = {b, b};
  float* c2;
  cudaMalloc(&c2, 2 * m * n * 4);
  std::vector<float*> pc = {c2, c2 + m * n};
  float **ppa = up(pa), **ppb = up(pb), **ppc = up(pc);
  OK(cublasSgemmBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, ppa, m, ppb, k, &zero, ppc, m, 2));
  auto bb = down(c2, 2 * m * n);
  check("batched", bb[m * n + 3], bb[3]);
  // cublasLt: D = relu(A * B + bias)
  cublasLtHandle_t lt;
  OK(cublasLtCreate(&lt));
  cublasLtMatmulDesc_t desc;
  OK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  cublasLtEpilogue_t e = CUBLASLT_EPILOGUE_RELU_BIAS;
  OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e));
  OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &dy, sizeof dy));
  cublasLtMatrixLayout_t la, lb, lc;
  OK(cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, m, k, m));
  OK(cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, k, n, k));
  OK(cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, m, n, m));
  cublasLtMatmulPreference_t pref;
  OK(cublasLtMatmulPreferenceCreate(&pref));
  cublasLtMatmulHeuristicResult_t heur;
  int got = 0;
  OK(cublasLtMatmulAlgoGetHeuristic(lt, desc, la, lb, lc, lc, pref, 1, &heur, &got));
  OK(cublasLtMatmul(lt, desc, &one, a, la, b, lb, &zero, c2, lc, c2, lc, &heur.algo, nullptr, 0, 0));
  auto rl = down(c2, m * n);
  for (int i = 0; i < m * n; ++i) check("lt", rl[i], std::fmax(0.0, bb[i] + y[i % m]));
  printf(bad ? "FAILED\n" : "PASSED\n");
  cublasDestroy(h);
  return bad != 0;
}
