// verdict: race at line 49
// Dot product; blocks add their parts one after the other, under a lock per block.
#include <stdio.h>
#include <stdlib.h>

#define imin(a, b) (a < b ? a : b)
const int N = 3 * 1024;
const int threadsPerBlock = 128;
const int blocksPerGrid = imin(8, (N + threadsPerBlock - 1) / threadsPerBlock);

struct Lock {
    int *mutex;
    Lock(void) {
        int state = 0;
        cudaMalloc((void **)&mutex, blocksPerGrid * sizeof(int));
        cudaMemset(mutex, state, blocksPerGrid * sizeof(int));
    }
    void release() { cudaFree(mutex); }
    __device__ void lock(void) {
        while (atomicCAS(mutex + blockIdx.x, 0, 1) != 0) ;
        __threadfence();
    }
    __device__ void unlock(void) {
        __threadfence();
        atomicExch(mutex + blockIdx.x, 0);
    }
};

__global__ void dot(Lock lock, float *a, float *b, float *c) {
    __shared__ float cache[threadsPerBlock];
    int tid = threadIdx.x + blockIdx.x * blockDim.x;
    int cacheIndex = threadIdx.x;
    float temp = 0;
    while (tid < N) {
        temp += a[tid] * b[tid];
        tid += blockDim.x * gridDim.x;
    }
    cache[cacheIndex] = temp;
    __syncthreads();
    int i = blockDim.x / 2;
    while (i != 0) {
        if (cacheIndex < i) cache[cacheIndex] += cache[cacheIndex + i];
        __syncthreads();
        i /= 2;
    }
    if (cacheIndex == 0) {
        lock.lock();
        volatile float *shared_sum = c;
        *shared_sum = *shared_sum + cache[0];
        lock.unlock();
    }
}

int main(void) {
    float *a, *b, c = 0, *dev_a, *dev_b, *dev_c;
    a = (float *)malloc(N * sizeof(float));
    b = (float *)malloc(N * sizeof(float));
    cudaMalloc((void **)&dev_a, N * sizeof(float));
    cudaMalloc((void **)&dev_b, N * sizeof(float));
    cudaMalloc((void **)&dev_c, sizeof(float));
    double want = 0;
    for (int i = 0; i < N; i++) {
        a[i] = i % 16;
        b[i] = i % 3;
        want += a[i] * b[i];
    }
    cudaMemcpy(dev_a, a, N * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dev_b, b, N * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dev_c, &c, sizeof(float), cudaMemcpyHostToDevice);
    Lock lock;
    dot<<<blocksPerGrid, threadsPerBlock>>>(lock, dev_a, dev_b, dev_c);
    cudaMemcpy(&c, dev_c, sizeof(float), cudaMemcpyDeviceToHost);
    printf("GPU %.6g, CPU %.6g\n", c, want);
    lock.release();
    cudaFree(dev_a); cudaFree(dev_b); cudaFree(dev_c);
    free(a); free(b);
    return c != want;
}
