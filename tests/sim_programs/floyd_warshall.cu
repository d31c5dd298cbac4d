// verdict: clean
#include <stdio.h>
#include <stdlib.h>
#define INF 1000000
#define TILE 16

/* blocked Floyd-Warshall, three phases per round */
__device__ void relax(int d[TILE][TILE], const int a[TILE][TILE], const int b[TILE][TILE])
{
    const int i = threadIdx.y, j = threadIdx.x;
    for (int k = 0; k < TILE; k++) {
        int via = a[i][k] + b[k][j];
        __syncthreads();
        if (via < d[i][j]) d[i][j] = via;
        __syncthreads();
    }
}

__global__ void phase1(int *g, int n, int r)
{
    __shared__ int d[TILE][TILE];
    int *p = g + (r * TILE + threadIdx.y) * n + r * TILE + threadIdx.x;
    d[threadIdx.y][threadIdx.x] = *p;
    __syncthreads();
    relax(d, d, d);
    *p = d[threadIdx.y][threadIdx.x];
}

__global__ void phase2(int *g, int n, int r)
{
    if (blockIdx.x == r) return;
    __shared__ int d[TILE][TILE], pivot[TILE][TILE];
    const int row = blockIdx.y == 0 ? r : blockIdx.x, col = blockIdx.y == 0 ? blockIdx.x : r;
    int *p = g + (row * TILE + threadIdx.y) * n + col * TILE + threadIdx.x;
    d[threadIdx.y][threadIdx.x] = *p;
    pivot[threadIdx.y][threadIdx.x] = g[(r * TILE + threadIdx.y) * n + r * TILE + threadIdx.x];
    __syncthreads();
    if (blockIdx.y == 0) relax(d, pivot, d);
    else relax(d, d, pivot);
    *p = d[threadIdx.y][threadIdx.x];
}

__global__ void phase3(int *g, int n, int r)
{
    if (blockIdx.x == r || blockIdx.y == r) return;
    __shared__ int a[TILE][TILE], b[TILE][TILE];
    const int i = blockIdx.y * TILE + threadIdx.y, j = blockIdx.x * TILE + threadIdx.x;
    a[threadIdx.y][threadIdx.x] = g[i * n + r * TILE + threadIdx.x];
    b[threadIdx.y][threadIdx.x] = g[(r * TILE + threadIdx.y) * n + j];
    __syncthreads();
    int best = g[i * n + j];
    for (int k = 0; k < TILE; k++) best = min(best, a[threadIdx.y][k] + b[k][threadIdx.x]);
    g[i * n + j] = best;
}

int main()
{
    const int n = 48, rounds = n / TILE;
    int *h = (int *)malloc(n * n * sizeof(int)), *ref = (int *)malloc(n * n * sizeof(int)), *d;
    srand(8);
    for (int i = 0; i < n * n; i++) ref[i] = h[i] = i % (n + 1) == 0 ? 0 : rand() % 4 == 0 ? 1 + rand() % 50 : INF;
    cudaMalloc((void **)&d, n * n * sizeof(int));
    cudaMemcpy(d, h, n * n * sizeof(int), cudaMemcpyHostToDevice);
    dim3 threads(TILE, TILE);
    for (int r = 0; r < rounds; r++) {
        phase1<<<1, threads>>>(d, n, r);
        phase2<<<dim3(rounds, 2), threads>>>(d, n, r);
        phase3<<<dim3(rounds, rounds), threads>>>(d, n, r);
    }
    cudaMemcpy(h, d, n * n * sizeof(int), cudaMemcpyDeviceToHost);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                if (ref[i * n + k] + ref[k * n + j] < ref[i * n + j]) ref[i * n + j] = ref[i * n + k] + ref[k * n + j];
    int bad = 0;
    for (int i = 0; i < n * n; i++) bad += ref[i] != h[i];
    printf("all pairs: %d differ\n", bad);
    cudaFree(d);
    free(h); free(ref);
    return bad != 0;
}
