// verdict: clean
// Two pinned buffers in turn: the host fills one while the copy engine reads the other; events say when one is free.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add_to(const int* x, int n, long long* sum) {
  __shared__ long long in_block;
  if (threadIdx.x == 0) in_block = 0;
  __syncthreads();
  long long mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += x[i];
  atomicAdd((unsigned long long*)&in_block, (unsigned long long)mine);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd((unsigned long long*)sum, (unsigned long long)in_block);
}

int main() {
  const int n = 1500, rounds = 7;
  int *host[2], *device[2];
  long long *d_sum, *sum, expected = 0;
  cudaEvent_t copied[2], start, stop;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  for (int b = 0; b < 2; b++) {
    cudaHostAlloc(&host[b], n * sizeof(int), cudaHostAllocDefault);
    cudaMalloc(&device[b], n * sizeof(int));
    cudaEventCreateWithFlags(&copied[b], cudaEventDisableTiming);
  }
  cudaMallocHost(&sum, sizeof *sum);
  cudaMalloc(&d_sum, sizeof *d_sum);
  cudaEventRecord(start);
  cudaMemsetAsync(d_sum, 0, sizeof *d_sum, stream);
  for (int round = 0; round < rounds; round++) {
    const int b = round % 2;
    if (round >= 2) cudaEventSynchronize(copied[b]);
    for (int i = 0; i < n; i++) expected += host[b][i] = round * i % 97;
    cudaMemcpyAsync(device[b], host[b], n * sizeof(int), cudaMemcpyHostToDevice, stream);
    cudaEventRecord(copied[b], stream);
    add_to<<<3, 128, 0, stream>>>(device[b], n, d_sum);
  }
  cudaMemcpyAsync(sum, d_sum, sizeof *sum, cudaMemcpyDeviceToHost, stream);
  // of the default stream, which waits for the other one
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  const bool ok = *sum == expected;
  printf("%s\n", ok ? "right" : "wrong");
  return ok ? 0 : 1;
}
