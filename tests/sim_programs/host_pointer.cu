// verdict: invalid at line 7
#include <cstdio>
#include <vector>

__global__ void scale(float* v, const float* factors, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) v[i] *= factors[i];
}

int main() {
  const int n = 128;
  std::vector<float> v(n, 2.f), factors(n, 3.f);
  float* d_v;
  cudaMalloc(&d_v, n * sizeof(float));
  cudaMemcpy(d_v, v.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  scale<<<1, n>>>(d_v, factors.data(), n);
  cudaError_t e = cudaDeviceSynchronize();
  printf("%s\n", e == cudaSuccess ? "done" : cudaGetErrorString(e));
  cudaFree(d_v);
  return 0;
}
