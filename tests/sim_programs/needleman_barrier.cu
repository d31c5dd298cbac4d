// verdict: race at line 29
// Needleman-Wunsch, one tile per block, tiles of an anti-diagonal in one launch.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define B 16
#define PENALTY 10

__device__ __host__ int maximum(int a, int b, int c) {
    int k = a <= b ? b : a;
    return k <= c ? c : k;
}

__global__ void needle_tile(const int *ref, int *score, int cols, int diagonal, int first) {
    int bx = first + blockIdx.x, by = diagonal - bx;
    int tx = threadIdx.x;
    __shared__ int temp[B + 1][B + 1];
    __shared__ int sref[B][B];
    int base = cols * B * by + B * bx;  // north-west corner
    for (int ty = 0; ty < B; ty++) sref[ty][tx] = ref[base + cols * (ty + 1) + tx + 1];
    if (tx == 0) temp[0][0] = score[base];
    temp[tx + 1][0] = score[base + cols * (tx + 1)];
    temp[0][tx + 1] = score[base + tx + 1];
    __syncthreads();
    for (int m = 0; m < B; m++) {
        if (tx <= m) {
            int x = tx + 1, y = m - tx + 1;
            temp[y][x] = maximum(temp[y - 1][x - 1] + sref[y - 1][x - 1], temp[y][x - 1] - PENALTY, temp[y - 1][x] - PENALTY);
        }
    }
    for (int m = B - 2; m >= 0; m--) {
        if (tx <= m) {
            int x = tx + B - m, y = B - tx;
            temp[y][x] = maximum(temp[y - 1][x - 1] + sref[y - 1][x - 1], temp[y][x - 1] - PENALTY, temp[y - 1][x] - PENALTY);
        }
        __syncthreads();
    }
    for (int ty = 0; ty < B; ty++) score[base + cols * (ty + 1) + tx + 1] = temp[ty + 1][tx + 1];
}

int main() {
    const int n = 64, cols = n + 1, w = n / B;
    std::vector<int> ref(cols * cols), score(cols * cols, 0);
    srand(7);
    for (auto &r : ref) r = rand() % 20 - 8;
    for (int i = 1; i < cols; i++) score[i] = score[i * cols] = -i * PENALTY;
    std::vector<int> host(score);
    int *d_ref, *d_score;
    size_t bytes = sizeof(int) * cols * cols;
    cudaMalloc(&d_ref, bytes);
    cudaMalloc(&d_score, bytes);
    cudaMemcpy(d_ref, ref.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(d_score, score.data(), bytes, cudaMemcpyHostToDevice);
    for (int d = 0; d < 2 * w - 1; d++) {
        int first = std::max(0, d - w + 1), last = std::min(d, w - 1);
        needle_tile<<<last - first + 1, B>>>(d_ref, d_score, cols, d, first);
    }
    cudaMemcpy(score.data(), d_score, bytes, cudaMemcpyDeviceToHost);
    for (int i = 1; i < cols; i++)
        for (int j = 1; j < cols; j++)
            host[i * cols + j] = maximum(host[(i - 1) * cols + j - 1] + ref[i * cols + j], host[i * cols + j - 1] - PENALTY,
                                         host[(i - 1) * cols + j] - PENALTY);
    bool same = host == score;
    printf("alignment score %d: %s\n", score.back(), same ? "TEST PASSED" : "TEST FAILED");
    cudaFree(d_ref);
    cudaFree(d_score);
    return !same;
}
