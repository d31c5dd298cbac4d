// verdict: clean
// PageRank, pull: every vertex adds up what its in-neighbours send.
#include <cstdio>
#include <cmath>
#include <vector>
#include <utility>

#define CUDA_CHECK(expr)                                                            \
  if (auto status_ = (expr); status_ != cudaSuccess) {                              \
    std::fprintf(stderr, "%s: %s\n", #expr, cudaGetErrorString(status_));           \
    std::exit(1);                                                                   \
  }

constexpr float kDamping = 0.85f;

template <typename T>
T* upload(const std::vector<T>& host) {
  T* device = nullptr;
  CUDA_CHECK(cudaMalloc(&device, host.size() * sizeof(T)));
  CUDA_CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

__global__ void contributions(const float* rank, const int* out_degree, float* contrib, int n) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < n) contrib[v] = out_degree[v] ? rank[v] / out_degree[v] : 0.f;
}

__global__ void pull(const int* in_off, const int* in_adj, const float* contrib, float* rank, float* error, int n) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  float delta = 0.f;
  if (v < n) {
    float sum = 0.f;
    for (int e = in_off[v]; e < in_off[v + 1]; ++e) sum += contrib[in_adj[e]];
    float updated = (1.f - kDamping) / n + kDamping * sum;
    delta = fabsf(updated - rank[v]);
    rank[v] = updated;
  }
  for (int d = 16; d; d >>= 1) delta += __shfl_down_sync(~0u, delta, d);
  if (threadIdx.x % 32 == 0) atomicAdd(error, delta);
}

int main() {
  const int n = 300, deg = 5, iterations = 8;
  std::vector<std::vector<int>> in(n);
  std::vector<int> degree(n, deg);
  unsigned s = 4;
  for (int v = 0; v < n; ++v)
    for (int k = 0; k < deg; ++k) { s = s * 69069u + 1u; in[(s >> 12) % n].push_back(v); }
  std::vector<int> off{0}, adj;
  for (auto& list : in) { adj.insert(adj.end(), list.begin(), list.end()); off.push_back(adj.size()); }
  std::vector<float> rank(n, 1.f / n), contrib(n, 0.f), zero(1, 0.f);
  int *d_off = upload(off), *d_adj = upload(adj), *d_deg = upload(degree);
  float *d_rank = upload(rank), *d_contrib = upload(contrib), *d_err = upload(zero);
  float err = 0;
  for (int it = 0; it < iterations; ++it) {
    CUDA_CHECK(cudaMemset(d_err, 0, sizeof(float)));
    contributions<<<(n + 127) / 128, 128>>>(d_rank, d_deg, d_contrib, n);
    pull<<<(n + 127) / 128, 128>>>(d_off, d_adj, d_contrib, d_rank, d_err, n);
    CUDA_CHECK(cudaMemcpy(&err, d_err, sizeof(float), cudaMemcpyDeviceToHost));
  }
  std::vector<float> got(n);
  CUDA_CHECK(cudaMemcpy(got.data(), d_rank, n * sizeof(float), cudaMemcpyDeviceToHost));
  std::vector<double> a(n, 1.0 / n), b(n);
  for (int it = 0; it < iterations; ++it) {
    for (int v = 0; v < n; ++v) {
      double sum = 0;
      for (int e = off[v]; e < off[v + 1]; ++e) sum += a[adj[e]] / deg;
      b[v] = 0.15 / n + 0.85 * sum;
    }
    std::swap(a, b);
  }
  double worst = 0;
  for (int v = 0; v < n; ++v) worst = std::fmax(worst, std::fabs(a[v] - got[v]));
  std::printf("pagerank: %s\n", worst < 1e-6 && err < 0.1f ? "as expected" : "wrong");
  for (void* p : {(void*)d_off, (void*)d_adj, (void*)d_deg, (void*)d_rank, (void*)d_contrib, (void*)d_err}) cudaFree(p);
  return !(worst < 1e-6);
}
