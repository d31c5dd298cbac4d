// verdict: clean
// BFS with masks, two kernels per level, as in the old benchmark suites. Flags are set with atomicExch.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MAX_THREADS_PER_BLOCK 128

struct Node { int starting; int no_of_edges; };

__global__ void Kernel(const Node *g_graph_nodes, const int *g_graph_edges, int *g_graph_mask, int *g_updating_mask,
                       const int *g_graph_visited, int *g_cost, int no_of_nodes)
{
    int tid = blockIdx.x * MAX_THREADS_PER_BLOCK + threadIdx.x;
    if (tid < no_of_nodes && g_graph_mask[tid]) {
        g_graph_mask[tid] = false;
        for (int i = g_graph_nodes[tid].starting; i < (g_graph_nodes[tid].no_of_edges + g_graph_nodes[tid].starting); i++) {
            int id = g_graph_edges[i];
            if (!g_graph_visited[id]) {
                atomicExch(&g_cost[id], g_cost[tid] + 1);
                atomicExch(&g_updating_mask[id], 1);
            }
        }
    }
}

__global__ void Kernel2(int *g_graph_mask, int *g_updating_mask, int *g_graph_visited, int *g_over, int no_of_nodes)
{
    int tid = blockIdx.x * MAX_THREADS_PER_BLOCK + threadIdx.x;
    if (tid < no_of_nodes && g_updating_mask[tid]) {
        g_graph_mask[tid] = true;
        g_graph_visited[tid] = true;
        atomicExch(g_over, 1);
        g_updating_mask[tid] = false;
    }
}

int main(int argc, char **argv)
{
    int n = 600, deg = 3, i, source = 0;
    Node *nodes = (Node *)malloc(sizeof(Node) * n);
    int *edges = (int *)malloc(sizeof(int) * n * deg);
    srand(11);
    for (i = 0; i < n; i++) { nodes[i].starting = i * deg; nodes[i].no_of_edges = deg; }
    for (i = 0; i < n * deg; i++) edges[i] = rand() % n;
    int *mask = (int *)calloc(n, sizeof(int)), *cost = (int *)malloc(sizeof(int) * n);
    for (i = 0; i < n; i++) cost[i] = -1;
    cost[source] = 0;
    mask[source] = 1;

    Node *d_nodes; int *d_edges, *d_mask, *d_upd, *d_vis, *d_cost, *d_over;
    cudaMalloc((void **)&d_nodes, sizeof(Node) * n);
    cudaMalloc((void **)&d_edges, sizeof(int) * n * deg);
    cudaMalloc((void **)&d_mask, sizeof(int) * n);
    cudaMalloc((void **)&d_upd, sizeof(int) * n);
    cudaMalloc((void **)&d_vis, sizeof(int) * n);
    cudaMalloc((void **)&d_cost, sizeof(int) * n);
    cudaMalloc((void **)&d_over, sizeof(int));
    cudaMemcpy(d_nodes, nodes, sizeof(Node) * n, cudaMemcpyHostToDevice);
    cudaMemcpy(d_edges, edges, sizeof(int) * n * deg, cudaMemcpyHostToDevice);
    cudaMemcpy(d_mask, mask, sizeof(int) * n, cudaMemcpyHostToDevice);
    cudaMemcpy(d_vis, mask, sizeof(int) * n, cudaMemcpyHostToDevice);
    cudaMemset(d_upd, 0, sizeof(int) * n);
    cudaMemcpy(d_cost, cost, sizeof(int) * n, cudaMemcpyHostToDevice);

    int num_of_blocks = (n + MAX_THREADS_PER_BLOCK - 1) / MAX_THREADS_PER_BLOCK, k = 0, stop;
    dim3 grid(num_of_blocks, 1, 1);
    dim3 threads(MAX_THREADS_PER_BLOCK, 1, 1);
    do {
        stop = 0;
        cudaMemcpy(d_over, &stop, sizeof(int), cudaMemcpyHostToDevice);
        Kernel<<<grid, threads, 0>>>(d_nodes, d_edges, d_mask, d_upd, d_vis, d_cost, n);
        Kernel2<<<grid, threads, 0>>>(d_mask, d_upd, d_vis, d_over, n);
        cudaMemcpy(&stop, d_over, sizeof(int), cudaMemcpyDeviceToHost);
        k++;
    } while (stop);

    int *result = (int *)malloc(sizeof(int) * n);
    cudaMemcpy(result, d_cost, sizeof(int) * n, cudaMemcpyDeviceToHost);
    /* relax until nothing changes */
    int changed = 1;
    while (changed) {
        changed = 0;
        for (i = 0; i < n * deg; i++) {
            int u = i / deg, v = edges[i];
            if (cost[u] >= 0 && (cost[v] < 0 || cost[v] > cost[u] + 1)) { cost[v] = cost[u] + 1; changed = 1; }
        }
    }
    int same = !memcmp(cost, result, sizeof(int) * n);
    printf("Kernel executed %d times, %s\n", k, same ? "ok" : "wrong");
    cudaFree(d_nodes); cudaFree(d_edges); cudaFree(d_mask); cudaFree(d_upd); cudaFree(d_vis); cudaFree(d_cost); cudaFree(d_over);
    free(nodes); free(edges); free(mask); free(cost); free(result);
    return !same;
}
