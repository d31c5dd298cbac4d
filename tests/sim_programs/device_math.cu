// verdict: clean
// Device functions of many kinds, compared with the host.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <math_constants.h>

struct Test { const char* name; double got, want, tolerance; };

__global__ void floats(double* o) {
  int k = 0;
  o[k++] = __fmaf_rn(2.f, 3.f, 4.f);
  o[k++] = __frcp_rn(4.f);
  o[k++] = __fsqrt_rn(2.f);
  o[k++] = __fdiv_rn(1.f, 3.f);
  o[k++] = __powf(2.f, 0.5f);
  o[k++] = __log2f(8.f);
  o[k++] = __log10f(1000.f);
  o[k++] = exp10f(2.f);
  o[k++] = exp2f(3.5f);
  o[k++] = cbrtf(27.f);
  o[k++] = hypotf(3.f, 4.f);
  o[k++] = erff(0.5f);
  o[k++] = erfcf(0.5f);
  o[k++] = tgammaf(5.f);
  o[k++] = lgammaf(5.f);
  o[k++] = normcdff(0.f);
  o[k++] = rhypotf(3.f, 4.f);
  o[k++] = fdimf(5.f, 3.f);
  o[k++] = fmodf(7.5f, 2.f);
  o[k++] = remainderf(7.5f, 2.f);
  o[k++] = copysignf(3.f, -1.f);
  o[k++] = atan2f(1.f, 1.f);
  o[k++] = sinpif(0.5f);
  o[k++] = rsqrt(4.0);
  o[k++] = ldexpf(1.5f, 4);
  o[k++] = log1pf(0.1f);
  o[k++] = expm1f(0.1f);
  o[k++] = rint(2.5);
  o[k++] = nearbyintf(3.5f);
  o[k++] = truncf(-2.7f);
  o[k++] = __saturatef(1.5f);
  float s, c;
  sincosf(1.f, &s, &c);
  o[k++] = s * s + c * c;
  o[k++] = norm3df(1.f, 2.f, 2.f);
  o[k++] = isnan(CUDART_NAN_F) + isinf(CUDART_INF_F) + signbit(-1.f);
  o[k++] = CUDART_PI_F;
  o[k++] = fma(2.0, 3.0, 0.5);
  o[k++] = __dadd_rn(1.0, 2.0);
  int e;
  o[k++] = frexpf(8.f, &e) + e;
}

__global__ void integers(long long* o) {
  int k = 0;
  o[k++] = __popc(0xf0f0u);
  o[k++] = __popcll(0xffffffffffull);
  o[k++] = __clz(1);
  o[k++] = __clzll(1ll);
  o[k++] = __ffs(8);
  o[k++] = __ffsll(1ll << 40);
  o[k++] = __brev(1u);
  o[k++] = (long long)(__brevll(1ull) >> 32);
  o[k++] = __mul24(1000, 1000);
  o[k++] = __umul24(0x1000001u, 3u);
  o[k++] = __mulhi(1 << 30, 16);
  o[k++] = __umulhi(0x80000000u, 4u);
  o[k++] = (long long)__umul64hi(1ull << 63, 4ull);
  o[k++] = __sad(3, 7, 10u);
  o[k++] = __usad(3u, 7u, 10u);
  o[k++] = __hadd(5, 8);
  o[k++] = __rhadd(5, 8);
  o[k++] = __byte_perm(0x03020100u, 0x07060504u, 0x5410u);
  o[k++] = __funnelshift_l(0x80000000u, 1u, 1u);
  o[k++] = __funnelshift_r(1u, 1u, 1u);
  o[k++] = __dp4a(0x01020304, 0x01010101, 5);
  o[k++] = __float_as_int(1.0f);
  o[k++] = __double_as_longlong(1.0);
  o[k++] = __double2hiint(1.0);
  o[k++] = __double2int_rn(2.5);
  o[k++] = __float2int_ru(2.1f);
  o[k++] = __float2int_rd(-2.1f);
  o[k++] = __float2uint_rz(7.9f);
  o[k++] = __float2ll_rn(1e10f);
  o[k++] = (long long)__int2float_rn(16777217);
  o[k++] = __vadd4(0x01020304u, 0x01010101u);
  o[k++] = __vabsdiffu4(0x05050505u, 0x01020304u);
  o[k++] = max(3u, 5u) + min(-2, 4) + (int)fmaxf(1.f, 2.f) + abs(-3) + (int)llabs(-4ll);
  o[k++] = umin(3u, 5u) + umax(3u, 5u);
  o[k++] = __isGlobal(o) + 2 * __isShared(o);
}

int main() {
  double f[64] = {}, *df;
  long long i[64] = {}, *di;
  cudaMalloc(&df, sizeof f);
  cudaMalloc(&di, sizeof i);
  cudaMemset(df, 0, sizeof f);
  cudaMemset(di, 0, sizeof i);
  floats<<<1, 1>>>(df);
  integers<<<1, 1>>>(di);
  cudaMemcpy(f, df, sizeof f, cudaMemcpyDeviceToHost);
  cudaMemcpy(i, di, sizeof i, cudaMemcpyDeviceToHost);
  const double wf[] = {10, .25, std::sqrt(2.), 1. / 3, std::sqrt(2.), 3, 3, 100, std::exp2(3.5), 3, 5, std::erf(.5), std::erfc(.5), 24,
                       std::log(24.), .5, .2, 2, 1.5, -.5, -3, M_PI / 4, 1, .5, 24, std::log1p(.1), std::expm1(.1), 2, 4, -2, 1, 1, 3, 3,
                       M_PI, 6.5, 3, 4.5};
  const long long wi[] = {8, 40, 31, 63, 4, 41, 0x80000000ll, 0x80000000ll, 1000000, 3, 4, 2, 2, 14, 14, 6, 7, 0x05040100, 3,
                          (long long)0x80000000u, 15, 0x3f800000, 0x3ff0000000000000ll, 0x3ff00000, 2, 3, -3, 7, 10000000000ll, 16777216,
                          0x02030405, 0x04030201, 5 - 2 + 2 + 3 + 4, 8, 1};
  int bad = 0;
  for (unsigned k = 0; k < sizeof wf / sizeof *wf; ++k)
    if (!(std::fabs(f[k] - wf[k]) <= 1e-5 * (1 + std::fabs(wf[k])))) { printf("float %u: %g, expected %g\n", k, f[k], wf[k]); ++bad; }
  for (unsigned k = 0; k < sizeof wi / sizeof *wi; ++k)
    if (i[k] != wi[k]) { printf("integer %u: %llx, expected %llx\n", k, i[k], wi[k]); ++bad; }
  printf("device math: %d wrong\n", bad);
  cudaFree(df);
  cudaFree(di);
  return bad;
}
