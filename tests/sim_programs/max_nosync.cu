// verdict: race at line 22
// Maximum of an array.
#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>

static void check(cudaError_t e, int line) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "line %d: %s\n", line, cudaGetErrorName(e));
  std::exit(2);
}
#define CK(...) check((__VA_ARGS__), __LINE__)

__global__ void block_max(const float* x, int n, float* part) {
  __shared__ float s[128];
  float m = -FLT_MAX;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) m = fmaxf(m, x[i]);
  s[threadIdx.x] = m;
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) part[blockIdx.x] = s[0];
}

int main() {
  constexpr int n = 3000, blocks = 4, threads = 128;
  std::vector<float> h(n);
  for (int i = 0; i < n; ++i) h[i] = float((i * 7919) % 3001) - 1500.f;
  float *x, *part, best[blocks];
  CK(cudaMalloc(&x, n * sizeof(float)));
  CK(cudaMalloc(&part, blocks * sizeof(float)));
  CK(cudaMemcpy(x, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  block_max<<<blocks, threads>>>(x, n, part);
  CK(cudaGetLastError());
  CK(cudaMemcpy(best, part, sizeof(best), cudaMemcpyDeviceToHost));
  float m = *std::max_element(best, best + blocks), want = *std::max_element(h.begin(), h.end());
  std::printf("maximum %g, expected %g\n", m, want);
  CK(cudaFree(x));
  CK(cudaFree(part));
  return m != want;
}
