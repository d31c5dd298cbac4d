// verdict: clean
// Pinned, mapped and registered host memory, asynchronous allocation, host callbacks, pointer attributes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>
#define CHECK(e) do { cudaError_t r = (e); if (r != cudaSuccess) { fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorName(r)); exit(1); } } while (0)

__global__ void vectorAddGPU(float *a, float *b, float *c, int N)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N) c[idx] = a[idx] + b[idx];
}

static void CUDART_CB done(void *data) { ++*(int *)data; }

int main()
{
    const int n = 1000;
    const size_t bytes = n * sizeof(float);
    CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
    float *a, *b, *c, *da, *db, *dc;
    CHECK(cudaHostAlloc((void **)&a, bytes, cudaHostAllocMapped));
    CHECK(cudaHostAlloc((void **)&b, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    c = (float *)aligned_alloc(4096, 8192);
    CHECK(cudaHostRegister(c, 8192, cudaHostRegisterMapped));
    for (int i = 0; i < n; i++) { a[i] = i; b[i] = 2 * i; c[i] = 0; }
    CHECK(cudaHostGetDevicePointer((void **)&da, a, 0));
    CHECK(cudaHostGetDevicePointer((void **)&db, (void *)b, 0));
    CHECK(cudaHostGetDevicePointer((void **)&dc, (void *)c, 0));
    vectorAddGPU<<<(n + 255) / 256, 256>>>(da, db, dc, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    int bad = 0, calls = 0;
    for (int i = 0; i < n; i++) bad += c[i] != 3 * i;

    cudaStream_t s;
    CHECK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0));
    float *pool, *out;
    CHECK(cudaMallocAsync((void **)&pool, 2 * bytes, s));
    CHECK(cudaMallocAsync(&out, bytes, s));
    CHECK(cudaMemcpyAsync(pool, a, bytes, cudaMemcpyHostToDevice, s));
    CHECK(cudaMemcpyAsync(pool + n, b, bytes, cudaMemcpyDefault, s));
    vectorAddGPU<<<(n + 127) / 128, 128, 0, s>>>(pool, pool + n, out, n);
    CHECK(cudaLaunchHostFunc(s, done, &calls));
    memset(a, 0, 0);
    CHECK(cudaMemcpyAsync(a, out, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaFreeAsync(pool, s));
    CHECK(cudaFreeAsync(out, s));
    cudaEvent_t e;
    CHECK(cudaEventCreate(&e));
    CHECK(cudaEventRecord(e, s));
    while (cudaEventQuery(e) == cudaErrorNotReady) { }
    CHECK(cudaStreamQuery(s));
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++) bad += a[i] != 3 * i;
    bad += calls != 1;

    cudaPointerAttributes attr;
    float *dev;
    CHECK(cudaMalloc(&dev, bytes));
    CHECK(cudaPointerGetAttributes(&attr, dev));
    bad += attr.type != cudaMemoryTypeDevice || attr.devicePointer != dev;
    CHECK(cudaPointerGetAttributes(&attr, a));
    bad += attr.type != cudaMemoryTypeHost;
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    bad += greatest > least;
    CHECK(cudaFuncSetCacheConfig(vectorAddGPU, cudaFuncCachePreferL1));
    CHECK(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
    printf("zero copy: %d wrong\n", bad);
    CHECK(cudaEventDestroy(e));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaHostUnregister(c));
    CHECK(cudaFreeHost(a));
    CHECK(cudaFreeHost(b));
    CHECK(cudaFree(dev));
    free(c);
    return bad;
}
