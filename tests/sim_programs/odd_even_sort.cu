// verdict: race at line 5
#include <stdio.h>
#include <stdlib.h>

__device__ void swap_if(int *a, int *b) { if (*a > *b) { int t = *a; *a = *b; *b = t; } }

__global__ void oddEvenSort(int *data, int n)
{
    extern __shared__ int s[];
    int t = threadIdx.x;
    s[2 * t] = data[2 * t];
    s[2 * t + 1] = data[2 * t + 1];
    __syncthreads();
    for (int phase = 0; phase < n; phase += 2) {
        swap_if(&s[2 * t], &s[2 * t + 1]);
        if (2 * t + 2 < n) swap_if(&s[2 * t + 1], &s[2 * t + 2]);
        __syncthreads();
    }
    data[2 * t] = s[2 * t];
    data[2 * t + 1] = s[2 * t + 1];
}

int main()
{
    enum { N = 128 };
    int h[N], *d, i, bad = 0;
    for (i = 0; i < N; i++) h[i] = (i * 37) % N;
    cudaMalloc((void **)&d, sizeof(h));
    cudaMemcpy(d, h, sizeof(h), cudaMemcpyHostToDevice);
    oddEvenSort<<<1, N / 2, N * sizeof(int)>>>(d, N);
    cudaMemcpy(h, d, sizeof(h), cudaMemcpyDeviceToHost);
    for (i = 1; i < N; i++) bad += h[i - 1] > h[i];
    printf("%d inversions\n", bad);
    cudaFree(d);
    return 0;
}
