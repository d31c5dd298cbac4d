// verdict: clean
// flags: -lcurand
#include <cuda.h>
#include <curand.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

#define CUDA_CALL(x) do { if ((x) != cudaSuccess) { printf("Error at %s:%d\n", __FILE__, __LINE__); return EXIT_FAILURE; } } while (0)
#define CURAND_CALL(x) do { if ((x) != CURAND_STATUS_SUCCESS) { printf("Error at %s:%d\n", __FILE__, __LINE__); return EXIT_FAILURE; } } while (0)

__global__ void moments(const float *x, int n, double *out)
{
  double s = 0, q = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    s += x[i];
    q += (double)x[i] * x[i];
  }
  atomicAdd(out, s);
  atomicAdd(out + 1, q);
}

int main(int argc, char *argv[])
{
  size_t n = 10000;
  curandGenerator_t gen;
  float *devData;
  double *devSums, sums[2];
  CUDA_CALL(cudaMalloc((void **)&devData, n * sizeof(float)));
  CUDA_CALL(cudaMalloc((void **)&devSums, 2 * sizeof(double)));
  CURAND_CALL(curandCreateGenerator(&gen, CURAND_RNG_PSEUDO_DEFAULT));
  CURAND_CALL(curandSetPseudoRandomGeneratorSeed(gen, 1234ULL));

  CURAND_CALL(curandGenerateUniform(gen, devData, n));
  CUDA_CALL(cudaMemset(devSums, 0, 2 * sizeof(double)));
  moments<<<4, 128>>>(devData, n, devSums);
  CUDA_CALL(cudaMemcpy(sums, devSums, sizeof sums, cudaMemcpyDeviceToHost));
  int ok = fabs(sums[0] / n - 0.5) < 0.02 && fabs(sums[1] / n - 1.0 / 3) < 0.02;

  CURAND_CALL(curandGenerateNormal(gen, devData, n, 1.0f, 2.0f));
  CUDA_CALL(cudaMemset(devSums, 0, 2 * sizeof(double)));
  moments<<<4, 128>>>(devData, n, devSums);
  CUDA_CALL(cudaMemcpy(sums, devSums, sizeof sums, cudaMemcpyDeviceToHost));
  ok = ok && fabs(sums[0] / n - 1) < 0.15 && fabs(sums[1] / n - 5) < 0.5;

  printf("moments are %s\n", ok ? "right" : "wrong");
  CURAND_CALL(curandDestroyGenerator(gen));
  CUDA_CALL(cudaFree(devData));
  CUDA_CALL(cudaFree(devSums));
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
