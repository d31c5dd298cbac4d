// verdict: clean
#include <cfloat>
#include <cstdio>
#include <random>
#include <vector>

using namespace std;

#define K 4
#define DIM 2
#define THREADS 128

__constant__ float d_centroids[K * DIM];

struct Sums {
    float coord[K][DIM];
    int count[K];
};

__device__ __forceinline__ float sqdist(const float *a, const float *b) {
    float d = 0;
    for (int i = 0; i < DIM; i++) d += (a[i] - b[i]) * (a[i] - b[i]);
    return d;
}

__global__ void assign_and_sum(const float *points, int n, int *label, Sums *sums) {
    __shared__ Sums local;
    for (int i = threadIdx.x; i < K * DIM; i += blockDim.x) local.coord[i / DIM][i % DIM] = 0.f;
    if (threadIdx.x < K) local.count[threadIdx.x] = 0;
    __syncthreads();

    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float p[DIM] = {points[i * DIM], points[i * DIM + 1]};
        int best = -1;
        float bestDist = FLT_MAX;
        for (int k = 0; k < K; k++) {
            float d = sqdist(p, d_centroids + k * DIM);
            if (d < bestDist) { bestDist = d; best = k; }
        }
        label[i] = best;
        for (int j = 0; j < DIM; j++) atomicAdd(&local.coord[best][j], p[j]);
        atomicAdd(&local.count[best], 1);
    }
    __syncthreads();
    if (threadIdx.x < K) {
        for (int j = 0; j < DIM; j++) atomicAdd(&sums->coord[threadIdx.x][j], local.coord[threadIdx.x][j]);
        atomicAdd(&sums->count[threadIdx.x], local.count[threadIdx.x]);
    }
}

int main() {
    const int n = 2000;
    mt19937 rng(1);
    normal_distribution<float> noise(0, 0.3f);
    const float centers[K][DIM] = {{0, 0}, {5, 0}, {0, 5}, {5, 5}};
    vector<float> pts(n * DIM);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < DIM; j++) pts[i * DIM + j] = centers[i % K][j] + noise(rng);

    float *d_pts; int *d_label; Sums *d_sums;
    cudaMalloc((void **)&d_pts, sizeof(float) * pts.size());
    cudaMalloc((void **)&d_label, sizeof(int) * n);
    cudaMalloc((void **)&d_sums, sizeof(Sums));
    cudaMemcpy(d_pts, &pts[0], sizeof(float) * pts.size(), cudaMemcpyHostToDevice);

    vector<float> c(pts.begin(), pts.begin() + K * DIM);
    for (int it = 0; it < 4; it++) {
        cudaMemcpyToSymbol(d_centroids, c.data(), K * DIM * sizeof(float), 0, cudaMemcpyHostToDevice);
        cudaMemset(d_sums, 0, sizeof(Sums));
        assign_and_sum<<<(n + THREADS - 1) / THREADS, THREADS>>>(d_pts, n, d_label, d_sums);
        Sums s;
        cudaMemcpy(&s, d_sums, sizeof s, cudaMemcpyDeviceToHost);
        for (int k = 0; k < K; k++)
            for (int j = 0; j < DIM; j++)
                if (s.count[k]) c[k * DIM + j] = s.coord[k][j] / s.count[k];
    }
    bool ok = true;
    for (int k = 0; k < K; k++)
        for (int j = 0; j < DIM; j++) ok &= fabs(c[k * DIM + j] - centers[k][j]) < 0.1f;
    vector<int> label(n);
    cudaMemcpy(label.data(), d_label, n * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) ok &= label[i] == i % K;
    printf("k-means %s\n", ok ? "converged" : "went astray");
    cudaFree(d_pts); cudaFree(d_label); cudaFree(d_sums);
    return ok ? 0 : 1;
}
