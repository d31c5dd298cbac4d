// verdict: uninitialized at line 24
// Maximum of an array, by shuffles. There is room for 32 warps.
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
  __shared__ float s[32];
  float m = -FLT_MAX;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) m = fmaxf(m, x[i]);
  for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_down_sync(0xffffffff, m, d));
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x < 32) {
    m = s[threadIdx.x];
    for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_down_sync(0xffffffff, m, d));
    if (threadIdx.x == 0) part[blockIdx.x] = m;
  }
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
