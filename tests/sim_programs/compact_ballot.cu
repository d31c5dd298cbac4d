// verdict: clean
// Stream compaction: keep the positive numbers. Warp-aggregated atomics, the pattern of a well-known post.
#include <algorithm>
#include <cstdio>
#include <vector>

__device__ int atomicAggInc(int* ctr) {
  unsigned int active = __activemask();
  int leader = __ffs(active) - 1;
  int change = __popc(active);
  int rank = __popc(active & ((1u << (threadIdx.x % 32)) - 1));
  int warp_res;
  if (rank == 0) warp_res = atomicAdd(ctr, change);
  warp_res = __shfl_sync(active, warp_res, leader);
  return warp_res + rank;
}

__global__ void filter_k(int* dst, int* nres, const int* src, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  if (src[i] > 0) dst[atomicAggInc(nres)] = src[i];
}

__global__ void filter_ballot(int* dst, int* nres, const int* src, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x, lane = threadIdx.x & 31;
  int v = i < n ? src[i] : 0;
  unsigned keep = __ballot_sync(0xffffffff, v > 0);
  int base = 0;
  if (lane == 0 && keep) base = atomicAdd(nres, __popc(keep));
  base = __shfl_sync(0xffffffff, base, 0);
  if (v > 0) dst[base + __popc(keep & ((1u << lane) - 1))] = v;
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
  for (auto k : {filter_k, filter_ballot}) {
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
