// verdict: race at line 13 or 16
// Speculative greedy colouring: read the neighbours' colours, take the first free one, repair later.
#include <cstdio>
#include <vector>
#define COLORS 32

__global__ void speculate(int n, const int *rowptr, const int *colidx, int *color)
{
    const int v = threadIdx.x + blockDim.x * blockIdx.x;
    if (v >= n || color[v] >= 0) return;
    unsigned used = 0;
    for (int e = rowptr[v]; e < rowptr[v + 1]; e++) {
        int c = color[colidx[e]];
        if (c >= 0) used |= 1u << c;
    }
    color[v] = __ffs(~used) - 1;
}

__global__ void repair(int n, const int *rowptr, const int *colidx, const int *color, int *fixed, int *conflicts)
{
    const int v = threadIdx.x + blockDim.x * blockIdx.x;
    if (v >= n) return;
    bool bad = false;
    for (int e = rowptr[v]; e < rowptr[v + 1]; e++) bad |= color[colidx[e]] == color[v] && colidx[e] > v;
    fixed[v] = bad ? -1 : color[v];
    if (bad) atomicAdd(conflicts, 1);
}

int main()
{
    const int n = 256;
    std::vector<int> rowptr(n + 1), colidx;
    for (int v = 0; v < n; v++) {
        for (int d : {1, 5, 33}) { colidx.push_back((v + d) % n); colidx.push_back((v + n - d) % n); }
        rowptr[v + 1] = colidx.size();
    }
    int *r, *c, *color, *fixed, *k, left = 1, rounds = 0;
    cudaMalloc(&r, rowptr.size() * 4); cudaMalloc(&c, colidx.size() * 4);
    cudaMalloc(&color, n * 4); cudaMalloc(&fixed, n * 4); cudaMalloc(&k, 4);
    cudaMemcpy(r, rowptr.data(), rowptr.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(c, colidx.data(), colidx.size() * 4, cudaMemcpyHostToDevice);
    cudaMemset(color, 255, n * 4);
    while (left && rounds++ < 50) {
        cudaMemset(k, 0, 4);
        speculate<<<n / 64, 64>>>(n, r, c, color);
        repair<<<n / 64, 64>>>(n, r, c, color, fixed, k);
        cudaMemcpy(color, fixed, n * 4, cudaMemcpyDeviceToDevice);
        cudaMemcpy(&left, k, 4, cudaMemcpyDeviceToHost);
    }
    printf("%s\n", left ? "no colouring" : "coloured");
    cudaFree(r); cudaFree(c); cudaFree(color); cudaFree(fixed); cudaFree(k);
    return 0;
}
