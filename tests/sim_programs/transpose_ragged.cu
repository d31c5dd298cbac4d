// verdict: invalid write at line 15
#include <cstdio>
#include <vector>
#define TILE 16

__global__ void transpose(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    int c = blockIdx.x * TILE + threadIdx.x;
    int r = blockIdx.y * TILE + threadIdx.y;
    if (r < rows && c < cols) tile[threadIdx.y][threadIdx.x] = in[r * cols + c];
    __syncthreads();
    int tr = blockIdx.x * TILE + threadIdx.y;
    int tc = blockIdx.y * TILE + threadIdx.x;
    if (r < rows && c < cols)  // the guard of the load, not of the store
        out[tr * rows + tc] = tile[threadIdx.x][threadIdx.y];
}

int main() {
    const int rows = 40, cols = 30;
    std::vector<float> h(rows * cols), t(rows * cols);
    for (int i = 0; i < rows * cols; ++i) h[i] = i;
    float *a, *b;
    cudaMalloc(&a, h.size() * sizeof(float));
    cudaMalloc(&b, t.size() * sizeof(float));
    cudaMemcpy(a, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(b, 0, t.size() * sizeof(float));
    transpose<<<dim3((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE), dim3(TILE, TILE)>>>(a, b, rows, cols);
    cudaMemcpy(t.data(), b, t.size() * sizeof(float), cudaMemcpyDeviceToHost);
    int bad = 0;
    for (int r = 0; r < rows; ++r) for (int c = 0; c < cols; ++c) bad += t[c * rows + r] != h[r * cols + c];
    printf("%d elements are wrong\n", bad);
    cudaFree(a);
    cudaFree(b);
    return 0;
}
