// verdict: clean
#include <cstdio>
#include <cmath>
#include <vector>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void layernorm(float* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd,
                          const float* __restrict__ inp, const float* __restrict__ weight,
                          const float* __restrict__ bias, int N, int C) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (idx >= N) return;
    const float* x = inp + idx * C;
    float sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) sum += x[i];
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    float m = sum / C;
    if (warp.thread_rank() == 0 && mean != nullptr) __stcs(mean + idx, m);
    sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        float diff = x[i] - m;
        sum += diff * diff;
    }
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    float s = rsqrtf(sum / C + 1e-5f);
    if (warp.thread_rank() == 0 && rstd != nullptr) __stcs(rstd + idx, s);
    float* o = out + idx * C;
    for (int c = warp.thread_rank(); c < C; c += warp.size()) {
        float n = s * (__ldcs(x + c) - m);
        __stcs(o + c, n * weight[c] + bias[c]);
    }
}

// block-wide variant: warps meet in shared memory
__global__ void layernorm_block(float* out, const float* inp, const float* weight, const float* bias, int C) {
    __shared__ float shared_sum[32];
    __shared__ float shared_sum2[32];
    int num_warps = blockDim.x / 32, warp_id = threadIdx.x / 32, lane_id = threadIdx.x % 32;
    const float* x = inp + blockIdx.x * C;
    float thread_sum = 0.0, thread_sum2 = 0.0;
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        float xi = x[i];
        thread_sum += xi;
        thread_sum2 += xi * xi;
    }
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
    float warp_sum = cg::reduce(warp, thread_sum, cg::plus<float>());
    float warp_sum2 = cg::reduce(warp, thread_sum2, cg::plus<float>());
    shared_sum[warp_id] = warp_sum;
    shared_sum2[warp_id] = warp_sum2;
    __syncthreads();
    warp_sum = (lane_id < num_warps) ? shared_sum[lane_id] : 0.0f;
    warp_sum2 = (lane_id < num_warps) ? shared_sum2[lane_id] : 0.0f;
    float m = cg::reduce(warp, warp_sum, cg::plus<float>{}) / C;
    float var = cg::reduce(warp, warp_sum2, cg::plus<float>{}) / C - m * m;
    float s = rsqrtf(var + 1e-5f);
    for (int i = threadIdx.x; i < C; i += blockDim.x) out[blockIdx.x * C + i] = s * (x[i] - m) * weight[i] + bias[i];
}

int main() {
    const int N = 20, C = 96;
    std::vector<float> x(N * C), w(C), b(C), y(N * C);
    for (int i = 0; i < N * C; i++) x[i] = cosf(i * 0.7f) + (i / C) * 0.1f;
    for (int i = 0; i < C; i++) { w[i] = 1 + 0.01f * i; b[i] = -0.5f + 0.02f * i; }
    float *dx, *dw, *db, *dy, *dm, *dr;
    cudaMalloc(&dx, N * C * 4); cudaMalloc(&dy, N * C * 4);
    cudaMalloc(&dw, C * 4); cudaMalloc(&db, C * 4);
    cudaMalloc(&dm, N * 4); cudaMalloc(&dr, N * 4);
    cudaMemcpy(dx, x.data(), N * C * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dw, w.data(), C * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), C * 4, cudaMemcpyHostToDevice);
    int fails = 0;
    for (int k = 0; k < 2; k++) {
        if (k == 0) layernorm<<<(N + 3) / 4, 128>>>(dy, dm, dr, dx, dw, db, N, C);
        else layernorm_block<<<N, 128>>>(dy, dx, dw, db, C);
        cudaMemcpy(y.data(), dy, N * C * 4, cudaMemcpyDeviceToHost);
        for (int n = 0; n < N; n++) {
            double m = 0, v = 0;
            for (int c = 0; c < C; c++) m += x[n * C + c] / C;
            for (int c = 0; c < C; c++) v += (x[n * C + c] - m) * (x[n * C + c] - m) / C;
            for (int c = 0; c < C; c++) fails += fabs((x[n * C + c] - m) / sqrt(v + 1e-5) * w[c] + b[c] - y[n * C + c]) > 1e-3;
        }
    }
    printf("layernorm: %d mismatches\n", fails);
    for (float* p : {dx, dw, db, dy, dm, dr}) cudaFree(p);
    return fails != 0;
}
