// verdict: clean
// flags: -arch=sm_90a
// A histogram whose bins are spread over the shared memory of a cluster of blocks.
#include <cooperative_groups.h>
#include <cstdio>
#include <vector>
namespace cg = cooperative_groups;

__global__ void __cluster_dims__(4, 1, 1) clusterHist(int *bins, const int nbins, const int bins_per_block, const int *__restrict__ input, int n)
{
  extern __shared__ int smem[];
  cg::cluster_group cluster = cg::this_cluster();
  const int tid = cg::this_grid().thread_rank();
  const unsigned rank = cluster.block_rank();
  const int cluster_size = cluster.dim_blocks().x;
  for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x) smem[i] = 0;
  cluster.sync();
  for (int i = tid; i < n; i += blockDim.x * gridDim.x) {
    int bin = input[i];
    int *dst = cluster.map_shared_rank(smem, bin / bins_per_block);
    atomicAdd(dst + bin % bins_per_block, 1);
  }
  cluster.sync();
  int *mine = bins + rank * bins_per_block;
  for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x) atomicAdd(&mine[i], smem[i]);
  if (cluster_size != 4) bins[0] = -1;
}

int main()
{
  const int n = 3000, nbins = 64, per_block = nbins / 4;
  std::vector<int> in(n), want(nbins), got(nbins);
  for (int i = 0; i < n; ++i) want[in[i] = i * i % nbins]++;
  int *d_in, *d_bins;
  cudaMalloc(&d_in, n * sizeof(int));
  cudaMalloc(&d_bins, nbins * sizeof(int));
  cudaMemcpy(d_in, in.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(d_bins, 0, nbins * sizeof(int));
  clusterHist<<<8, 64, per_block * sizeof(int)>>>(d_bins, nbins, per_block, d_in, n);
  cudaError_t e = cudaDeviceSynchronize();
  cudaMemcpy(got.data(), d_bins, nbins * sizeof(int), cudaMemcpyDeviceToHost);
  printf("%s: %s\n", cudaGetErrorString(e), got == want ? "right" : "wrong");
  cudaFree(d_in);
  cudaFree(d_bins);
  return got != want;
}
