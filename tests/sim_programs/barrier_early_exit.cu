// verdict: divergent at line 11 or 17
// Sums of rows; threads beyond the row skip the loop, and the barriers in it.
#include <cstdio>

__global__ void rowsum(const float* m, float* out, int cols) {
  __shared__ float s[128];
  int t = threadIdx.x;
  if (t < cols) {
    s[t] = m[blockIdx.x * cols + t];
    for (int d = 64; d > 0; d /= 2) {
      __syncthreads();
      if (t < d && t + d < cols) s[t] += s[t + d];
    }
  } else {
    s[t] = 0;
  }
  __syncthreads();
  if (t == 0) out[blockIdx.x] = s[0];
}

int main() {
  const int rows = 4, cols = 100;
  float h[rows * cols], r[rows];
  for (int i = 0; i < rows * cols; ++i) h[i] = 1;
  float *m, *out;
  cudaMalloc(&m, sizeof h);
  cudaMalloc(&out, sizeof r);
  cudaMemcpy(m, h, sizeof h, cudaMemcpyHostToDevice);
  rowsum<<<rows, 128>>>(m, out, cols);
  cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
  printf("%g %g\n", r[0], r[3]);
  cudaFree(m);
  cudaFree(out);
  return 0;
}
