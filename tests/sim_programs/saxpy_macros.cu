// verdict: clean
/* SAXPY three times; the launch hides in a macro, and one is spelled with spaces. */
#include <stdio.h>
#include <stdlib.h>

#define CUDA_SAFE(call)                                                          \
    do {                                                                         \
        cudaError_t err = call;                                                  \
        if (cudaSuccess != err) {                                                \
            fprintf(stderr, "Cuda error in file '%s' in line %i : %s.\n",        \
                    __FILE__, __LINE__, cudaGetErrorString(err));                \
            exit(EXIT_FAILURE);                                                  \
        }                                                                        \
    } while (0)

#define DIVUP(a, b) (((a) + (b)-1) / (b))
#define LAUNCH_1D(kernel, n, ...)                            \
    do {                                                     \
        const int threads_ = 128;                            \
        kernel<<<DIVUP(n, threads_), threads_>>>(__VA_ARGS__); \
        CUDA_SAFE(cudaGetLastError());                       \
    } while (0)

__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void fill(float *p, int n, float v)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) p[i] = v;
}

int main()
{
    const int n = 5000;
    float *d_x = NULL, *d_y = NULL;
    float* h = (float*)malloc(n * sizeof(float));
    CUDA_SAFE(cudaMalloc((void**)&d_x, n * sizeof(float)));
    CUDA_SAFE(cudaMalloc((void**)&d_y, n * sizeof(float)));

    LAUNCH_1D(fill, n, d_x, n, 1.5f);
    LAUNCH_1D(fill, n, d_y, n, 1.0f);
    LAUNCH_1D(saxpy, n, n, 2.0f, d_x, d_y);
    saxpy << < DIVUP(n, 256), 256, 0 >> > (n, 2.0f, d_x, d_y);
    saxpy <<<
        dim3(DIVUP(n, 64)), dim3(64), 0, 0
    >>> (n, 2.0f, d_x, d_y);
    CUDA_SAFE(cudaDeviceSynchronize());
    CUDA_SAFE(cudaMemcpy(h, d_y, n * sizeof(float), cudaMemcpyDeviceToHost));

    int bad = 0;
    for (int i = 0; i < n; ++i) bad += h[i] != 10.0f;
    printf("saxpy: %s\n", bad ? "FAILED" : "PASSED");
    free(h);
    CUDA_SAFE(cudaFree(d_x));
    CUDA_SAFE(cudaFree(d_y));
    return bad != 0;
}
