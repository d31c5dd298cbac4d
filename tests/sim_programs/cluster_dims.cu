// verdict: clean
// flags: -arch=sm_90
// Blocks of a cluster add up what their neighbours have in shared memory.
#include <cooperative_groups.h>
#include <cstdio>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) exchange(const int* in, int* out) {
  __shared__ int s[64];
  cg::cluster_group cluster = cg::this_cluster();
  s[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  cluster.sync();
  const int* other = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
  int sum = s[threadIdx.x] + other[threadIdx.x];
  cluster.sync();
  out[blockIdx.x * 64 + threadIdx.x] = sum + 1000 * (int)cluster.num_blocks();
}

int main() {
  int host[256], *in, *out, bad = 0;
  for (int i = 0; i < 256; ++i) host[i] = i;
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&out, sizeof host);
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  exchange<<<4, 64>>>(in, out);
  cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 256; ++i) bad += host[i] != 2000 + i + (i ^ 64);
  printf("%d wrong\n", bad);
  cudaFree(in);
  cudaFree(out);
  return bad != 0;
}
