// verdict: clean
#include <cstdio>
#include <cstdlib>

const int nStreams = 4, blockSize = 128, n = 4 * 512, streamSize = n / nStreams;

#define CHECK_CUDA(func)                                                   \
{                                                                          \
    cudaError_t status = (func);                                           \
    if (status != cudaSuccess) {                                           \
        printf("CUDA API failed at line %d with error: %s (%d)\n",         \
               __LINE__, cudaGetErrorString(status), status);              \
        return EXIT_FAILURE;                                               \
    }                                                                      \
}

__global__ void kernel(float *a, int offset)
{
    int i = offset + threadIdx.x + blockIdx.x * blockDim.x;
    float x = (float)i;
    float s = sinf(x), c = cosf(x);
    a[i] = a[i] + sqrtf(s * s + c * c);
}

__global__ void sum_all(const float *a, int n, float *sum)
{
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += a[i];
    atomicAdd(sum, s);
}

int main()
{
    float *a, *d_a, *d_sum, sum;
    CHECK_CUDA(cudaMallocHost((void **)&a, n * sizeof(float)));
    CHECK_CUDA(cudaMalloc((void **)&d_a, n * sizeof(float)));
    CHECK_CUDA(cudaMalloc((void **)&d_sum, sizeof(float)));
    cudaStream_t stream[nStreams], last;
    cudaEvent_t done[nStreams];
    for (int i = 0; i < nStreams; ++i) {
        CHECK_CUDA(cudaStreamCreate(&stream[i]));
        CHECK_CUDA(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    }
    CHECK_CUDA(cudaStreamCreateWithFlags(&last, cudaStreamNonBlocking));
    for (int i = 0; i < n; i++) a[i] = i % 3;
    for (int i = 0; i < nStreams; ++i) {
        int offset = i * streamSize;
        CHECK_CUDA(cudaMemcpyAsync(&d_a[offset], &a[offset], streamSize * sizeof(float), cudaMemcpyHostToDevice, stream[i]));
        kernel<<<streamSize / blockSize, blockSize, 0, stream[i]>>>(d_a, offset);
        CHECK_CUDA(cudaEventRecord(done[i], stream[i]));
    }
    CHECK_CUDA(cudaMemsetAsync(d_sum, 0, sizeof(float), last));
    for (int i = 0; i < nStreams; ++i) CHECK_CUDA(cudaStreamWaitEvent(last, done[i], 0));
    sum_all<<<1, 256, 0, last>>>(d_a, n, d_sum);
    CHECK_CUDA(cudaMemcpyAsync(a, d_sum, sizeof(float), cudaMemcpyDeviceToHost, last));
    CHECK_CUDA(cudaStreamSynchronize(last));
    sum = a[0];
    float expected = n;
    for (int i = 0; i < n; i++) expected += i % 3;
    printf("sum %s\n", fabsf(sum - expected) < 0.5f ? "ok" : "wrong");
    for (int i = 0; i < nStreams; ++i) { cudaStreamDestroy(stream[i]); cudaEventDestroy(done[i]); }
    cudaStreamDestroy(last);
    cudaFree(d_a); cudaFree(d_sum);
    cudaFreeHost(a);
    return fabsf(sum - expected) < 0.5f ? EXIT_SUCCESS : EXIT_FAILURE;
}
