// verdict: race at line 10 or 12 or 13 or 14
// BFS with masks, but both phases in one kernel: a block may read what another one has just marked.
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void level_step(const int *off, const int *adj, int *dist, int level, int *again, int n)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || dist[v] != level) return;
    for (int e = off[v]; e < off[v + 1]; ++e)
        if (dist[adj[e]] == -1) {
            dist[adj[e]] = level + 1;
            *again = 1;
        }
}

int main()
{
    const int n = 700, deg = 4;
    std::vector<int> off(n + 1), adj(n * deg), dist(n, -1);
    for (int v = 0; v <= n; ++v) off[v] = v * deg;
    srand(5);
    for (int &a : adj) a = rand() % n;
    dist[0] = 0;
    int *d_off, *d_adj, *d_dist, *d_again;
    cudaMalloc(&d_off, (n + 1) * sizeof(int));
    cudaMalloc(&d_adj, n * deg * sizeof(int));
    cudaMalloc(&d_dist, n * sizeof(int));
    cudaMalloc(&d_again, sizeof(int));
    cudaMemcpy(d_off, off.data(), (n + 1) * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_adj, adj.data(), n * deg * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_dist, dist.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    int again = 1, level = 0;
    while (again) {
        again = 0;
        cudaMemcpy(d_again, &again, sizeof(int), cudaMemcpyHostToDevice);
        level_step<<<(n + 63) / 64, 64>>>(d_off, d_adj, d_dist, level++, d_again, n);
        cudaMemcpy(&again, d_again, sizeof(int), cudaMemcpyDeviceToHost);
    }
    cudaMemcpy(dist.data(), d_dist, n * sizeof(int), cudaMemcpyDeviceToHost);
    int reached = 0;
    for (int d : dist) reached += d >= 0;
    printf("%d levels, %d reached\n", level, reached);
    cudaFree(d_off); cudaFree(d_adj); cudaFree(d_dist); cudaFree(d_again);
    return 0;
}
