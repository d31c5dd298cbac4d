// verdict: invalid at line 14
// Each thread computes four columns in registers, and one more by mistake.
#include <cstdio>
#define COLS 4

__global__ void gemv4(const float *A, const float *x, float *y, int rows, int k)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float acc[COLS];
    for (int c = 0; c < COLS; ++c) acc[c] = 0.f;
    for (int i = 0; i < k; ++i)
        for (int c = 0; c <= COLS; ++c) {
            acc[c] += A[r * k + i] * x[i * 8 + c];
        }
    for (int c = 0; c < COLS; ++c) y[r * COLS + c] = acc[c];
}

int main()
{
    const int rows = 64, k = 16;
    float hA[rows * k], hx[k * 8], hy[rows * COLS];
    for (float &v : hA) v = 1;
    for (float &v : hx) v = 2;
    float *A, *x, *y;
    cudaMalloc(&A, sizeof hA); cudaMalloc(&x, sizeof hx); cudaMalloc(&y, sizeof hy);
    cudaMemcpy(A, hA, sizeof hA, cudaMemcpyHostToDevice);
    cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice);
    gemv4<<<1, 64>>>(A, x, y, rows, k);
    cudaMemcpy(hy, y, sizeof hy, cudaMemcpyDeviceToHost);
    printf("%g %g\n", hy[0], hy[rows * COLS - 1]);
    cudaFree(A); cudaFree(x); cudaFree(y);
    return 0;
}
