// verdict: clean
// Inline PTX: special registers, memory, predicates, carries, votes, bits.
#include <cstdint>
#include <cstdio>
__device__ __forceinline__ unsigned lane_id() {
  unsigned r;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(r));
  return r;
}
__device__ __forceinline__ float ldnc(const float* p) {
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ float4 ld4(const float4* p) {
  float4 v;
  asm("ld.global.nc.L1::no_allocate.v4.f32 {%0,%1,%2,%3}, [%4];"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "l"(p));
  return v;
}
__global__ void k(const float* in, float* out, unsigned* u, int n) {
  __shared__ float s[64];
  unsigned addr;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(addr) : "l"(s + threadIdx.x));
  float v = ldnc(in + threadIdx.x);
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(addr), "f"(v) : "memory");
  asm volatile("bar.sync 0;");
  float w;
  asm volatile("ld.shared.f32 %0, [%1+4];"
               : "=f"(w)
               : "r"((unsigned)__cvta_generic_to_shared(s + (threadIdx.x & ~1u))));
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(w));
  out[threadIdx.x] = e;
  float4 q = ld4(reinterpret_cast<const float4*>(in) + (threadIdx.x & 15));
  out[64 + threadIdx.x] = q.x + q.y + q.z + q.w;
  unsigned lo, hi;
  asm("{ add.cc.u32 %0, %2, %4; addc.u32 %1, %3, %5; }"
      : "=r"(lo), "=r"(hi)
      : "r"(0xffffffffu), "r"(1u), "r"(2u), "r"(threadIdx.x));
  u[4 * threadIdx.x] = lo + hi;
  int mx;
  asm("{ .reg .pred p; setp.gt.s32 p, %1, %2; selp.s32 %0, %1, %2, p; }"
      : "=r"(mx)
      : "r"((int)threadIdx.x - 5), "r"(-2));
  u[4 * threadIdx.x + 1] = mx;
  unsigned sh;
  asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(sh) : "r"(lane_id()));
  unsigned lt;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
  unsigned bal;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, -1; }"
               : "=r"(bal)
               : "r"(threadIdx.x & 1));
  u[4 * threadIdx.x + 2] = sh + 100 * __popc(bal & lt);
  unsigned old;
  asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(u + 4 * 64), "r"(1u) : "memory");
  unsigned b3;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(b3) : "r"(5), "r"(6), "r"(7));
  unsigned bf;
  asm("bfe.u32 %0, %1, 4, 8;" : "=r"(bf) : "r"(0xabcd));
  u[4 * threadIdx.x + 3] = b3 * 1000 + bf;
}
int main() {
  float *in, *out;
  unsigned* u;
  cudaMalloc(&in, 256);
  cudaMalloc(&out, 512);
  cudaMalloc(&u, 4 * 65 * 4);
  float h[64];
  for (int i = 0; i < 64; ++i) h[i] = i % 8;
  cudaMemcpy(in, h, 256, cudaMemcpyHostToDevice);
  cudaMemset(u, 0, 4 * 65 * 4);
  k<<<1, 64>>>(in, out, u, 64);
  float r[128];
  unsigned ru[4 * 65];
  cudaMemcpy(r, out, 512, cudaMemcpyDeviceToHost);
  cudaMemcpy(ru, u, sizeof ru, cudaMemcpyDeviceToHost);
  bool ok = true;
  for (unsigned i = 0; i < 64; ++i) {
    float w = exp2f((i & ~1u) % 8 + 1);
    ok &= r[i] == w;
    if (r[i] != w) printf("%u: %g %g\n", i, r[i], w);
    float s = 0;
    for (int j = 0; j < 4; ++j) s += h[(i & 15) * 4 + j];
    ok &= r[64 + i] == s;
    ok &= ru[4 * i] == 1 + 1 + i + 1;
    if (ru[4 * i] != 3 + i) printf("carry %u %u\n", i, ru[4 * i]);
    ok &= int(ru[4 * i + 1]) == (int(i) - 5 > -2 ? int(i) - 5 : -2);
    ok &= ru[4 * i + 2] == ((i % 32) ^ 1) + 100 * (i % 32 / 2);
    if (ru[4 * i + 2] != ((i % 32) ^ 1) + 100 * (i % 32 / 2)) printf("sh %u %u\n", i, ru[4 * i + 2]);
    ok &= ru[4 * i + 3] == (5 ^ 6 ^ 7) * 1000 + 0xbc;
  }
  ok &= ru[256] == 64;
  printf(ok ? "PASSED\n" : "FAILED\n");
  return !ok;
}
