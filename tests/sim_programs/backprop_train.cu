// verdict: clean
// A small perceptron learns XOR: forward, backward, update, all kernels, in the manner of a course exercise.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <ctime>
#define EPOCHS 400
#define HIDDEN 16
#define WARP_SIZE 32
#define HIDDEN_BLOCK(i) ((i) / WARP_SIZE)
#define idx(i, j, ld) ((i) * (ld) + (j))
#define cudaErrCheck(stat) { cudaErrCheck_((stat), __FILE__, __LINE__); }
void cudaErrCheck_(cudaError_t stat, const char *file, int line) {
   if (stat != cudaSuccess) {
      fprintf(stderr, "CUDA Error: %s %s %d\n", cudaGetErrorString(stat), file, line);
      exit(1);
   }
}

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

struct Net { float *w1, *b1, *w2, *b2; };

__global__ void forward(Net net, const float *x, float *h, float *y, int samples)
{
    __shared__ float partial[HIDDEN];
    int s = blockIdx.x, j = threadIdx.x;
    float z = net.b1[j];
    for (int i = 0; i < 2; i++) z += net.w1[idx(i, j, HIDDEN)] * x[idx(s, i, 2)];
    float a = tanhf(z);
    h[idx(s, j, HIDDEN)] = a;
    partial[j] = a * net.w2[j];
    __syncthreads();
    for (int stride = HIDDEN >> 1; stride > 0; stride >>= 1) {
        if (j < stride) partial[j] += partial[j + stride];
        __syncthreads();
    }
    if (j == 0) y[s] = sigmoid(partial[0] + net.b2[0]);
}

__global__ void backward(Net net, const float *x, const float *h, const float *y, const float *target, Net grad, int samples)
{
    int j = threadIdx.x;
    float g2 = 0, gb2 = 0, gb1 = 0, g1[2] = {0, 0};
    for (int s = 0; s < samples; s++) {
        float d = y[s] - target[s], a = h[idx(s, j, HIDDEN)], e = d * net.w2[j] * (1 - a * a);
        g2 += d * a;
        gb2 += d;
        gb1 += e;
        for (int i = 0; i < 2; i++) g1[i] += e * x[idx(s, i, 2)];
    }
    grad.w2[j] = g2;
    grad.b1[j] = gb1;
    for (int i = 0; i < 2; i++) grad.w1[idx(i, j, HIDDEN)] = g1[i];
    if (j == 0) grad.b2[0] = gb2;
}

__global__ void update(float *w, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}

int main(int argc, char **argv)
{
    const int n = 2 * HIDDEN + HIDDEN + HIDDEN + 1, samples = 4;
    float hw[n], hx[8] = {0, 0, 0, 1, 1, 0, 1, 1}, ht[4] = {0, 1, 1, 0}, hy[4];
    srand(1);
    for (int i = 0; i < n; i++) hw[i] = ((float)rand() / RAND_MAX - 0.5f) * 2;
    float *w, *g, *x, *t, *h, *y;
    cudaErrCheck(cudaMalloc(&w, sizeof hw));
    cudaErrCheck(cudaMalloc(&g, sizeof hw));
    cudaErrCheck(cudaMalloc(&x, sizeof hx));
    cudaErrCheck(cudaMalloc(&t, sizeof ht));
    cudaErrCheck(cudaMalloc(&h, samples * HIDDEN * sizeof(float)));
    cudaErrCheck(cudaMalloc(&y, sizeof hy));
    cudaErrCheck(cudaMemcpy(w, hw, sizeof hw, cudaMemcpyHostToDevice));
    cudaErrCheck(cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice));
    cudaErrCheck(cudaMemcpy(t, ht, sizeof ht, cudaMemcpyHostToDevice));
    Net net = {w, w + 2 * HIDDEN, w + 3 * HIDDEN, w + 4 * HIDDEN}, grad = {g, g + 2 * HIDDEN, g + 3 * HIDDEN, g + 4 * HIDDEN};
    clock_t begin = clock();
    for (int e = 0; e < EPOCHS; e++) {
        forward<<<samples, HIDDEN>>>(net, x, h, y, samples);
        backward<<<1, HIDDEN>>>(net, x, h, y, t, grad, samples);
        update<<<(n + 31) / 32, 32>>>(w, g, n, 0.5f);
    }
    cudaErrCheck(cudaDeviceSynchronize());
    cudaErrCheck(cudaMemcpy(hy, y, sizeof hy, cudaMemcpyDeviceToHost));
    int learned = 0;
    for (int s = 0; s < samples; s++) learned += fabsf(hy[s] - ht[s]) < 0.3f;
    printf("XOR: %d of 4 learned%s\n", learned, clock() < begin ? "?" : "");
    cudaFree(w); cudaFree(g); cudaFree(x); cudaFree(t); cudaFree(h); cudaFree(y);
    return learned != 4;
}
