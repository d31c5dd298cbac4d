// verdict: clean
// A puzzle collection: fourteen one-liners that every course asks for.
#include <cstdio>
#include <functional>
#include <vector>
#include <cmath>

__global__ void map_add10(float* out, const float* a) { int i = threadIdx.x; out[i] = a[i] + 10; }
__global__ void zip(float* out, const float* a, const float* b) { out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }
__global__ void guard(float* out, const float* a, int size) { int i = threadIdx.x; if (i < size) out[i] = a[i] + 10; }
__global__ void map2d(float* out, const float* a, int size) {
    int i = threadIdx.x, j = threadIdx.y;
    if (i < size && j < size) out[j * size + i] = a[j * size + i] + 10;
}
__global__ void broadcast(float* out, const float* a, const float* b, int size) {
    int i = threadIdx.x, j = threadIdx.y;
    if (i < size && j < size) out[j * size + i] = a[i] + b[j];
}
__global__ void blocks(float* out, const float* a, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = a[i] + 10;
}
__global__ void shared_map(float* out, const float* a, int size) {
    __shared__ float shared[4];
    int i = blockIdx.x * blockDim.x + threadIdx.x, local_i = threadIdx.x;
    if (i < size) { shared[local_i] = a[i]; }
    __syncthreads();
    if (i < size) out[i] = shared[local_i] + 10;
}
__global__ void pooling(float* out, const float* a, int size) {
    extern __shared__ float sh[];
    int i = threadIdx.x;
    if (i < size) sh[i] = a[i];
    __syncthreads();
    if (i == 0) out[0] = sh[0];
    else if (i == 1) out[1] = sh[0] + sh[1];
    else if (i < size) out[i] = sh[i - 2] + sh[i - 1] + sh[i];
}
__global__ void dot(float* out, const float* a, const float* b, int size) {
    extern __shared__ float prod[];
    int i = threadIdx.x;
    if (i < size) prod[i] = a[i] * b[i];
    __syncthreads();
    if (i == 0) {
        float s = 0;
        for (int k = 0; k < size; k++) s += prod[k];
        out[0] = s;
    }
}
__global__ void conv1d(float* out, const float* a, const float* b, int na, int nb) {
    extern __shared__ float mem[];
    float *sa = mem, *sb = mem + blockDim.x + nb;
    int i = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x;
    sa[l] = i < na ? a[i] : 0;
    if (l < nb) {
        sb[l] = b[l];
        int far = i + blockDim.x;
        sa[l + blockDim.x] = far < na ? a[far] : 0;
    }
    __syncthreads();
    if (i < na) {
        float s = 0;
        for (int k = 0; k < nb; k++) s += sa[l + k] * sb[k];
        out[i] = s;
    }
}
__global__ void block_sum(float* out, const float* a, int size) {
    __shared__ float cache[8];
    int i = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x;
    cache[l] = i < size ? a[i] : 0;
    __syncthreads();
    for (int p = 1; p < 8; p *= 2) {
        if (l % (2 * p) == 0) cache[l] += cache[l + p];
        __syncthreads();
    }
    if (l == 0) out[blockIdx.x] = cache[0];
}
__global__ void axis_sum(float* out, const float* a, int size) {
    __shared__ float cache[8];
    int l = threadIdx.x, batch = blockIdx.y;
    cache[l] = l < size ? a[batch * size + l] : 0;
    __syncthreads();
    for (int p = 4; p; p >>= 1) {
        if (l < p) cache[l] += cache[l + p];
        __syncthreads();
    }
    if (l == 0) out[batch] = cache[0];
}
__global__ void matmul(float* out, const float* a, const float* b, int size) {
    __shared__ float a_s[3][3], b_s[3][3];
    int i = blockIdx.x * 3 + threadIdx.x, j = blockIdx.y * 3 + threadIdx.y;
    float acc = 0;
    for (int k = 0; k < size; k += 3) {
        a_s[threadIdx.y][threadIdx.x] = (j < size && k + threadIdx.x < size) ? a[j * size + k + threadIdx.x] : 0;
        b_s[threadIdx.y][threadIdx.x] = (i < size && k + threadIdx.y < size) ? b[(k + threadIdx.y) * size + i] : 0;
        __syncthreads();
        for (int l = 0; l < 3; l++) acc += a_s[threadIdx.y][l] * b_s[l][threadIdx.x];
        __syncthreads();
    }
    if (i < size && j < size) out[j * size + i] = acc;
}
__global__ void reverse_in_place(float* a, int n) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = a[t];
    __syncthreads();
    a[t] = s[n - 1 - t];
}

struct Puzzle {
    const char* name;
    std::function<void(float* out, float* a, float* b)> launch;
    std::function<float(int)> expected;
    int n;
};

int main() {
    const int N = 64;
    std::vector<float> a(N), b(N), out(N);
    for (int i = 0; i < N; i++) { a[i] = i; b[i] = i % 4; }
    float *da, *db, *dout;
    cudaMalloc(&da, N * 4); cudaMalloc(&db, N * 4); cudaMalloc(&dout, N * 4);
    std::vector<Puzzle> puzzles = {
        {"map", [](float* o, float* a, float*) { map_add10<<<1, 4>>>(o, a); }, [](int i) { return i + 10.f; }, 4},
        {"zip", [](float* o, float* a, float* b) { zip<<<1, 4>>>(o, a, b); }, [](int i) { return i + i % 4; }, 4},
        {"guard", [](float* o, float* a, float*) { guard<<<1, 8>>>(o, a, 4); }, [](int i) { return i + 10.f; }, 4},
        {"map 2d", [](float* o, float* a, float*) { map2d<<<1, dim3(3, 3)>>>(o, a, 2); }, [](int i) { return i + 10.f; }, 4},
        {"broadcast", [](float* o, float* a, float* b) { broadcast<<<1, {3, 3}>>>(o, a, b, 2); }, [](int i) { return i % 2 + i / 2; }, 4},
        {"blocks", [](float* o, float* a, float*) { blocks<<<3, 4>>>(o, a, 9); }, [](int i) { return i + 10.f; }, 9},
        {"shared", [](float* o, float* a, float*) { shared_map<<<2, 4>>>(o, a, 8); }, [](int i) { return i + 10.f; }, 8},
        {"pooling", [](float* o, float* a, float*) { pooling<<<1, 8, 8 * sizeof(float)>>>(o, a, 8); }, [](int i) { return i < 2 ? i : 3.f * i - 3; }, 8},
        {"dot", [](float* o, float* a, float* b) { dot<<<1, 8, 32>>>(o, a, b, 8); }, [](int) { return 52.f; }, 1},
        {"conv1d", [](float* o, float* a, float* b) { conv1d<<<2, 8, (8 + 4 + 4) * 4>>>(o, a, b, 15, 4); },
         [](int i) { float s = 0; for (int k = 0; k < 4; k++) s += i + k < 15 ? (i + k) * k : 0; return s; }, 15},
        {"block sum", [](float* o, float* a, float*) { block_sum<<<2, 8>>>(o, a, 12); }, [](int i) { return i ? 38.f : 28.f; }, 2},
        {"axis sum", [](float* o, float* a, float*) { axis_sum<<<dim3(1, 4), 8>>>(o, a, 6); }, [](int i) { return 15.f + 36 * i; }, 4},
        {"matmul", [](float* o, float* a, float* b) { matmul<<<dim3(3, 3), dim3(3, 3)>>>(o, a, b, 8); },
         [](int i) { float s = 0; for (int k = 0; k < 8; k++) s += (i / 8 * 8 + k) * ((k * 8 + i % 8) % 4); return s; }, 64},
        {"reverse", [](float* o, float* a, float*) { cudaMemcpy(o, a, 64, cudaMemcpyDeviceToDevice); reverse_in_place<<<1, 16, 64>>>(o, 16); }, [](int i) { return 15.f - i; }, 16},
    };
    int failed = 0;
    for (auto& p : puzzles) {
        cudaMemcpy(da, a.data(), N * 4, cudaMemcpyHostToDevice);
        cudaMemcpy(db, b.data(), N * 4, cudaMemcpyHostToDevice);
        cudaMemset(dout, 0, N * 4);
        p.launch(dout, da, db);
        cudaMemcpy(out.data(), dout, N * 4, cudaMemcpyDeviceToHost);
        bool ok = true;
        for (int i = 0; i < p.n; i++) ok &= std::fabs(out[i] - p.expected(i)) < 1e-3f;
        if (!ok) printf("failed: %s\n", p.name);
        failed += !ok;
    }
    printf("%zu puzzles, %d failed\n", puzzles.size(), failed);
    cudaFree(da); cudaFree(db); cudaFree(dout);
    return failed;
}
