// verdict: race at line 14 or 15
// Two reductions use the same temporary storage, and no barrier separates them.
#include <cub/block/block_reduce.cuh>
#include <cstdio>

constexpr int kThreads = 128;

__global__ void sum_and_max(const int* in, int* out) {
  typedef cub::BlockReduce<int, kThreads> Reduce;
  __shared__ typename Reduce::TempStorage temp;
  const int x = in[blockIdx.x * kThreads + threadIdx.x];
  int sum, most;
  // each thread of the block takes part in both
  sum = Reduce(temp).Sum(x);
  most = Reduce(temp).Reduce(x, cub::Max());
  if (threadIdx.x == 0) {
    out[2 * blockIdx.x] = sum;
    out[2 * blockIdx.x + 1] = most;
  }
}

int main() {
  int host[2 * kThreads], *in, *out, result[4];
  for (int i = 0; i < 2 * kThreads; ++i) host[i] = i;
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&out, sizeof result);
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  sum_and_max<<<2, kThreads>>>(in, out);
  cudaMemcpy(result, out, sizeof result, cudaMemcpyDeviceToHost);
  printf("%d %d\n", result[0], result[1]);
  cudaFree(in);
  cudaFree(out);
  return 0;
}
