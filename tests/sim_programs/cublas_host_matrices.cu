// verdict: clean
// cublasXt: matrices in the host's memory, in column-major order.
#include <cmath>
#include <cstdio>
#include <cublasXt.h>
#include <vector>

int main() {
  const size_t m = 40, n = 24, k = 33, ld = 50;
  std::vector<float> a(ld * m), b(ld * n), c(ld * n, 1.0f);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 7) - 3.0f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 5) - 2.0f;
  cublasXtHandle_t handle;
  int devices[1] = {0};
  if (cublasXtCreate(&handle) != CUBLAS_STATUS_SUCCESS) return 1;
  if (cublasXtDeviceSelect(handle, 1, devices) != CUBLAS_STATUS_SUCCESS) return 1;
  cublasXtSetBlockDim(handle, 64);
  const float alpha = 2.0f, beta = 0.5f;
  // A is stored transposed: k rows and m columns.
  if (cublasXtSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha, a.data(), ld, b.data(), ld, &beta, c.data(),
                    ld) != CUBLAS_STATUS_SUCCESS)
    return 1;
  float worst = 0.0f;
  for (size_t row = 0; row < ld; ++row) {
    for (size_t column = 0; column < n; ++column) {
      float want = row < m ? 0.5f : 1.0f;
      for (size_t i = 0; row < m && i < k; ++i) want += 2.0f * a[row * ld + i] * b[column * ld + i];
      worst = fmaxf(worst, fabsf(c[column * ld + row] - want));
    }
  }
  cublasXtDestroy(handle);
  printf("cublas_host_matrices: largest error %g\n", worst);
  return worst > 1e-3f;
}
