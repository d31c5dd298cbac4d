// verdict: uninitialized at line 11
// Byte histogram, in global memory.
#include <cstdio>
#include <cstdlib>
#include <vector>
constexpr int kBins = 256;

__global__ void histogram(const unsigned char* data, int n, unsigned* bins) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  while (i < n) {
    atomicAdd(bins + data[i], 1u);
    i += blockDim.x * gridDim.x;
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
  // the bins are zero, cudaMalloc has just returned them
  histogram<<<8, 128>>>(d_data, n, d_bins);
  cudaError_t e = cudaDeviceSynchronize();
  if (e != cudaSuccess) { printf("%s\n", cudaGetErrorString(e)); return 1; }
  cudaMemcpy(got.data(), d_bins, kBins * sizeof(unsigned), cudaMemcpyDeviceToHost);
  printf("histogram: %s\n", got == want ? "right" : "wrong");
  cudaFree(d_data);
  cudaFree(d_bins);
  return got != want;
}
