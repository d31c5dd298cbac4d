// verdict: race at line 15 or 17
// Neighbours exchange values through shared memory, by ld.shared and st.shared; bar.sync is missing.
#include <cstdint>
#include <cstdio>

__device__ __forceinline__ uint32_t address_of(const void* p) {
  uint32_t address;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(p));
  return address;
}

__global__ void rotate(const float* in, float* out) {
  __shared__ float s[128];
  float v = in[threadIdx.x];
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address_of(&s[threadIdx.x])), "f"(v) : "memory");
  float w;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(w) : "r"(address_of(&s[(threadIdx.x + 32) % 128])));
  out[threadIdx.x] = w;
}

int main() {
  float host[128], *in, *out;
  for (int i = 0; i < 128; ++i) host[i] = float(i);
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&out, sizeof host);
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  rotate<<<1, 128>>>(in, out);
  cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  printf("%g\n", host[0]);
  cudaFree(in);
  cudaFree(out);
  return 0;
}
