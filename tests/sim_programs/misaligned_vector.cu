// verdict: misaligned at line 12
#include <cstdio>

// sums rows of n floats with float4 loads; the rows begin at r * n
__global__ void row_sums(const float *a, float *sums, int rows, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float4 *row = reinterpret_cast<const float4 *>(a + r * n);
    float s = 0;
    for (int i = 0; i < n / 4; i++) {
        float4 v = row[i];
        s += v.x + v.y + v.z + v.w;
    }
    for (int i = n / 4 * 4; i < n; i++) s += a[r * n + i];
    sums[r] = s;
}

int main()
{
    const int rows = 64, n = 33;
    static float h[rows * n], s[rows];
    for (float &x : h) x = 1;
    float *a, *sums;
    cudaMalloc(&a, sizeof h);
    cudaMalloc(&sums, sizeof s);
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    row_sums<<<1, 64>>>(a, sums, rows, n);
    cudaError_t e = cudaMemcpy(s, sums, sizeof s, cudaMemcpyDeviceToHost);
    printf("%s %g\n", cudaGetErrorString(e), s[1]);
    cudaFree(a);
    cudaFree(sums);
    return 0;
}
