// verdict: clean
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <helper_cuda.h>

#define KERNEL_RADIUS 4
#define KERNEL_LENGTH (2 * KERNEL_RADIUS + 1)
#define TILE_W 32
#define TILE_H 8

__constant__ float c_Kernel[KERNEL_LENGTH];

extern "C" void setConvolutionKernel(float *h_Kernel) { cudaMemcpyToSymbol(c_Kernel, h_Kernel, KERNEL_LENGTH * sizeof(float)); }

__global__ void convolutionRows(float *d_Dst, const float *d_Src, int w, int h)
{
    __shared__ float s_Data[TILE_H][TILE_W + 2 * KERNEL_RADIUS];
    const int x0 = blockIdx.x * TILE_W, y = blockIdx.y * TILE_H + threadIdx.y;
    for (int i = threadIdx.x; i < TILE_W + 2 * KERNEL_RADIUS; i += TILE_W) {
        int x = x0 + i - KERNEL_RADIUS;
        s_Data[threadIdx.y][i] = (x >= 0 && x < w) ? d_Src[y * w + x] : 0;
    }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++) sum += c_Kernel[KERNEL_RADIUS - j] * s_Data[threadIdx.y][threadIdx.x + KERNEL_RADIUS + j];
    d_Dst[y * w + x0 + threadIdx.x] = sum;
}

__global__ void convolutionColumns(float *d_Dst, const float *d_Src, int w, int h)
{
    __shared__ float s_Data[TILE_H + 2 * KERNEL_RADIUS][TILE_W];
    const int x = blockIdx.x * TILE_W + threadIdx.x, y0 = blockIdx.y * TILE_H;
    for (int i = threadIdx.y; i < TILE_H + 2 * KERNEL_RADIUS; i += TILE_H) {
        int y = y0 + i - KERNEL_RADIUS;
        s_Data[i][threadIdx.x] = (y >= 0 && y < h) ? d_Src[y * w + x] : 0;
    }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++) sum += c_Kernel[KERNEL_RADIUS - j] * s_Data[threadIdx.y + KERNEL_RADIUS + j][threadIdx.x];
    d_Dst[(y0 + threadIdx.y) * w + x] = sum;
}

int main(int argc, char **argv)
{
    const int imageW = 96, imageH = 40;
    const size_t bytes = imageW * imageH * sizeof(float);
    int dev = findCudaDevice(argc, (const char **)argv);
    (void)dev;
    float h_Kernel[KERNEL_LENGTH];
    for (int i = 0; i < KERNEL_LENGTH; i++) h_Kernel[i] = (float)(i % 4) - 1.0f;
    float *in = (float *)malloc(bytes), *out = (float *)malloc(bytes), *tmp = (float *)malloc(bytes);
    srand(200);
    for (int i = 0; i < imageW * imageH; i++) in[i] = (float)(rand() % 16);
    float *d_Input, *d_Output, *d_Buffer;
    checkCudaErrors(cudaMalloc((void **)&d_Input, bytes));
    checkCudaErrors(cudaMalloc((void **)&d_Output, bytes));
    checkCudaErrors(cudaMalloc((void **)&d_Buffer, bytes));
    setConvolutionKernel(h_Kernel);
    checkCudaErrors(cudaMemcpy(d_Input, in, bytes, cudaMemcpyHostToDevice));
    assert(imageW % TILE_W == 0 && imageH % TILE_H == 0);
    dim3 blocks(imageW / TILE_W, imageH / TILE_H), threads(TILE_W, TILE_H);
    convolutionRows<<<blocks, threads>>>(d_Buffer, d_Input, imageW, imageH);
    getLastCudaError("convolutionRows() execution failed\n");
    convolutionColumns<<<blocks, threads>>>(d_Output, d_Buffer, imageW, imageH);
    getLastCudaError("convolutionColumns() execution failed\n");
    checkCudaErrors(cudaDeviceSynchronize());
    checkCudaErrors(cudaMemcpy(out, d_Output, bytes, cudaMemcpyDeviceToHost));
    double delta = 0;
    for (int y = 0; y < imageH; y++)
        for (int x = 0; x < imageW; x++) {
            float s = 0;
            for (int k = -KERNEL_RADIUS; k <= KERNEL_RADIUS; k++) if (x + k >= 0 && x + k < imageW) s += in[y * imageW + x + k] * h_Kernel[KERNEL_RADIUS - k];
            tmp[y * imageW + x] = s;
        }
    for (int y = 0; y < imageH; y++)
        for (int x = 0; x < imageW; x++) {
            float s = 0;
            for (int k = -KERNEL_RADIUS; k <= KERNEL_RADIUS; k++) if (y + k >= 0 && y + k < imageH) s += tmp[(y + k) * imageW + x] * h_Kernel[KERNEL_RADIUS - k];
            delta += fabs(s - out[y * imageW + x]);
        }
    printf(delta < 1e-2 ? "Test passed\n" : "Test failed!\n");
    checkCudaErrors(cudaFree(d_Input)); checkCudaErrors(cudaFree(d_Output)); checkCudaErrors(cudaFree(d_Buffer));
    free(in); free(out); free(tmp);
    return delta < 1e-2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
