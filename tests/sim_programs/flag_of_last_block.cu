// verdict: race at line 11
// Every block stores its own number, so that the result depends on which one is last.
#include <cstdio>
#include <vector>

__global__ void find(const int *x, int n, int wanted, int *block_with_it) {
  __shared__ bool found;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) found = false;
  __syncthreads(); if (i < n && x[i] == wanted) found = true; __syncthreads();
  if (threadIdx.x == 0 && found) *block_with_it = blockIdx.x;
}

int main() {
  const int n = 4096;
  std::vector<int> x(n);
  for (int i = 0; i < n; ++i) x[i] = i % 1000;
  int *d_x, *d_block, block = -1;
  cudaMalloc(&d_x, n * sizeof(int));
  cudaMalloc(&d_block, sizeof(int));
  cudaMemcpy(d_x, x.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(d_block, &block, sizeof(int), cudaMemcpyHostToDevice);
  find<<<n / 256, 256>>>(d_x, n, 321, d_block);
  cudaMemcpy(&block, d_block, sizeof(int), cudaMemcpyDeviceToHost);
  printf("flag_of_last_block: %d\n", block);
  return block < 0;
}
