// Adds up each 128 numbers of an array. A barrier is missing.
#include <cstdio>
#include <vector>

__global__ void block_sums(const float* x, float* sums, int n) {
  __shared__ float tile[128];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.0f;
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int k = 0; k < 128; ++k) sum += tile[k];
    sums[blockIdx.x] = sum;
  }
}

int main() {
  const int n = 1000, blocks = (n + 127) / 128;
  std::vector<float> ones(n, 1.0f), sums(blocks);
  float *d_x, *d_sums;
  cudaMalloc(&d_x, n * sizeof(float));
  cudaMalloc(&d_sums, blocks * sizeof(float));
  cudaMemcpy(d_x, ones.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  block_sums<<<blocks, 128>>>(d_x, d_sums, n);
  cudaMemcpy(sums.data(), d_sums, blocks * sizeof(float), cudaMemcpyDeviceToHost);
  for (float sum : sums) printf("%g ", sum);
  printf("\n");
}
