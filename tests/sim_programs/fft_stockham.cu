// verdict: clean
#include <cstdio>
#include <cmath>
#include <complex>
#include <vector>
#define N 256

// radix-2 Stockham FFT of one row per block, two buffers in shared memory
__global__ void fft(float2 *data)
{
    __shared__ float2 buf[2][N];
    const int t = threadIdx.x;  // N / 2 threads
    float2 *x = data + blockIdx.x * N;
    buf[0][t] = x[t];
    buf[0][t + N / 2] = x[t + N / 2];
    int cur = 0;
    for (int ns = 1; ns < N; ns *= 2) {
        __syncthreads();
        const int k = t % ns;
        float2 a = buf[cur][t], b = buf[cur][t + N / 2], w;
        __sincosf(-3.14159265358979f * k / ns, &w.y, &w.x);
        float2 wb = make_float2(w.x * b.x - w.y * b.y, w.x * b.y + w.y * b.x);
        const int j = t / ns * ns * 2 + k;
        buf[cur ^ 1][j] = make_float2(a.x + wb.x, a.y + wb.y);
        buf[cur ^ 1][j + ns] = make_float2(a.x - wb.x, a.y - wb.y);
        cur ^= 1;
    }
    __syncthreads();
    x[t] = buf[cur][t];
    x[t + N / 2] = buf[cur][t + N / 2];
}

int main()
{
    const int rows = 2;
    std::vector<float2> h(rows * N), r(rows * N);
    for (int i = 0; i < rows * N; i++) h[i] = make_float2(cosf(i * 0.3f) + (i % 7 == 0), sinf(i * 1.7f));
    float2 *d;
    cudaMalloc(&d, h.size() * sizeof(float2));
    cudaMemcpy(d, h.data(), h.size() * sizeof(float2), cudaMemcpyHostToDevice);
    fft<<<rows, N / 2>>>(d);
    cudaMemcpy(r.data(), d, h.size() * sizeof(float2), cudaMemcpyDeviceToHost);
    double worst = 0;
    for (int row = 0; row < rows; row++)
        for (int k = 0; k < N; k += 5) {
            std::complex<double> s = 0;
            for (int n = 0; n < N; n++) s += std::complex<double>(h[row * N + n].x, h[row * N + n].y) * std::polar(1.0, -2 * M_PI * k * n / N);
            worst = std::max(worst, std::abs(s - std::complex<double>(r[row * N + k].x, r[row * N + k].y)));
        }
    printf("fft: %s\n", worst < 1e-2 ? "ok" : "wrong");
    cudaFree(d);
    return worst >= 1e-2;
}
