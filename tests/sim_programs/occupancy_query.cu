// verdict: clean
// Device properties, occupancy, function attributes, and a launch that is meant to fail.
#include <stdio.h>
#include <string.h>

__device__ int total;
__device__ float table[16];

__global__ void square(int *array, int arrayCount)
{
  extern __shared__ int dynamicSmem[];
  int idx = threadIdx.x + blockIdx.x * blockDim.x;
  if (idx < arrayCount) { dynamicSmem[threadIdx.x] = array[idx]; array[idx] *= array[idx]; atomicAdd(&total, dynamicSmem[threadIdx.x]); }
}
__global__ void scale() { table[threadIdx.x] *= 2; }

int main()
{
  int deviceCount = 0, device;
  cudaGetDeviceCount(&deviceCount);
  if (deviceCount == 0) { printf("There are no available device(s) that support CUDA\n"); return 1; }
  cudaGetDevice(&device);
  cudaDeviceProp prop;
  memset(&prop, 0, sizeof prop);
  cudaGetDeviceProperties(&prop, device);
  int bad = prop.warpSize != 32 || prop.major < 7 || prop.maxThreadsPerBlock != 1024 || prop.multiProcessorCount < 1 ||
            prop.totalGlobalMem == 0 || prop.sharedMemPerBlock < 48 * 1024 || prop.maxGridSize[0] < 65535 || !strlen(prop.name);
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  bad += runtime < 10000;
  size_t freeMem, totalMem;
  cudaMemGetInfo(&freeMem, &totalMem);
  bad += freeMem > totalMem;

  int minGridSize, blockSize, count = 1000;
  cudaOccupancyMaxPotentialBlockSize(&minGridSize, &blockSize, square, 0, count);
  blockSize = blockSize > 256 ? 256 : blockSize;
  int perSm;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perSm, square, blockSize, blockSize * sizeof(int));
  bad += perSm < 1 || minGridSize < 1 || blockSize < 32;
  struct cudaFuncAttributes attr;
  bad += cudaFuncGetAttributes(&attr, square) != cudaSuccess || attr.maxThreadsPerBlock < blockSize;

  int h[1000], *d, zero = 0, sum;
  for (int i = 0; i < count; ++i) h[i] = i;
  cudaMalloc(&d, sizeof h);
  cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
  cudaMemcpyToSymbol(total, &zero, sizeof zero);
  square<<<(count + blockSize - 1) / blockSize, blockSize, blockSize * sizeof(int)>>>(d, count);
  cudaMemcpyFromSymbol(&sum, total, sizeof sum);
  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
  bad += sum != 999 * 1000 / 2;
  for (int i = 0; i < count; ++i) bad += h[i] != i * i;

  float ht[16];
  for (int i = 0; i < 16; ++i) ht[i] = i;
  void *address;
  size_t size;
  cudaGetSymbolAddress(&address, table);
  cudaGetSymbolSize(&size, table);
  cudaMemcpy(address, ht, size, cudaMemcpyHostToDevice);
  scale<<<1, 16>>>();
  cudaMemcpyFromSymbol(ht, table, 8 * sizeof(float), 8 * sizeof(float));
  bad += size != sizeof table || ht[0] != 16;

  square<<<1, 2048>>>(d, count);  // too many threads
  cudaError_t e = cudaGetLastError();
  bad += e != cudaErrorInvalidConfiguration && e != cudaErrorInvalidValue;
  bad += cudaGetLastError() != cudaSuccess;
  printf("device query: %d problems\n", bad);
  cudaFree(d);
  return bad;
}
