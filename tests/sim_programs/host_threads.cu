// verdict: clean
// Host threads launch kernels, each in a stream of its own.
#include <cstdio>
#include <thread>
#include <vector>
#include <atomic>

__global__ void iota(int* p, int n, int start) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = start + i;
}

std::atomic<int> errors{0};

void work(int id) {
  const int n = 500;
  cudaStream_t s;
  int* d;
  if (cudaStreamCreate(&s) != cudaSuccess || cudaMalloc(&d, n * sizeof(int)) != cudaSuccess) { errors++; return; }
  for (int round = 0; round < 3; ++round) {
    iota<<<2, 64, 0, s>>>(d, n, id * 1000 + round);
    std::vector<int> h(n);
    cudaMemcpyAsync(h.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s);
    for (int i = 0; i < n; ++i) errors += h[i] != id * 1000 + round + i;
  }
  cudaFree(d);
  cudaStreamDestroy(s);
}

int main() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back(work, t);
  for (auto& t : threads) t.join();
  printf("host threads: %d errors\n", errors.load());
  return errors != 0;
}
