// verdict: clean
// Triangles of an undirected graph: for each edge (u, v), u < v, intersect the sorted lists of neighbours. A counter per block.
#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

__device__ int intersect(const int* a, int na, const int* b, int nb) {
  int i = 0, j = 0, found = 0;
  while (i < na && j < nb) {
    if (a[i] == b[j]) { ++found; ++i; ++j; }
    else if (a[i] < b[j]) ++i;
    else ++j;
  }
  return found;
}

__global__ void count(const int* __restrict__ off, const int* __restrict__ adj, int n, unsigned long long* total) {
  __shared__ unsigned long long block_total;
  if (threadIdx.x == 0) block_total = 0;
  __syncthreads();
  int u = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long mine = 0;
  if (u < n)
    for (int e = off[u]; e < off[u + 1]; ++e) {
      int v = adj[e];
      mine += intersect(adj + off[u], off[u + 1] - off[u], adj + off[v], off[v + 1] - off[v]);
    }
  atomicAdd(&block_total, mine);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(total, block_total);
}

int main() {
  const int n = 128;
  std::vector<std::set<int>> up(n);
  unsigned s = 17;
  for (int k = 0; k < 1500; ++k) {
    s = s * 1664525u + 1013904223u;
    int a = (s >> 10) % n, b = (s >> 20) % n;
    if (a != b) up[std::min(a, b)].insert(std::max(a, b));
  }
  std::vector<int> off{0}, adj;
  for (auto& list : up) { adj.insert(adj.end(), list.begin(), list.end()); off.push_back(adj.size()); }
  unsigned long long expected = 0, got = 0;
  for (int u = 0; u < n; ++u)
    for (int v : up[u])
      for (int w : up[v]) expected += up[u].count(w);
  int *d_off, *d_adj;
  unsigned long long* d_total;
  cudaMalloc(&d_off, off.size() * sizeof(int));
  cudaMalloc(&d_adj, adj.size() * sizeof(int));
  cudaMalloc(&d_total, sizeof(*d_total));
  cudaMemcpy(d_off, off.data(), off.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(d_adj, adj.data(), adj.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(d_total, 0, sizeof(*d_total));
  count<<<2, 64>>>(d_off, d_adj, n, d_total);
  cudaMemcpy(&got, d_total, sizeof(got), cudaMemcpyDeviceToHost);
  printf("triangles: %s\n", got == expected ? "right" : "wrong");
  cudaFree(d_off);
  cudaFree(d_adj);
  cudaFree(d_total);
  return got != expected;
}
