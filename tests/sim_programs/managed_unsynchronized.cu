// verdict: race at line 23
#include <cmath>
#include <iostream>

__global__ void add(int n, const float* x, float* y) {
  const int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = x[i] + y[i];
}

int main() {
  const int n = 1 << 12;
  float *x, *y;
  cudaMallocManaged(&x, n * sizeof(float));
  cudaMallocManaged(&y, n * sizeof(float));
  for (int i = 0; i < n; i++) {
    x[i] = 1.0f;
    y[i] = 2.0f;
  }
  add<<<(n + 255) / 256, 256>>>(n, x, y);
  // cudaDeviceSynchronize() is missing: the kernel may still be running.
  float worst = 0.0f;
  for (int i = 0; i < n; i++) {
    worst = fmaxf(worst, fabsf(y[i] - 3.0f));
  }
  std::cout << "largest error: " << worst << std::endl;
  cudaFree(x);
  cudaFree(y);
  return 0;
}
