// verdict: clean
#include <stdlib.h>
#include <stdio.h>
#include <float.h>

#define THREADS 128
#define BLOCKS 8
#define NUM_VALS THREADS*BLOCKS

__device__ inline void compare_swap(float &a, float &b, bool up)
{
  if ((a > b) == up) { float t = a; a = b; b = t; }
}

/* stages that reach across blocks */
__global__ void bitonic_sort_step(float *dev_values, int j, int k)
{
  unsigned int i, ixj;
  i = threadIdx.x + blockDim.x * blockIdx.x;
  ixj = i ^ j;
  if ((ixj) > i) compare_swap(dev_values[i], dev_values[ixj], (i & k) == 0);
}

/* the rest of a stage inside shared memory */
__global__ void bitonic_sort_tail(float *dev_values, int j, int k)
{
  __shared__ float s[THREADS];
  unsigned int i = threadIdx.x + blockDim.x * blockIdx.x, t = threadIdx.x;
  s[t] = dev_values[i];
  __syncthreads();
  for (; j > 0; j >>= 1) {
    unsigned int o = t ^ j;
    if (o > t) compare_swap(s[t], s[o], (i & k) == 0);
    __syncthreads();
  }
  dev_values[i] = s[t];
}

int main(void)
{
  float *values = (float*) malloc( NUM_VALS * sizeof(float));
  srand(0);
  for (int i = 0; i < NUM_VALS; ++i) values[i] = (float)rand()/(float)RAND_MAX;
  float *dev_values;
  size_t size = NUM_VALS * sizeof(float);
  cudaMalloc((void**) &dev_values, size);
  cudaMemcpy(dev_values, values, size, cudaMemcpyHostToDevice);
  dim3 blocks(BLOCKS,1);
  dim3 threads(THREADS,1);
  int j, k;
  for (k = 2; k <= NUM_VALS; k <<= 1) {
    for (j=k>>1; j>=THREADS; j>>=1) {
      bitonic_sort_step<<<blocks, threads>>>(dev_values, j, k);
    }
    bitonic_sort_tail<<<blocks, threads>>>(dev_values, j, k);
  }
  cudaMemcpy(values, dev_values, size, cudaMemcpyDeviceToHost);
  cudaFree(dev_values);
  int unsorted = 0;
  for (int i = 1; i < NUM_VALS; ++i) unsorted += values[i - 1] > values[i];
  printf("%s\n", unsorted ? "not sorted" : "sorted");
  free(values);
  return unsorted;
}
