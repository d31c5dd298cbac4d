// verdict: clean
// The host and a kernel change managed counters at the same time, with atomic operations of the system's scope.
#include <cstdio>
#include <cuda/atomic>
#include <new>

__global__ void count(int *counters, cuda::std::atomic<int> *done, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < rounds; ++k) {
    atomicAdd_system(&counters[0], 1);
    atomicMax_system(&counters[1], i);
    atomicCAS_system(&counters[2], 0, i + 1);
  }
  done->fetch_add(1, cuda::memory_order_relaxed);
}

int main() {
  const int threads = 128, blocks = 4, rounds = 3;
  int *counters;
  cuda::std::atomic<int> *done;
  cudaMallocManaged(&counters, 3 * sizeof(int));
  cudaMallocManaged(&done, sizeof(*done));
  for (int i = 0; i < 3; ++i) counters[i] = 0;
  new (done) cuda::std::atomic<int>(0);
  count<<<blocks, threads>>>(counters, done, rounds);
  for (int k = 0; k < 100; ++k) {
    __sync_fetch_and_add(&counters[0], 1);
    int seen = counters[1];
    while (seen < 77 && !__sync_bool_compare_and_swap(&counters[1], seen, 77)) seen = counters[1];
  }
  const int some = static_cast<volatile cuda::std::atomic<int> *>(done)->load(cuda::memory_order_acquire);
  cudaDeviceSynchronize();
  const int want = 100 + blocks * threads * rounds;
  printf("system_atomics: %d of %d, %d\n", counters[0], want, some <= done->load());
  return counters[0] != want || counters[1] != blocks * threads - 1 || counters[2] == 0;
}
