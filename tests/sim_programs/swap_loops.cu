// verdict: clean
// Atomic operations that CUDA does not have, from compare-and-swap. Each begins with a plain read, as the guide has it.
// A node is counted by whoever visits it first.
#include <cstdio>
#include <cmath>
#include <cuda_runtime.h>

__device__ double add(double* address, double value) {
  unsigned long long int* address_as_ull = (unsigned long long int*)address;
  unsigned long long int old = *address_as_ull, assumed;
  do {
    assumed = old;
    old = atomicCAS(address_as_ull, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}

// Ends without a swap where the value is no improvement.
__device__ float lower(float* where, float value) {
  int seen = __float_as_int(*where);
  while (value < __int_as_float(seen)) {
    const int before = seen;
    seen = atomicCAS(reinterpret_cast<int*>(where), before, __float_as_int(value));
    if (seen == before) break;
  }
  return __int_as_float(seen);
}

__global__ void statistics(const float* x, int n, double* sum, float* least, unsigned* product, int* visited, int* nodes) {
  __shared__ float in_block;
  if (threadIdx.x == 0) in_block = 1e30f;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    add(sum, x[i]);
    lower(&in_block, x[i]);
    unsigned expected;
    do {
      expected = product[i % 4];
    } while (atomicCAS(&product[i % 4], expected, expected * 3) != expected);
    const int node = i % 10;
    if (visited[node] == 0 && atomicCAS(&visited[node], 0, 1) == 0) atomicAdd(nodes, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) lower(least, in_block);
}

int main() {
  const int n = 600;
  float h[n], least = 1e30f, *x, *d_least;
  double sum = 0, *d_sum;
  unsigned product[4] = {1, 1, 1, 1}, *d_product, power = 1;
  int nodes, *d_visited;  // the last of 11 is how many
  for (int i = 0; i < n; i++) h[i] = float((i * 7) % 101 + 2);
  for (int i = 0; i < n / 4; i++) power *= 3;
  cudaMalloc(&x, sizeof h);
  cudaMalloc(&d_least, sizeof least);
  cudaMalloc(&d_sum, sizeof sum);
  cudaMalloc(&d_product, sizeof product);
  cudaMalloc(&d_visited, 11 * sizeof(int));
  cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
  cudaMemcpy(d_least, &least, sizeof least, cudaMemcpyHostToDevice);
  cudaMemcpy(d_sum, &sum, sizeof sum, cudaMemcpyHostToDevice);
  cudaMemcpy(d_product, product, sizeof product, cudaMemcpyHostToDevice);
  cudaMemset(d_visited, 0, 11 * sizeof(int));
  statistics<<<(n + 127) / 128, 128>>>(x, n, d_sum, d_least, d_product, d_visited, d_visited + 10);
  cudaMemcpy(&least, d_least, sizeof least, cudaMemcpyDeviceToHost);
  cudaMemcpy(&sum, d_sum, sizeof sum, cudaMemcpyDeviceToHost);
  cudaMemcpy(product, d_product, sizeof product, cudaMemcpyDeviceToHost);
  cudaMemcpy(&nodes, d_visited + 10, sizeof nodes, cudaMemcpyDeviceToHost);
  double expected = 0;
  for (float v : h) expected += v;
  const bool ok = least == 2 && std::fabs(sum - expected) < 1e-9 && product[0] == power && product[3] == power && nodes == 10;
  printf("%s\n", ok ? "right" : "wrong");
  return ok ? 0 : 1;
}
