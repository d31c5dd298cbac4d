// verdict: race at line 19 or 20 or 22
// Double-buffered GEMM: the next tile is loaded while this one is multiplied, but with one barrier per two tiles.
#include <cstdio>
#include <cmath>
#include <vector>
constexpr int T = 16;

__global__ void gemm(const float* A, const float* B, float* C, int n) {
  __shared__ float As[2][T][T], Bs[2][T][T];
  const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  float sum = 0;
  int cur = 0;
  As[0][ty][tx] = A[row * n + tx];
  Bs[0][ty][tx] = B[ty * n + col];
  __syncthreads();
  for (int t = 0; t < n / T; ++t) {
    const int next = t + 1;
    if (next < n / T) {
      As[cur ^ 1][ty][tx] = A[row * n + next * T + tx];
      Bs[cur ^ 1][ty][tx] = B[(next * T + ty) * n + col];
    }
    for (int k = 0; k < T; ++k) sum += As[cur][ty][k] * Bs[cur][k][tx];
    if (t % 2 == 0) __syncthreads();
    cur ^= 1;
  }
  C[row * n + col] = sum;
}

int main() {
  const int n = 64;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) { a[i] = i % 3; b[i] = i % 5; }
  float *da, *db, *dc;
  cudaMalloc(&da, n * n * 4); cudaMalloc(&db, n * n * 4); cudaMalloc(&dc, n * n * 4);
  cudaMemcpy(da, a.data(), n * n * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), n * n * 4, cudaMemcpyHostToDevice);
  gemm<<<dim3(n / T, n / T), dim3(T, T)>>>(da, db, dc, n);
  cudaMemcpy(c.data(), dc, n * n * 4, cudaMemcpyDeviceToHost);
  int bad = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      float s = 0;
      for (int k = 0; k < n; ++k) s += a[i * n + k] * b[k * n + j];
      bad += std::fabs(s - c[i * n + j]) > 1e-3f;
    }
  printf("%d of %d elements are wrong\n", bad, n * n);
  cudaFree(da); cudaFree(db); cudaFree(dc);
}
