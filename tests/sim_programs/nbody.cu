// verdict: clean
// All-pairs n-body, bodies staged through shared memory.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#define SOFTENING 1e-3f

__device__ float3 bodyBodyInteraction(float4 bi, float4 bj, float3 ai)
{
    float3 r;
    r.x = bj.x - bi.x;
    r.y = bj.y - bi.y;
    r.z = bj.z - bi.z;
    float distSqr = r.x * r.x + r.y * r.y + r.z * r.z + SOFTENING;
    float inv = rsqrtf(distSqr);
    float s = bj.w * inv * inv * inv;
    ai.x += r.x * s;
    ai.y += r.y * s;
    ai.z += r.z * s;
    return ai;
}

__device__ float3 tile_calculation(float4 myPosition, float3 accel)
{
    extern __shared__ float4 shPosition[];
#pragma unroll 8
    for (int i = 0; i < blockDim.x; i++) accel = bodyBodyInteraction(myPosition, shPosition[i], accel);
    return accel;
}

__global__ void calculate_forces(void *devX, void *devA, int N)
{
    extern __shared__ float4 shPosition[];
    float4 *globalX = (float4 *)devX;
    float4 *globalA = (float4 *)devA;
    float3 acc = {0.0f, 0.0f, 0.0f};
    int gtid = blockIdx.x * blockDim.x + threadIdx.x;
    float4 myPosition = globalX[gtid];
    for (int i = 0, tile = 0; i < N; i += blockDim.x, tile++) {
        int idx = tile * blockDim.x + threadIdx.x;
        shPosition[threadIdx.x] = globalX[idx];
        __syncthreads();
        acc = tile_calculation(myPosition, acc);
        __syncthreads();
    }
    float4 acc4 = make_float4(acc.x, acc.y, acc.z, 0.0f);
    globalA[gtid] = acc4;
}

int main(int argc, char **argv)
{
    int n = 256, p = 64;
    if (argc > 1) n = atoi(argv[1]);
    size_t bytes = n * sizeof(float4);
    float4 *x = (float4 *)malloc(bytes), *a = (float4 *)malloc(bytes);
    srand(42);
    for (int i = 0; i < n; i++)
        x[i] = make_float4(rand() / (float)RAND_MAX, rand() / (float)RAND_MAX, rand() / (float)RAND_MAX, 1.0f / n);
    float4 *dx, *da;
    cudaMalloc(&dx, bytes);
    cudaMalloc(&da, bytes);
    cudaMemcpy(dx, x, bytes, cudaMemcpyHostToDevice);
    calculate_forces<<<n / p, p, p * sizeof(float4)>>>(dx, da, n);
    cudaMemcpy(a, da, bytes, cudaMemcpyDeviceToHost);

    double sum[3] = {0, 0, 0}, biggest = 0;
    for (int i = 0; i < n; i++) {
        sum[0] += a[i].x; sum[1] += a[i].y; sum[2] += a[i].z;
        biggest = fmax(biggest, fabs((double)a[i].x));
    }
    /* equal masses: the forces cancel */
    double rest = fabs(sum[0]) + fabs(sum[1]) + fabs(sum[2]);
    int ok = rest < 1e-3 * biggest * n && biggest > 0.1;
    printf("n-body: total force %s\n", ok ? "vanishes" : "DOES NOT VANISH");
    cudaFree(dx);
    cudaFree(da);
    free(x);
    free(a);
    return !ok;
}
