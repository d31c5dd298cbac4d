// verdict: clean
// Attention: three passes with a score matrix, then a fused kernel with online softmax.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int BR = 16, BC = 16;

__global__ void scores(const float* Q, const float* K, float* S, int n, int d, float scale) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y, bh = blockIdx.z;
    if (i >= n || j >= n) return;
    Q += bh * n * d; K += bh * n * d; S += (size_t)bh * n * n;
    float dot = 0;
    for (int c = 0; c < d; ++c) dot += Q[i * d + c] * K[j * d + c];
    S[i * n + j] = j <= i ? dot * scale : -INFINITY;
}
__global__ void softmax_rows(float* S, int n) {
    float* row = S + (size_t)blockIdx.x * n;
    float m = -INFINITY, l = 0;
    for (int j = threadIdx.x; j < n; j += 32) m = fmaxf(m, row[j]);
    for (int s = 16; s; s >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, s));
    for (int j = threadIdx.x; j < n; j += 32) l += __expf(row[j] - m);
    for (int s = 16; s; s >>= 1) l += __shfl_xor_sync(0xffffffff, l, s);
    for (int j = threadIdx.x; j < n; j += 32) row[j] = __expf(row[j] - m) / l;
}
__global__ void weighted(const float* P, const float* V, float* O, int n, int d) {
    int i = blockIdx.x, bh = blockIdx.y, c = threadIdx.x;
    float acc = 0;
    for (int j = 0; j <= i; ++j) acc += P[((size_t)bh * n + i) * n + j] * V[(bh * n + j) * d + c];
    O[(bh * n + i) * d + c] = acc;
}

template <int D>
__global__ void flash(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V, float* __restrict__ O, int n, float scale) {
    extern __shared__ float sram[];
    float* Kj = sram;
    float* Vj = Kj + BC * D;
    float* P = Vj + BC * D;  // BR x BC
    const int bh = blockIdx.y, i = blockIdx.x * BR + threadIdx.x;
    const size_t base = (size_t)bh * n * D;
    float q[D], o[D], m = -INFINITY, l = 0;
    for (int c = 0; c < D; ++c) { q[c] = i < n ? Q[base + i * D + c] : 0; o[c] = 0; }
    for (int j0 = 0; j0 < n && j0 < (blockIdx.x + 1) * BR; j0 += BC) {
        for (int e = threadIdx.x; e < BC * D; e += BR) {
            const bool in = j0 + e / D < n;
            Kj[e] = in ? K[base + j0 * D + e] : 0;
            Vj[e] = in ? V[base + j0 * D + e] : 0;
        }
        __syncthreads();
        float mj = m;
        for (int j = 0; j < BC; ++j) {
            float s = 0;
            for (int c = 0; c < D; ++c) s += q[c] * Kj[j * D + c];
            s = j0 + j <= i && j0 + j < n ? s * scale : -INFINITY;
            P[threadIdx.x * BC + j] = s;
            mj = fmaxf(mj, s);
        }
        const float fix = __expf(m - mj);
        l *= fix;
        for (int c = 0; c < D; ++c) o[c] *= fix;
        for (int j = 0; j < BC; ++j) {
            const float p = __expf(P[threadIdx.x * BC + j] - mj);
            l += p;
            for (int c = 0; c < D; ++c) o[c] += p * Vj[j * D + c];
        }
        m = mj;
        __syncthreads();
    }
    if (i < n)
        for (int c = 0; c < D; ++c) O[base + i * D + c] = o[c] / l;
}

int main() {
    const int bh = 3, n = 50, d = 16;
    const float scale = 1.0f / sqrtf(d);
    std::vector<float> q(bh * n * d), k(q), v(q), naive(q), fused(q);
    for (size_t i = 0; i < q.size(); ++i) { q[i] = sinf(0.1f * i); k[i] = cosf(0.3f * i); v[i] = sinf(i); }
    float *dq, *dk, *dv, *dO, *S;
    const size_t bytes = q.size() * sizeof(float);
    for (float** p : {&dq, &dk, &dv, &dO}) cudaMalloc(p, bytes);
    cudaMalloc(&S, sizeof(float) * bh * n * n);
    cudaMemcpy(dq, q.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(dk, k.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(dv, v.data(), bytes, cudaMemcpyHostToDevice);
    scores<<<dim3((n + 15) / 16, (n + 7) / 8, bh), dim3(16, 8)>>>(dq, dk, S, n, d, scale);
    softmax_rows<<<bh * n, 32>>>(S, n);
    weighted<<<dim3(n, bh), d>>>(S, dv, dO, n, d);
    cudaMemcpy(naive.data(), dO, bytes, cudaMemcpyDeviceToHost);
    cudaMemset(dO, 0, bytes);
    const int smem = (2 * BC * d + BR * BC) * sizeof(float);
    int max_smem;
    cudaDeviceGetAttribute(&max_smem, cudaDevAttrMaxSharedMemoryPerBlock, 0);
    if (smem > max_smem) return 1;
    flash<d><<<dim3((n + BR - 1) / BR, bh), BR, smem>>>(dq, dk, dv, dO, n, scale);
    cudaMemcpy(fused.data(), dO, bytes, cudaMemcpyDeviceToHost);
    float worst = 0;
    for (size_t i = 0; i < q.size(); ++i) worst = fmaxf(worst, fabsf(naive[i] - fused[i]));
    double row = 0;
    for (int c = 0; c < d; ++c) row += fabs(naive[c] - v[c]);  // the first row sees only itself
    printf("attention sanity check: %s\n", worst < 1e-4 && row < 1e-4 ? "allclose" : "differs");
    cudaFree(dq); cudaFree(dk); cudaFree(dv); cudaFree(dO); cudaFree(S);
    return !(worst < 1e-4 && row < 1e-4);
}
