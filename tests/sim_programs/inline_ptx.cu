// verdict: clean
// Small things that people write in inline PTX.
#include <cstdio>
#include <cstdint>

__device__ __forceinline__ uint32_t lane_id() {
  uint32_t id;
  asm("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}
__device__ __forceinline__ unsigned lanemask_lt() {
  unsigned mask;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
  return mask;
}
__device__ __forceinline__ float4 ld_nc(const float4* p) {
  float4 v;
  asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
  return v;
}
__device__ __forceinline__ void st_cs(float* p, float v) { asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory"); }
__device__ __forceinline__ uint32_t bfe(uint32_t v, uint32_t start, uint32_t len) {
  uint32_t r;
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(v), "r"(start), "r"(len));
  return r;
}
__device__ __forceinline__ int mad(int a, int b, int c) {
  int d;
  asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ uint64_t add_carry(uint64_t a, uint64_t b) {
  uint32_t lo, hi;
  asm("add.cc.u32 %0, %2, %4;\n\t"
      "addc.u32 %1, %3, %5;\n\t"
      : "=r"(lo), "=r"(hi)
      : "r"((uint32_t)a), "r"((uint32_t)(a >> 32)), "r"((uint32_t)b), "r"((uint32_t)(b >> 32)));
  return (uint64_t)hi << 32 | lo;
}
__device__ __forceinline__ float ex2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ int lop(int a, int b, int c) { int d; asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); return d; }

__global__ void test(const float4* in, float* out, int* errors) {
  __shared__ int shared_word[4];
  const int t = threadIdx.x;
  float4 v = ld_nc(in + t);
  st_cs(out + t, v.x + v.y + v.z + v.w);
  int e = 0;
  e += lane_id() != (t & 31);
  e += __popc(lanemask_lt()) != (t & 31);
  e += bfe(0xabcd1234u, 8, 8) != 0x12;
  e += mad(t, 3, 4) != 3 * t + 4;
  e += add_carry(0xffffffffull + t, 1) != 0x100000000ull + t;
  e += ex2(3.0f) < 7.999f || ex2(3.0f) > 8.001f;
  e += lop(t, 5, 9) != (t ^ 5 ^ 9);
  asm volatile("bar.sync 0;");
  if (t % 32 == 0) {
    uint32_t addr = (uint32_t)__cvta_generic_to_shared(shared_word + t / 32);
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(addr), "r"(t) : "memory");
  }
  __syncthreads();
  e += shared_word[(t + 32) % 128 / 32] != (t + 32) % 128 / 32 * 32;
  asm volatile("red.global.add.s32 [%0], %1;" ::"l"(errors), "r"(e) : "memory");
}

int main() {
  float h[512], r[128];
  for (int i = 0; i < 512; ++i) h[i] = i;
  float4* in; float* out; int *errors, e = -1, bad = 0;
  cudaMalloc(&in, sizeof h); cudaMalloc(&out, sizeof r); cudaMalloc(&errors, 4);
  cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
  cudaMemset(errors, 0, 4);
  test<<<1, 128>>>(in, out, errors);
  cudaMemcpy(&e, errors, 4, cudaMemcpyDeviceToHost);
  cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 128; ++i) bad += r[i] != 16 * i + 6;
  printf("inline PTX: %d and %d errors\n", e, bad);
  cudaFree(in); cudaFree(out); cudaFree(errors);
  return e || bad;
}
