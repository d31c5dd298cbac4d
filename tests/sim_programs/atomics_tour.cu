// verdict: clean
#include <stdio.h>
#include <stdlib.h>
#include <limits.h>

#define min(a, b) (a) < (b) ? (a) : (b)
#define max(a, b) (a) > (b) ? (a) : (b)

__global__ void testKernel(int *g)
{
  const unsigned int tid = blockDim.x * blockIdx.x + threadIdx.x;
  atomicAdd(&g[0], 10);
  atomicSub(&g[1], 10);
  atomicExch(&g[2], tid);
  atomicMax(&g[3], tid);
  atomicMin(&g[4], tid);
  atomicInc((unsigned int *)&g[5], 17);
  atomicDec((unsigned int *)&g[6], 137);
  atomicCAS(&g[7], tid - 1, tid);
  atomicAnd(&g[8], 2 * tid + 7);
  atomicOr(&g[9], 1 << (tid % 31));
  atomicXor(&g[10], tid);
  atomicAdd_block(&g[11], 1);
  atomicAdd_system(&g[12], 1);
}

__global__ void wide(unsigned long long *u, float *f, double *d, unsigned short *s, float2 *f2)
{
  __shared__ float best;
  __shared__ unsigned long long pair;
  if (threadIdx.x == 0) { best = 0; pair = 0; }
  __syncthreads();
  atomicAdd(u, 1ull << 32);
  atomicMax(u + 1, (unsigned long long)threadIdx.x << 33);
  atomicExch(f, 2.5f);
  atomicAdd(f + 1, 0.5f);
  atomicAdd(d, 0.25);
  atomicCAS(s, (unsigned short)0, (unsigned short)7);
  atomicMax(&pair, ((unsigned long long)__float_as_uint(threadIdx.x * 0.5f) << 32) | threadIdx.x);  /* argmax */
  atomicAdd(&best, 1.0f);
  __syncthreads();
  if (threadIdx.x == 0) { u[2] = pair; f[2] = best; }
}

int main()
{
  const int threads = 128, blocks = 4, len = threads * blocks;
  int h[13] = {0, 0, 0, INT_MIN, INT_MAX, 0, 0, 0, 0xff, 0, 0, 0, 0}, *d;
  cudaMalloc((void **)&d, sizeof h);
  cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
  testKernel<<<blocks, threads>>>(d);
  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
  unsigned inc = 0, dec = 0;
  int x = 0, a = 0xff, o = 0;
  for (int i = 0; i < len; i++) {
    inc = inc >= 17 ? 0 : inc + 1;
    dec = dec == 0 || dec > 137 ? 137 : dec - 1;
    x ^= i; a &= 2 * i + 7; o |= 1 << (i % 31);
  }
  int bad = h[0] != 10 * len || h[1] != -10 * len || h[2] < 0 || h[2] >= len || h[3] != len - 1 || h[4] != 0 || h[5] != (int)inc ||
            h[6] != (int)dec || h[7] < 0 || h[7] >= len || h[8] != a || h[9] != o || h[10] != x || h[11] != len || h[12] != len;
  unsigned long long *u, hu[3]; float *f, hf[3]; double *dd, hd; unsigned short *s, hs; float2 *f2;
  cudaMalloc((void **)&u, sizeof hu); cudaMalloc((void **)&f, sizeof hf); cudaMalloc((void **)&dd, 8); cudaMalloc((void **)&s, 4); cudaMalloc((void **)&f2, 8);
  cudaMemset(u, 0, sizeof hu); cudaMemset(f, 0, sizeof hf); cudaMemset(dd, 0, 8); cudaMemset(s, 0, 4); cudaMemset(f2, 0, 8);
  wide<<<1, 96>>>(u, f, dd, s, f2);
  cudaMemcpy(hu, u, sizeof hu, cudaMemcpyDeviceToHost); cudaMemcpy(hf, f, sizeof hf, cudaMemcpyDeviceToHost);
  cudaMemcpy(&hd, dd, 8, cudaMemcpyDeviceToHost); cudaMemcpy(&hs, s, 2, cudaMemcpyDeviceToHost);
  bad += hu[0] != 96ull << 32 || hu[1] != 95ull << 33 || (hu[2] & 0xffffffff) != 95 || hf[0] != 2.5f || hf[1] != 48 || hf[2] != 96 || hd != 24 || hs != 7;
  printf("atomics: %s\n", bad ? "wrong" : "right");
  cudaFree(d); cudaFree(u); cudaFree(f); cudaFree(dd); cudaFree(s); cudaFree(f2);
  return bad;
}
