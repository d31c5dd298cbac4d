// verdict: clean
// Atomic operations that a GPU does not have, as loops around compare-and-swap, which begin with a plain read.
#include <cfloat>
#include <cmath>
#include <cstdio>

__device__ float raise_to(float *address, float value) {
  int *bits = (int *)address;
  int old = *bits, assumed;
  while (value > __int_as_float(old)) {
    assumed = old;
    old = atomicCAS(bits, assumed, __float_as_int(value));
    if (old == assumed) break;
  }
  return __int_as_float(old);
}

__device__ double multiply_by(double *address, double factor) {
  auto *bits = (unsigned long long *)address;
  unsigned long long old = *bits;
  unsigned long long assumed;
  do {
    assumed = old;
    old = atomicCAS(bits, assumed, __double_as_longlong(factor * __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}

__global__ void visit(const float *x, int n, float *largest, double *product, int *visited, int *count) {
  __shared__ float block_largest;
  if (threadIdx.x == 0) block_largest = -FLT_MAX;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    raise_to(&block_largest, x[i]);
    multiply_by(product, i % 2 == 0 ? 2.0 : 0.5);
    const int node = i % 10;
    if (visited[node] == 0 && atomicCAS(&visited[node], 0, 1) == 0) atomicAdd(count, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) raise_to(largest, block_largest);
}

int main() {
  const int n = 700;
  float x[n], *d_x, *d_largest, largest = -FLT_MAX, want = -FLT_MAX;
  double *d_product, product = 1.0;
  int *d_visited, *d_count, count = 0;
  for (int i = 0; i < n; ++i) {
    x[i] = float(i * 37 % 501) - 250.0f;
    want = fmaxf(want, x[i]);
  }
  cudaMalloc(&d_x, sizeof(x));
  cudaMalloc(&d_largest, sizeof(float));
  cudaMalloc(&d_product, sizeof(double));
  cudaMalloc(&d_visited, 10 * sizeof(int));
  cudaMalloc(&d_count, sizeof(int));
  cudaMemcpy(d_x, x, sizeof(x), cudaMemcpyHostToDevice);
  cudaMemcpy(d_largest, &largest, sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_product, &product, sizeof(double), cudaMemcpyHostToDevice);
  cudaMemset(d_visited, 0, 10 * sizeof(int));
  cudaMemset(d_count, 0, sizeof(int));
  visit<<<(n + 127) / 128, 128>>>(d_x, n, d_largest, d_product, d_visited, d_count);
  cudaMemcpy(&largest, d_largest, sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(&product, d_product, sizeof(double), cudaMemcpyDeviceToHost);
  cudaMemcpy(&count, d_count, sizeof(int), cudaMemcpyDeviceToHost);
  printf("swap_visits: %g of %g, product %g, %d nodes\n", largest, want, product, count);
  return largest != want || product != 1.0 || count != 10;
}
