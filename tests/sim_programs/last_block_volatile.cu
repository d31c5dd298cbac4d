// verdict: clean
// The last block to arrive adds what the others have stored, through a volatile pointer, as the old guides do it.
// The lock is an object that the host passes by value: its destructor belongs to the host.
#include <cstdio>

struct Lock {
  int *word;
  Lock() {
    int open = 0;
    cudaMalloc((void **)&word, sizeof(int));
    cudaMemcpy(word, &open, sizeof(int), cudaMemcpyHostToDevice);
  }
  Lock(const Lock &other) : word(other.word), is_copy(true) {}
  ~Lock() {
    if (!is_copy) cudaFree(word);
  }
  __device__ void lock() {
    while (atomicCAS(word, 0, 1) != 0) {
    }
    __threadfence();
  }
  __device__ void unlock() {
    __threadfence();
    atomicExch(word, 0);
  }
  bool is_copy = false;
};

__device__ unsigned int arrived = 0;

__global__ void total(const float *x, int n, volatile float *parts, Lock lock, int *visits) {
  __shared__ float sums[128];
  __shared__ bool is_last;
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += x[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k /= 2) {
    if (threadIdx.x < k) sums[threadIdx.x] += sums[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 64) {
    lock.lock();
    *visits += 1;
    lock.unlock();
  }
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sums[0];
    __threadfence();
    is_last = atomicInc(&arrived, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float all = 0.0f;
    for (int i = 0; i < gridDim.x; ++i) all += parts[i];
    parts[0] = all;
    arrived = 0;
  }
}

int main() {
  const int n = 3000, blocks = 6;
  float h[n], *x, *parts, sum = 0.0f;
  int *visits, count = 0;
  for (int i = 0; i < n; ++i) h[i] = float(i % 3);
  cudaMalloc(&x, sizeof(h));
  cudaMalloc(&parts, blocks * sizeof(float));
  cudaMalloc(&visits, sizeof(int));
  cudaMemcpy(x, h, sizeof(h), cudaMemcpyHostToDevice);
  cudaMemset(visits, 0, sizeof(int));
  Lock lock;
  for (int run = 0; run < 2; ++run) total<<<blocks, 128>>>(x, n, parts, lock, visits);
  cudaMemcpy(&sum, parts, sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(&count, visits, sizeof(int), cudaMemcpyDeviceToHost);
  printf("last_block_volatile: %g, %d visits\n", sum, count);
  return sum != 3000.0f || count != 2 * blocks;
}
