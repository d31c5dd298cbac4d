// verdict: invalid write at fill.cu line 5
#include "grid.h"
#include <cstdio>
namespace {
__global__ void kernel(const float* p, Grid g, float* sum) {
  __shared__ float s[64];
  float mine = 0;
  for (int i = threadIdx.x; i < g.size(); i += blockDim.x) mine += p[i];
  s[threadIdx.x] = mine;
  __syncthreads();
  for (int d = blockDim.x / 2; d; d /= 2) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (!threadIdx.x) *sum = s[0];
}
}
float total(const float* p, Grid g) {
  float *d, h;
  cudaMalloc(&d, sizeof(float));
  kernel<<<1, 64>>>(p, g, d);
  cudaMemcpy(&h, d, sizeof(float), cudaMemcpyDeviceToHost);
  cudaFree(d);
  return h;
}
int main() {
  Grid g{32, 8};
  float* p;
  cudaMalloc(&p, g.size() * sizeof(float));
  fill(p, g, 1.0f);
  printf("total %g, expected %g\n", total(p, g), 8 * (32 + 31 * 16.0));
  cudaFree(p);
  return 0;
}
