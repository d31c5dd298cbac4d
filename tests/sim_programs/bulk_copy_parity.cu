// verdict: race at line 54 or 56 or 57
// flags: -arch=sm_90a
// Hopper's bulk copies in plain PTX: a ring of two stages in shared memory, one producer thread, the whole block consumes.
#include <cstdint>
#include <cstdio>
#include <vector>

constexpr int kStages = 2, kTile = 256, kThreads = 128;

__device__ __forceinline__ uint32_t smem_u32(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void mbar_init(uint64_t* bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_u32(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void mbar_expect_tx(uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_u32(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbar_arrive(uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_u32(bar)) : "memory");
}
__device__ __forceinline__ void mbar_wait(uint64_t* bar, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "WAIT_LOOP_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE_%=;\n"
      "bra WAIT_LOOP_%=;\n"
      "DONE_%=:\n"
      "}\n" ::"r"(smem_u32(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void bulk_g2s(void* dst, const void* src, uint32_t bytes, uint64_t* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem_u32(dst)),
               "l"(src), "r"(bytes), "r"(smem_u32(bar)) : "memory");
}

__global__ void sum_tiles(const float* __restrict__ x, float* out, int tiles) {
  __shared__ alignas(128) float buffer[kStages][kTile];
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbar_init(&full[s], 1);
      mbar_init(&empty[s], kThreads);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  float sum = 0;
  for (int t = 0; t < tiles; ++t) {
    const int s = t % kStages, phase = t / kStages & 1;
    if (threadIdx.x == 0) {
      if (t >= kStages) mbar_wait(&empty[s], phase ^ 1);
      mbar_expect_tx(&full[s], kTile * sizeof(float));
      bulk_g2s(buffer[s], x + t * kTile, kTile * sizeof(float), &full[s]);
    }
    mbar_wait(&full[s], phase ^ 1);
    for (int i = threadIdx.x; i < kTile; i += kThreads) sum += buffer[s][i];
    mbar_arrive(&empty[s]);
  }
  atomicAdd(out, sum);
}

int main() {
  const int tiles = 7;
  std::vector<float> h(tiles * kTile);
  float expected = 0, got = 0;
  for (int i = 0; i < tiles * kTile; ++i) expected += h[i] = i % 9;
  float *x, *out;
  cudaMalloc(&x, h.size() * sizeof(float));
  cudaMalloc(&out, sizeof(float));
  cudaMemcpy(x, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemset(out, 0, sizeof(float));
  sum_tiles<<<1, kThreads>>>(x, out, tiles);
  cudaError_t e = cudaMemcpy(&got, out, sizeof(float), cudaMemcpyDeviceToHost);
  printf("%s: sum %g, expected %g\n", cudaGetErrorString(e), got, expected);
  cudaFree(x);
  cudaFree(out);
  return got != expected;
}
