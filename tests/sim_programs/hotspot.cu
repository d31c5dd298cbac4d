// verdict: clean
#include <stdio.h>
#include <stdlib.h>
#include <assert.h>
#include <math.h>

#define BLOCK_SIZE 16
#define IN_RANGE(x, min, max) ((x) >= (min) && (x) <= (max))
#define CLAMP_RANGE(x, min, max) x = (x < (min)) ? min : ((x > (max)) ? max : x)
#define EXPAND_RATE 2

/* Several time steps per launch: the tile shrinks by one cell on each side per step. */
__global__ void calculate_temp(int iteration, const float *power, const float *temp_src, float *temp_dst, int cols, int rows,
                               int border, float k)
{
    __shared__ float temp_on_cuda[BLOCK_SIZE][BLOCK_SIZE];
    __shared__ float power_on_cuda[BLOCK_SIZE][BLOCK_SIZE];
    __shared__ float temp_t[BLOCK_SIZE][BLOCK_SIZE];

    int bx = blockIdx.x, by = blockIdx.y;
    int tx = threadIdx.x, ty = threadIdx.y;
    int small = BLOCK_SIZE - iteration * EXPAND_RATE;
    int blkY = small * by - border, blkX = small * bx - border;
    int yidx = blkY + ty, xidx = blkX + tx;
    int index = cols * yidx + xidx;

    if (IN_RANGE(yidx, 0, rows - 1) && IN_RANGE(xidx, 0, cols - 1)) {
        temp_on_cuda[ty][tx] = temp_src[index];
        power_on_cuda[ty][tx] = power[index];
    }
    __syncthreads();

    int validYmin = blkY < 0 ? -blkY : 0;
    int validYmax = blkY + BLOCK_SIZE - 1 > rows - 1 ? BLOCK_SIZE - 1 - (blkY + BLOCK_SIZE - rows) : BLOCK_SIZE - 1;
    int validXmin = blkX < 0 ? -blkX : 0;
    int validXmax = blkX + BLOCK_SIZE - 1 > cols - 1 ? BLOCK_SIZE - 1 - (blkX + BLOCK_SIZE - cols) : BLOCK_SIZE - 1;
    int N = ty - 1, S = ty + 1, W = tx - 1, E = tx + 1;
    N = (N < validYmin) ? validYmin : N;
    S = (S > validYmax) ? validYmax : S;
    W = (W < validXmin) ? validXmin : W;
    E = (E > validXmax) ? validXmax : E;

    bool computed;
    for (int i = 0; i < iteration; i++) {
        computed = false;
        if (IN_RANGE(tx, i + 1, BLOCK_SIZE - i - 2) && IN_RANGE(ty, i + 1, BLOCK_SIZE - i - 2) &&
            IN_RANGE(tx, validXmin, validXmax) && IN_RANGE(ty, validYmin, validYmax)) {
            computed = true;
            float t = temp_on_cuda[ty][tx];
            temp_t[ty][tx] = t + k * (power_on_cuda[ty][tx] + temp_on_cuda[S][tx] + temp_on_cuda[N][tx] - 2.0f * t +
                                      temp_on_cuda[ty][E] + temp_on_cuda[ty][W] - 2.0f * t);
        }
        __syncthreads();
        if (i == iteration - 1) break;
        if (computed) temp_on_cuda[ty][tx] = temp_t[ty][tx];
        __syncthreads();
    }
    if (computed) temp_dst[index] = temp_t[ty][tx];
}

void cpu_step(const float *p, const float *in, float *out, int cols, int rows, float k)
{
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < cols; x++) {
            int n = y ? y - 1 : y, s = y < rows - 1 ? y + 1 : y, w = x ? x - 1 : x, e = x < cols - 1 ? x + 1 : x;
            float t = in[y * cols + x];
            out[y * cols + x] = t + k * (p[y * cols + x] + in[s * cols + x] + in[n * cols + x] - 2.0f * t + in[y * cols + e] + in[y * cols + w] - 2.0f * t);
        }
}

int main()
{
    const int n = 40, pyramid_height = 2, total = 4;
    const float k = 0.1f;
    size_t size = n * n * sizeof(float);
    float *t = (float *)malloc(size), *p = (float *)malloc(size), *ref[2] = {(float *)malloc(size), (float *)malloc(size)};
    for (int i = 0; i < n * n; i++) { t[i] = 320 + (i * 31 % 17); p[i] = (i % 5) * 0.01f; ref[0][i] = t[i]; }
    float *MatrixTemp[2], *MatrixPower;
    cudaMalloc((void **)&MatrixTemp[0], size);
    cudaMalloc((void **)&MatrixTemp[1], size);
    cudaMalloc((void **)&MatrixPower, size);
    cudaMemcpy(MatrixTemp[0], t, size, cudaMemcpyHostToDevice);
    cudaMemcpy(MatrixPower, p, size, cudaMemcpyHostToDevice);

    int border = pyramid_height * EXPAND_RATE / 2, small = BLOCK_SIZE - pyramid_height * EXPAND_RATE;
    int blocks = n / small + (n % small == 0 ? 0 : 1);
    dim3 dimBlock(BLOCK_SIZE, BLOCK_SIZE), dimGrid(blocks, blocks);
    int src = 1, dst = 0;
    for (int s = 0; s < total; s += pyramid_height) {
        int temp = src; src = dst; dst = temp;
        int it = pyramid_height < total - s ? pyramid_height : total - s;
        calculate_temp<<<dimGrid, dimBlock>>>(it, MatrixPower, MatrixTemp[src], MatrixTemp[dst], n, n, border, k);
        assert(cudaGetLastError() == cudaSuccess);
    }
    cudaMemcpy(t, MatrixTemp[dst], size, cudaMemcpyDeviceToHost);
    for (int s = 0; s < total; s++) cpu_step(p, ref[s % 2], ref[(s + 1) % 2], n, n, k);
    double err = 0;
    for (int i = 0; i < n * n; i++) err = fmax(err, fabs(t[i] - ref[total % 2][i]));
    printf("hotspot: %s (max error %s)\n", err < 1e-2 ? "ok" : "wrong", err < 1e-2 ? "small" : "large");
    cudaFree(MatrixTemp[0]); cudaFree(MatrixTemp[1]); cudaFree(MatrixPower);
    free(t); free(p); free(ref[0]); free(ref[1]);
    return err >= 1e-2;
}
