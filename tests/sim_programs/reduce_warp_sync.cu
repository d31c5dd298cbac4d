// verdict: race at line 9 or 10 or 11 or 12 or 13
// The classic last-warp unrolling, as it was right on Kepler, and not even volatile.
#include <stdio.h>
#include <stdlib.h>

__device__ void warpReduce(int *sdata, int tid)
{
    sdata[tid] += sdata[tid + 32];
    sdata[tid] += sdata[tid + 16];
    sdata[tid] += sdata[tid + 8];
    sdata[tid] += sdata[tid + 4];
    sdata[tid] += sdata[tid + 2];
    sdata[tid] += sdata[tid + 1];
}

__global__ void reduce(int *g_idata, int *g_odata)
{
    extern __shared__ int sdata[];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    sdata[tid] = g_idata[i] + g_idata[i + blockDim.x];
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 32; s >>= 1) {
        if (tid < s) sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid < 32) warpReduce(sdata, tid);
    if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

int main()
{
    const int n = 4096, threads = 128, blocks = n / threads / 2;
    int *h = (int *)malloc(n * sizeof(int)), out[blocks], expected = 0, sum = 0;
    for (int i = 0; i < n; i++) { h[i] = i & 7; expected += h[i]; }
    int *d_in, *d_out;
    cudaMalloc((void **)&d_in, n * sizeof(int));
    cudaMalloc((void **)&d_out, blocks * sizeof(int));
    cudaMemcpy(d_in, h, n * sizeof(int), cudaMemcpyHostToDevice);
    reduce<<<blocks, threads, threads * sizeof(int)>>>(d_in, d_out);
    cudaMemcpy(out, d_out, blocks * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < blocks; i++) sum += out[i];
    printf("sum %d expected %d\n", sum, expected);
    free(h);
    cudaFree(d_in);
    cudaFree(d_out);
    return 0;
}
