// verdict: clean
// cp.async.wait_all waits for copies that no group has been committed for. Two operands of asm without a comma.
#include <cstdint>
#include <cstdio>
#include <vector>

constexpr int kThreads = 64;

__device__ void copy16(uint32_t shared, const void *global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global));
}

__device__ void store_pair(float *to, float a, float b) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" : : "l"(to + (sizeof("()") - 3)) "f"(a), "f"(b) : "memory");
}

__global__ void add_halves(const float4 *x, float *y, int tiles) {
  __shared__ float4 tile[2 * kThreads];
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  float a = 0.0f, b = 0.0f;
  for (int t = 0; t < tiles; ++t, x += 2 * kThreads) {
    copy16(base + 16 * threadIdx.x, x + threadIdx.x);
    copy16(base + 16 * (kThreads + threadIdx.x), x + kThreads + threadIdx.x);
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    const float4 one = tile[kThreads - 1 - threadIdx.x], other = tile[kThreads + threadIdx.x];
    a += one.x + one.y + one.z + one.w;
    b += other.x + other.y + other.z + other.w;
    __syncthreads();
  }
  store_pair(y + 2 * threadIdx.x, a, b);
}

int main() {
  const int tiles = 3, n = tiles * 8 * kThreads;
  std::vector<float> x(n), y(2 * kThreads), want(2 * kThreads);
  for (int i = 0; i < n; ++i) {
    x[i] = float(i % 13);
    const int quad = i / 4 % (2 * kThreads);
    want[quad < kThreads ? 2 * (kThreads - 1 - quad) : 2 * (quad - kThreads) + 1] += x[i];
  }
  float4 *d_x;
  float *d_y;
  cudaMalloc(&d_x, n * sizeof(float));
  cudaMalloc(&d_y, y.size() * sizeof(float));
  cudaMemcpy(d_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  add_halves<<<1, kThreads>>>(d_x, d_y, tiles);
  cudaMemcpy(y.data(), d_y, y.size() * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (size_t i = 0; i < y.size(); ++i) wrong += y[i] != want[i];
  printf("copy_wait_all: %d wrong sums\n", wrong);
  return wrong != 0;
}
