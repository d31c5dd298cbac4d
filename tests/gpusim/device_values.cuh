/// @file
/// Functions of CUDA on many arguments, as a GPU and the simulator compute them: device_values.cu prints what
/// a GPU says, device_values.txt has that of an H200, and device_values_test.cu compares the simulator with
/// it.
///
/// GPUSIM_EXACT_VALUES(V) lists expressions whose bits must be the same, GPUSIM_CLOSE_VALUES(V) those that a
/// GPU approximates. Their variables: u, v, w unsigned; s, t, r int; l, m long long; p, q unsigned long long;
/// x, y, z float; a, b, c double; h, g, k half; hh, gg, kk half2; e, f bfloat16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <curand_kernel.h>

// Macros whose lines would be broken anew each time.
// clang-format off
#define GPUSIM_SIMD_VALUES(V, n)                                                                        \
  V(__vabs##n(u))                                                                                       \
  V(__vabsss##n(u))                                                                                     \
  V(__vneg##n(u))                                                                                       \
  V(__vnegss##n(u))                                                                                     \
  V(__vadd##n(u, v)) V(__vaddss##n(u, v)) V(__vaddus##n(u, v)) V(__vsub##n(u, v)) V(__vsubss##n(u, v))  \
      V(__vsubus##n(u, v)) V(__vavgs##n(u, v)) V(__vavgu##n(u, v)) V(__vhaddu##n(u, v))                 \
          V(__vabsdiffs##n(u, v)) V(__vabsdiffu##n(u, v)) V(__vmaxs##n(u, v)) V(__vmaxu##n(u, v))       \
              V(__vmins##n(u, v)) V(__vminu##n(u, v)) V(__vsads##n(u, v)) V(__vsadu##n(u, v))           \
                  V(__vcmpeq##n(u, v)) V(__vcmpne##n(u, v)) V(__vcmpges##n(u, v)) V(__vcmpgeu##n(u, v)) \
                      V(__vcmpgts##n(u, v)) V(__vcmpgtu##n(u, v)) V(__vcmples##n(u, v))                 \
                          V(__vcmpleu##n(u, v)) V(__vcmplts##n(u, v)) V(__vcmpltu##n(u, v))             \
                              V(__vseteq##n(u, v)) V(__vsetgts##n(u, v)) V(__vsetltu##n(u, v))

#define GPUSIM_ROUNDED_VALUES(V, how)                                                                        \
  V(__fadd_##how(x, y))                                                                                      \
  V(__fsub_##how(x, y))                                                                                      \
  V(__fmul_##how(x, y))                                                                                      \
  V(__fdiv_##how(x, y))                                                                                      \
  V(__fmaf_##how(x, y, z)) V(__frcp_##how(x)) V(__fsqrt_##how(x)) V(__dadd_##how(a, b)) V(__dsub_##how(      \
      a, b)) V(__dmul_##how(a, b)) V(__ddiv_##how(a, b)) V(__fma_##how(a, b, c)) V(__drcp_##how(a))          \
      V(__dsqrt_##how(a)) V(__double2float_##how(a)) V(__int2float_##how(s)) V(__uint2float_##how(u))        \
          V(__ll2float_##how(l)) V(__ull2float_##how(p)) V(__ll2double_##how(l)) V(__ull2double_##how(p))    \
              V(__float2int_##how(x)) V(__float2uint_##how(x)) V(__float2ll_##how(x))                        \
                  V(__float2ull_##how(x)) V(__double2int_##how(a)) V(__double2uint_##how(a))                 \
                      V(__double2ll_##how(a)) V(__double2ull_##how(a)) V(__float2half_##how(x))              \
                          V(__int2half_##how(s)) V(__uint2half_##how(u)) V(__short2half_##how(short(s)))     \
                              V(__ushort2half_##how(Short(u))) V(__ll2half_##how(l)) V(__ull2half_##how(p))  \
                                  V(__half2int_##how(h)) V(__half2uint_##how(h)) V(__half2short_##how(h))    \
                                      V(__half2ushort_##how(h)) V(__half2ll_##how(h)) V(__half2ull_##how(h)) \
                                          V(__float2bfloat16_##how(x)) V(__int2bfloat16_##how(s))            \
                                              V(__uint2bfloat16_##how(u)) V(__ll2bfloat16_##how(l))          \
                                                  V(__bfloat162int_##how(e)) V(__bfloat162uint_##how(e))     \
                                                      V(__bfloat162short_##how(e)) V(__bfloat162ll_##how(e))

#define GPUSIM_HALF_VALUES(V)                                                                                \
  V(__hadd(h, g))                                                                                            \
  V(__hsub(h, g))                                                                                            \
  V(__hmul(h, g))                                                                                            \
  V(__hdiv(h, g))                                                                                            \
  V(__hfma(h, g, k)) V(__hneg(h)) V(__habs(h)) V(__hadd_sat(h, g)) V(__hsub_sat(h, g)) V(                    \
      __hmul_sat(h, g)) V(__hfma_sat(h, g, k)) V(__hfma_relu(h, g, k)) V(__heq(h, g)) V(__hne(h, g))         \
      V(__hlt(h, g)) V(__hgeu(h, g)) V(__hneu(h, g)) V(__hmax(h, g)) V(__hmin(h, g)) V(__hmax_nan(h, g)) V(  \
          __hmin_nan(h, g)) V(__hisnan(h)) V(__hisinf(h)) V(hfloor(h)) V(hceil(h)) V(htrunc(h)) V(hrint(h))  \
          V(__half2char_rz(h)) V(__half2uchar_rz(h)) V(__hadd2(hh, gg)) V(__hmul2_sat(hh, gg))               \
              V(__hfma2(hh, gg, kk)) V(__hfma2_relu(hh, gg, kk)) V(__hcmadd(hh, gg, kk)) V(__heq2(hh, gg))   \
                  V(__hltu2(hh, gg)) V(__hgt2_mask(hh, gg)) V(__hneu2_mask(hh, gg))                          \
                      V(__hble2(hh, gg)) V(__hbgeu2(hh, gg)) V(__hmax2_nan(hh, gg)) V(__hadd(e, f)) V(       \
                          __hmul(e, f)) V(__hfma(e, f, e))                                                   \
                          V(__hfma_sat(e, f, e)) V(__hmax(e, f)) V(__hmin_nan(e, f)) V(__hlt(e, f)) V(       \
                              __hneg(e)) V(hrint(e)) V(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3))  \
                              V(__nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3))                             \
                                  V(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2))                     \
                                      V(__nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2))                     \
                                          V(__nv_cvt_halfraw_to_fp8(h, __NV_SATFINITE, __NV_E5M2))           \
                                              V(__nv_cvt_double_to_fp8(a, __NV_SATFINITE, __NV_E4M3))        \
                                                  V(__half(__nv_cvt_fp8_to_halfraw(u & 0xff, __NV_E5M2))) V( \
                                                      __half(__nv_cvt_fp8_to_halfraw(u & 0xff, __NV_E4M3)))

#define GPUSIM_EXACT_VALUES(V)                                                                               \
  V(__popc(u))                                                                                               \
  V(__popcll(p))                                                                                             \
  V(__clz(s))                                                                                                \
  V(__clzll(l))                                                                                              \
  V(__ffs(s)) V(__ffsll(l)) V(__brev(u)) V(__brevll(p)) V(__fns(u, v & 31, int(w & 7) - 3)) V(__byte_perm(   \
      u, v, w)) V(__funnelshift_l(u, v, w)) V(__funnelshift_r(u, v, w)) V(__funnelshift_lc(u, v, w))         \
      V(__funnelshift_rc(u, v, w)) V(__funnelshift_lc(u, v, w & 63)) V(__mulhi(s, t)) V(__umulhi(u, v))      \
          V(__mul64hi(l, m)) V(__umul64hi(p, q)) V(__mul24(s, t)) V(__umul24(u, v)) V(__dp4a(s, t, r))       \
              V(__dp4a(u, v, w)) V(__dp2a_lo(s, t, r)) V(__dp2a_hi(s, t, r)) V(__dp2a_lo(u, v, w)) V(        \
                  __dp2a_hi(u, v, w)) V(__sad(s, t, u)) V(__usad(u, v, w)) V(__hadd(s, t)) V(__rhadd(s, t))  \
                  V(__uhadd(u, v)) V(__urhadd(u, v)) V(__vimax3_s32(s, t, r)) V(__vimin3_u32(u, v, w)) V(    \
                      __viaddmax_s32(s, t, r)) V(__viaddmin_u32(u, v, w)) V(__viaddmax_s32_relu(s, t, r))    \
                      V(__vimin3_s32_relu(s, t, r)) V(__vimax3_s16x2(u, v, w)) V(__vimin3_u16x2(u, v, w))    \
                          V(__viaddmax_s16x2(u, v, w)) V(__viaddmin_s16x2_relu(u, v, w))                     \
                              V(__saturatef(x)) V(fminf(x, y)) V(max(s, t)) V(min(u, v)) V(fdimf(x, y))      \
                                  V(truncf(x)) V(rintf(x)) V(roundf(x)) V(floor(a)) V(round(a))              \
                                      V(copysignf(x, y)) V(nextafterf(x, y)) V(ldexpf(x, int(u & 63) - 32))  \
                                          V(fmodf(x, y)) V(remainderf(x, y)) V(ilogbf(x)) V(logbf(x))        \
                                              V(__float_as_int(x)) V(__double2hiint(a)) V(__double2loint(a)) \
                                                  V(__hiloint2double(s, t)) V(philox(p, q, u & 1023, w & 7)) \
                                                      V(curand_uniform(&state)) V(curand_uniform_double(     \
                                                          &state)) V(float(s)) V(float(l))                   \
                                                          V(double(p)) V(float(a)) GPUSIM_SIMD_VALUES(V, 2)  \
                                                              GPUSIM_SIMD_VALUES(V, 4)                       \
                                                                  GPUSIM_ROUNDED_VALUES(V, rn)               \
                                                                      GPUSIM_ROUNDED_VALUES(V, rz)           \
                                                                          GPUSIM_ROUNDED_VALUES(V, rd)       \
                                                                              GPUSIM_ROUNDED_VALUES(V, ru)   \
                                                                                  GPUSIM_HALF_VALUES(V)

#define GPUSIM_CLOSE_VALUES(V)                                                                               \
  V(__expf(x))                                                                                               \
  V(__logf(fabsf(x)))                                                                                        \
  V(__fdividef(x, y))                                                                                        \
  V(rsqrtf(fabsf(x)))                                                                                        \
  V(rsqrt(fabs(a))) V(__frsqrt_rn(fabsf(x))) V(rcbrtf(x)) V(cbrt(a)) V(sinpif(x)) V(cospi(a)) V(normcdff(x)) \
      V(normcdf(a)) V(normcdfinvf(__saturatef(x))) V(erfinvf(__saturatef(x))) V(erfinv(fmin(fabs(a), 1.0)))  \
          V(erfcinvf(2.0f * __saturatef(x))) V(erfcinv(fmin(fabs(a), 2.0))) V(erfcxf(x)) V(erfcx(a))         \
              V(erff(x)) V(erfc(a)) V(j0f(x)) V(j1(a)) V(y0f(fabsf(x))) V(cyl_bessel_i0f(x))                 \
                  V(cyl_bessel_i1(a)) V(tgammaf(x)) V(lgamma(a)) V(hypotf(x, y)) V(rhypot(a, b))             \
                      V(norm3df(x, y, z)) V(rnorm3d(a, b, c)) V(norm4d(a, b, c, a)) V(rnorm4df(x, y, z, x))  \
                          V(exp10f(x)) V(exp2(a)) V(expm1f(x)) V(log1p(fabs(a))) V(powf(fabsf(x), y))        \
                              V(tanhf(x)) V(sinhf(x)) V(atan2f(x, y)) V(asin(fmin(fabs(a), 1.0))) V(sinf(x)) \
                                  V(curand_normal(&state)) V(curand_normal(&state))                          \
                                      V(curand_normal4(&state).z) V(hexp(h)) V(hlog2(h)) V(hsqrt(h))         \
                                          V(hrsqrt(h)) V(hrcp(h)) V(hsin(h)) V(htanh(h)) V(hexp10(h))        \
                                              V(hexp(e))

namespace gpusim_values {

constexpr int kArguments = 16;

using Word = unsigned long long;
using Signed = long long;
using Short = unsigned short;

struct Arguments {
  unsigned u[kArguments];
  unsigned long long p[kArguments];
  float x[kArguments];
  double a[kArguments];
  unsigned short h[kArguments];
};

inline __host__ __device__ Arguments arguments() {
  return {
      {0, 1, 0x80000000u, 0xffffffffu, 0x7fffffffu, 0x12345678u, 0x9abcdef0u, 0x80ff7f01u, 0x00ff00ffu, 33,
       0xfffffffeu, 0x01000001u, 0x80808080u, 0x7fff8000u, 16777217u, 0xcafebabeu},
      {0, 1, 0x8000000000000000ull, 0xffffffffffffffffull, 0x7fffffffffffffffull, 0x123456789abcdef0ull,
       0xfedcba9876543210ull, 9007199254740993ull, 0x0000000100000001ull, 16777217ull, 0xffffffff00000000ull,
       0x8000000000000401ull, 65519, 0x00000000ffffffffull, 4611686293305294849ull, 1234567891011ull},
      {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -2.5f, 3.0000002f, 1e-40f, 3.4e38f, -1e30f, 123456.789f, 0.1f,
       65519.996f, -447.9f, 2147483520.0f, 1e-5f},
      {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0000000000000004, 1e-310, 1.7e300, -1e30, 123456.789, 0.1, 65520.0,
       4294967295.5, -9.3e18, 1e-5},
      {0x0000, 0x8000, 0x3c00, 0xbc00, 0x3800, 0xc100, 0x0001, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x3555, 0x4248,
       0x57ff, 0xc2cd, 0x0400}};
}

inline __device__ unsigned long long bits(int x) { return Word(x); }
inline __device__ unsigned long long bits(long x) { return Word(x); }
inline __device__ unsigned long long bits(long long x) { return Word(x); }
inline __device__ unsigned long long bits(unsigned x) { return x; }
inline __device__ unsigned long long bits(unsigned short x) { return x; }
inline __device__ unsigned long long bits(short x) { return Word(x); }
inline __device__ unsigned long long bits(signed char x) { return Word(x); }
inline __device__ unsigned long long bits(unsigned char x) { return x; }
inline __device__ unsigned long long bits(unsigned long long x) { return x; }
inline __device__ unsigned long long bits(bool x) { return x ? 1 : 0; }
inline __device__ unsigned long long bits(float x) { return x != x ? 0x7fffffffu : __float_as_uint(x); }
inline __device__ unsigned long long bits(double x) {
  return x != x ? 0x7fffffffffffffffull : Word(__double_as_longlong(x));
}
inline __device__ unsigned long long bits(__half x) { return __half_as_ushort(x); }
inline __device__ unsigned long long bits(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
inline __device__ unsigned long long bits(__half2 x) {
  return bits(__low2half(x)) | bits(__high2half(x)) << 16;
}

/// The n-th number of a sequence.
inline __device__ unsigned philox(unsigned long long seed, unsigned long long subsequence,
                                  unsigned long long offset, unsigned n) {
  curandStatePhilox4_32_10_t state;
  curand_init(seed, subsequence, offset, &state);
  for (unsigned i = 0; i < n; ++i) curand(&state);
  return curand(&state);
}

/// The values of all expressions, one after the other, for each of the arguments.
template <bool kExact>
__global__ void compute(Arguments in, unsigned long long* out) {
  const int i = threadIdx.x, j = (i + 1) % kArguments, n = (i + 5) % kArguments;
  const unsigned u = in.u[i], v = in.u[j], w = in.u[n];
  const int s = int(u), t = int(v), r = int(w);
  const unsigned long long p = in.p[i], q = in.p[j];
  const long long l = Signed(p), m = Signed(q);
  const float x = in.x[i], y = in.x[j], z = in.x[n];
  const double a = in.a[i], b = in.a[j], c = in.a[n];
  const __half h = __ushort_as_half(in.h[i]), g = __ushort_as_half(in.h[j]), k = __ushort_as_half(in.h[n]);
  const __half2 hh = __halves2half2(h, g), gg = __halves2half2(g, k), kk = __halves2half2(k, h);
  const __nv_bfloat16 e = __float2bfloat16(x), f = __float2bfloat16(y);
  curandStatePhilox4_32_10_t state;
  curand_init(p, q, u & 1023, &state);
  int count = 0;
#define GPUSIM_VALUE(expression) out[count++ * kArguments + i] = bits(expression);
  if (kExact) {
    GPUSIM_EXACT_VALUES(GPUSIM_VALUE)
  } else {
    GPUSIM_CLOSE_VALUES(GPUSIM_VALUE)
  }
#undef GPUSIM_VALUE
  (void)s, (void)t, (void)r, (void)l, (void)m, (void)w, (void)v, (void)q, (void)hh, (void)gg, (void)kk,
      (void)f, (void)g, (void)k;
}

#define GPUSIM_NAME(expression) #expression,
constexpr const char* kExactNames[] = {GPUSIM_EXACT_VALUES(GPUSIM_NAME)};
constexpr const char* kCloseNames[] = {GPUSIM_CLOSE_VALUES(GPUSIM_NAME)};
#undef GPUSIM_NAME

}  // namespace gpusim_values
// clang-format on
