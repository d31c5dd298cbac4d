// verdict: race at line 13 or 15
// Each element is added to a bin by compare-and-swap; a bin beside it, which others change, is read as it is.
#include <cstdio>
#include <cuda_runtime.h>

constexpr int kBins = 8;

__global__ void spread(const int* x, int n, int* bins, int* fuller) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int mine = x[i] % kBins, next = (mine + 1) % kBins;
  int old = atomicAdd(&bins[mine], 0), assumed;
  const int beside = bins[next];
  do {
    assumed = old, old = atomicCAS(&bins[mine], assumed, assumed + 1);
  } while (assumed != old);
  fuller[i] = old > beside;
}

int main() {
  const int n = 1024;
  int h[n], bins[kBins], *x, *d_bins, *fuller;
  for (int i = 0; i < n; i++) h[i] = i * 13 + i / 5;
  cudaMalloc(&x, sizeof h);
  cudaMalloc(&fuller, sizeof h);
  cudaMalloc(&d_bins, sizeof bins);
  cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
  cudaMemset(d_bins, 0, sizeof bins);
  spread<<<n / 128, 128>>>(x, n, d_bins, fuller);
  cudaMemcpy(bins, d_bins, sizeof bins, cudaMemcpyDeviceToHost);
  int sum = 0;
  for (int b : bins) sum += b;
  printf("%s\n", sum == n ? "right" : "wrong");
  return sum == n ? 0 : 1;
}
