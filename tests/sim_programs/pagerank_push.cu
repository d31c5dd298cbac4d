// verdict: clean
// PageRank, push: every vertex sends its share along its edges.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

__global__ void push(const int* off, const int* adj, const float* rank, float* next, int n) {
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (warp >= n) return;
  const int first = off[warp], last = off[warp + 1];
  const float share = rank[warp] / (last - first);
  for (int e = first + lane; e < last; e += 32) atomicAdd(next + adj[e], share);
}

__global__ void finish(float* rank, float* next, int n) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n) return;
  rank[v] = 0.15f / n + 0.85f * next[v];
  next[v] = 0;
}

int main() {
  const int n = 200, deg = 8;
  std::vector<int> off(n + 1), adj(n * deg);
  for (int v = 0; v <= n; ++v) off[v] = v * deg;
  for (int v = 0; v < n; ++v)
    for (int k = 0; k < deg; ++k) adj[v * deg + k] = (v * 3 + k * k * 7 + 1) % n;  // some vertices are popular
  std::vector<float> rank(n, 1.0f / n);
  int *d_off, *d_adj;
  float *d_rank, *d_next;
  cudaMalloc(&d_off, off.size() * sizeof(int));
  cudaMalloc(&d_adj, adj.size() * sizeof(int));
  cudaMalloc(&d_rank, n * sizeof(float));
  cudaMalloc(&d_next, n * sizeof(float));
  cudaMemcpy(d_off, off.data(), off.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(d_adj, adj.data(), adj.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(d_rank, rank.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemset(d_next, 0, n * sizeof(float));
  for (int it = 0; it < 5; ++it) {
    push<<<(n * 32 + 127) / 128, 128>>>(d_off, d_adj, d_rank, d_next, n);
    finish<<<(n + 127) / 128, 128>>>(d_rank, d_next, n);
  }
  cudaMemcpy(rank.data(), d_rank, n * sizeof(float), cudaMemcpyDeviceToHost);
  double sum = 0;
  for (float r : rank) sum += r;
  printf("ranks %s\n", std::fabs(sum - 1) < 1e-4 ? "add up to 1" : "are lost");
  cudaFree(d_off); cudaFree(d_adj); cudaFree(d_rank); cudaFree(d_next);
  return std::fabs(sum - 1) < 1e-4 ? 0 : 1;
}
