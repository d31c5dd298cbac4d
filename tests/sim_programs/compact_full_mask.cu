// verdict: divergent or shuffle at line 9 or 12 or 20
// Stream compaction: keep the positive numbers. Warp-aggregated atomics, with a full mask.
#include <algorithm>
#include <cstdio>
#include <vector>

__device__ int atomicAggInc(int* ctr) {
  const int lane = threadIdx.x % 32;
  unsigned int all = __ballot_sync(0xffffffff, 1);
  int rank = __popc(all & ((1u << lane) - 1)), base;
  if (rank == 0) base = atomicAdd(ctr, __popc(all));
  return __shfl_sync(all, base, __ffs(all) - 1) + rank;
}

__global__ void filter_k(int* dst, int* nres, const int* src, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  int v = src[i];
  if (v > 0) dst[atomicAggInc(nres)] = v;
  v = __shfl_down_sync(0xffffffff, v, 1);
  if (v > 100) dst[0] = v;
}

int main() {
  const int n = 2000;
  std::vector<int> h(n), want;
  for (int i = 0; i < n; ++i) { h[i] = (i * 31 % 17) - 8; if (h[i] > 0) want.push_back(h[i]); }
  std::sort(want.begin(), want.end());
  int *src, *dst, *count, bad = 0;
  cudaMalloc(&src, n * sizeof(int));
  cudaMalloc(&dst, n * sizeof(int));
  cudaMalloc(&count, sizeof(int));
  cudaMemcpy(src, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  for (auto k : {filter_k}) {
    cudaMemset(count, 0, sizeof(int));
    k<<<(n + 127) / 128, 128>>>(dst, count, src, n);
    int m;
    cudaMemcpy(&m, count, sizeof(int), cudaMemcpyDeviceToHost);
    std::vector<int> got(m);
    cudaMemcpy(got.data(), dst, m * sizeof(int), cudaMemcpyDeviceToHost);
    std::sort(got.begin(), got.end());
    bad += got != want;
  }
  printf("compaction: %s\n", bad ? "wrong" : "right");
  cudaFree(src); cudaFree(dst); cudaFree(count);
  return bad;
}
