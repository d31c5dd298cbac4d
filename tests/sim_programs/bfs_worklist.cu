// verdict: clean
// Level-synchronous BFS, push, with a worklist; a warp reserves its slots with one atomic.
#include <cstdio>
#include <queue>
#include <vector>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

struct CSR { int n; std::vector<int> off, adj; };

static CSR make_graph(int n, int deg) {
  CSR g{n, {0}, {}};
  unsigned s = 12345;
  for (int v = 0; v < n; v++) {
    for (int d = 0; d < deg; d++) { s = s * 1664525u + 1013904223u; g.adj.push_back((s >> 8) % n); }
    g.off.push_back(g.adj.size());
  }
  return g;
}

__device__ int reserve(int* counter) {
  cg::coalesced_group active = cg::coalesced_threads();
  int base = 0;
  if (active.thread_rank() == 0) base = atomicAdd(counter, active.size());
  return active.shfl(base, 0) + active.thread_rank();
}

__global__ void bfs_push(const int* off, const int* adj, int* level, int depth,
                         const int* wl_in, int in_size, int* wl_out, int* out_size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= in_size) return;
  int v = wl_in[i];
  for (int e = off[v]; e < off[v + 1]; e++) {
    int w = adj[e];
    if (atomicCAS(&level[w], -1, depth + 1) == -1) wl_out[reserve(out_size)] = w;
  }
}

int main() {
  CSR g = make_graph(1000, 4);
  int *off, *adj, *level, *wl[2], *size;
  cudaMalloc(&off, g.off.size() * sizeof(int));
  cudaMalloc(&adj, g.adj.size() * sizeof(int));
  cudaMalloc(&level, g.n * sizeof(int));
  cudaMalloc(&wl[0], g.n * sizeof(int));
  cudaMalloc(&wl[1], g.n * sizeof(int));
  cudaMalloc(&size, sizeof(int));
  cudaMemcpy(off, g.off.data(), g.off.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(adj, g.adj.data(), g.adj.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(level, 0xff, g.n * sizeof(int));
  int zero = 0, count = 1, depth = 0;
  cudaMemcpy(&level[0], &zero, sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(wl[0], &zero, sizeof(int), cudaMemcpyHostToDevice);
  while (count > 0) {
    cudaMemset(size, 0, sizeof(int));
    bfs_push<<<(count + 127) / 128, 128>>>(off, adj, level, depth, wl[depth & 1], count, wl[~depth & 1], size);
    cudaMemcpy(&count, size, sizeof(int), cudaMemcpyDeviceToHost);
    depth++;
  }
  std::vector<int> got(g.n), want(g.n, -1);
  cudaMemcpy(got.data(), level, g.n * sizeof(int), cudaMemcpyDeviceToHost);
  std::queue<int> q;
  q.push(0);
  want[0] = 0;
  while (!q.empty()) {
    int v = q.front(); q.pop();
    for (int e = g.off[v]; e < g.off[v + 1]; e++)
      if (want[g.adj[e]] < 0) { want[g.adj[e]] = want[v] + 1; q.push(g.adj[e]); }
  }
  printf("bfs: %d levels, %s\n", depth, got == want ? "correct" : "WRONG");
  for (int* p : {off, adj, level, wl[0], wl[1], size}) cudaFree(p);
  return got != want;
}
