// verdict: race at line 21
// Connected components: the smaller of two labels wins, by plain stores.
#include <cstdio>
#include <numeric>
#include <vector>
#include <functional>
#include <cuda_runtime.h>

struct Edge { int u, v; };

__global__ void init(int* parent, int n) {
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) parent[i] = i;
}

__global__ void hook(const Edge* edges, int m, const int* root, int* parent, int* changed) {
  int e = threadIdx.x + blockIdx.x * blockDim.x;
  if (e >= m) return;
  int a = root[edges[e].u], b = root[edges[e].v];
  if (a == b) return;
  int high = max(a, b), low = min(a, b);
  if (low < parent[high]) parent[high] = low;
  atomicExch(changed, 1);
}

__global__ void jump(const int* parent, int* root, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  int r = i;
  while (parent[r] != r) r = parent[r];
  root[i] = r;
}

int main() {
  const int n = 900, m = 1000;
  std::vector<Edge> edges(m);
  unsigned x = 99;
  auto next = [&] { x ^= x << 13; x ^= x >> 17; x ^= x << 5; return x; };
  for (auto& e : edges) e = {int(next() % n), int(next() % n)};

  Edge* d_edges;
  int *parent, *root, *changed;
  cudaMalloc(&d_edges, m * sizeof(Edge));
  cudaMalloc(&parent, n * sizeof(int));
  cudaMalloc(&root, n * sizeof(int));
  cudaMallocHost(&changed, sizeof(int));
  cudaMemcpy(d_edges, edges.data(), m * sizeof(Edge), cudaMemcpyHostToDevice);
  const int t = 128;
  init<<<2, t>>>(parent, n);
  init<<<2, t>>>(root, n);
  do {
    *changed = 0;
    hook<<<(m + t - 1) / t, t>>>(d_edges, m, root, parent, changed);
    jump<<<(n + t - 1) / t, t>>>(parent, root, n);
    cudaDeviceSynchronize();
  } while (*changed);

  std::vector<int> got(n), uf(n);
  cudaMemcpy(got.data(), root, n * sizeof(int), cudaMemcpyDeviceToHost);
  std::iota(uf.begin(), uf.end(), 0);
  std::function<int(int)> find = [&](int v) { return uf[v] == v ? v : uf[v] = find(uf[v]); };
  for (auto e : edges) {
    int a = find(e.u), b = find(e.v);
    uf[std::max(a, b)] = std::min(a, b);
  }
  int wrong = 0, components = 0;
  for (int v = 0; v < n; ++v) {
    wrong += got[v] != find(v);
    components += got[v] == v;
  }
  printf("%d components, %d labels wrong\n", components, wrong);
  cudaFree(d_edges);
  cudaFree(parent);
  cudaFree(root);
  cudaFreeHost(changed);
  return wrong != 0;
}
