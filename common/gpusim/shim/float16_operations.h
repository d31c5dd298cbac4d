/// @file
/// What __half and __nv_bfloat16 have in common: arithmetic, comparisons and operators, on numbers and on
/// pairs.
///
/// Included once for each of them, with GPUSIM_HALF, GPUSIM_PAIR and GPUSIM_FORMAT naming the type, the pair
/// and the format in gpusim::float16. CUDA declares overloads, not templates: arguments of other types
/// convert.
#define GPUSIM_BITS(a) __builtin_bit_cast(unsigned short, a)
#define GPUSIM_FROM_BITS(bits) __builtin_bit_cast(GPUSIM_HALF, static_cast<unsigned short>(bits))

// Arithmetic. Computed in double and then rounded to 16 bits, which gives the same as rounding the exact
// result once: 53 bits are more than twice the 11 of a half, or the 8 of a bfloat16.

GPUSIM_INLINE GPUSIM_HALF __hadd(GPUSIM_HALF a, GPUSIM_HALF b) {
  return GPUSIM_HALF(double(float(a)) + double(float(b)));
}
GPUSIM_INLINE GPUSIM_HALF __hsub(GPUSIM_HALF a, GPUSIM_HALF b) {
  return GPUSIM_HALF(double(float(a)) - double(float(b)));
}
GPUSIM_INLINE GPUSIM_HALF __hmul(GPUSIM_HALF a, GPUSIM_HALF b) {
  return GPUSIM_HALF(double(float(a)) * double(float(b)));
}
GPUSIM_INLINE GPUSIM_HALF __hdiv(GPUSIM_HALF a, GPUSIM_HALF b) {
  return GPUSIM_HALF(double(float(a)) / double(float(b)));
}
GPUSIM_INLINE GPUSIM_HALF __hadd_rn(GPUSIM_HALF a, GPUSIM_HALF b) { return __hadd(a, b); }
GPUSIM_INLINE GPUSIM_HALF __hsub_rn(GPUSIM_HALF a, GPUSIM_HALF b) { return __hsub(a, b); }
GPUSIM_INLINE GPUSIM_HALF __hmul_rn(GPUSIM_HALF a, GPUSIM_HALF b) { return __hmul(a, b); }
GPUSIM_INLINE GPUSIM_HALF __hfma(GPUSIM_HALF a, GPUSIM_HALF b, GPUSIM_HALF c) {
  return GPUSIM_FROM_BITS(gpusim::float16::fused_multiply_add<GPUSIM_FORMAT>(float(a), float(b), float(c)));
}

// At least 0 and at most 1; NaN becomes 0.
#define GPUSIM_SATURATED(expression) \
  GPUSIM_HALF(gpusim::float16::saturate<GPUSIM_FORMAT>(GPUSIM_BITS((expression))))
GPUSIM_INLINE GPUSIM_HALF __hadd_sat(GPUSIM_HALF a, GPUSIM_HALF b) { return GPUSIM_SATURATED(__hadd(a, b)); }
GPUSIM_INLINE GPUSIM_HALF __hsub_sat(GPUSIM_HALF a, GPUSIM_HALF b) { return GPUSIM_SATURATED(__hsub(a, b)); }
GPUSIM_INLINE GPUSIM_HALF __hmul_sat(GPUSIM_HALF a, GPUSIM_HALF b) { return GPUSIM_SATURATED(__hmul(a, b)); }
GPUSIM_INLINE GPUSIM_HALF __hfma_sat(GPUSIM_HALF a, GPUSIM_HALF b, GPUSIM_HALF c) {
  return GPUSIM_SATURATED(__hfma(a, b, c));
}
#undef GPUSIM_SATURATED
/// Negative results become 0.
GPUSIM_INLINE GPUSIM_HALF __hfma_relu(GPUSIM_HALF a, GPUSIM_HALF b, GPUSIM_HALF c) {
  const GPUSIM_HALF result = __hfma(a, b, c);
  return float(result) <= 0.0f ? GPUSIM_HALF(0.0f) : result;
}

GPUSIM_INLINE bool __hisnan(GPUSIM_HALF a) { return (GPUSIM_BITS(a) & 0x7fff) > GPUSIM_FORMAT::kInfinity; }

/// With the opposite sign; a NaN becomes the canonical one, whose sign bit is clear.
GPUSIM_INLINE GPUSIM_HALF __hneg(GPUSIM_HALF a) {
  return GPUSIM_FROM_BITS(__hisnan(a) ? gpusim::float16::kNaN : GPUSIM_BITS(a) ^ 0x8000);
}
GPUSIM_INLINE GPUSIM_HALF __habs(GPUSIM_HALF a) {
  return GPUSIM_FROM_BITS(__hisnan(a) ? gpusim::float16::kNaN : GPUSIM_BITS(a) & 0x7fff);
}

// Comparisons: false if an operand is NaN, except that those whose name ends in u are true.

GPUSIM_INLINE bool __heq(GPUSIM_HALF a, GPUSIM_HALF b) {
  return gpusim::float16::equal<GPUSIM_FORMAT>(GPUSIM_BITS(a), GPUSIM_BITS(b));
}
GPUSIM_INLINE bool __hlt(GPUSIM_HALF a, GPUSIM_HALF b) {
  return gpusim::float16::less<GPUSIM_FORMAT>(GPUSIM_BITS(a), GPUSIM_BITS(b));
}
GPUSIM_INLINE bool __hgt(GPUSIM_HALF a, GPUSIM_HALF b) { return __hlt(b, a); }
GPUSIM_INLINE bool __hle(GPUSIM_HALF a, GPUSIM_HALF b) { return __hlt(a, b) || __heq(a, b); }
GPUSIM_INLINE bool __hge(GPUSIM_HALF a, GPUSIM_HALF b) { return __hgt(a, b) || __heq(a, b); }
GPUSIM_INLINE bool __hne(GPUSIM_HALF a, GPUSIM_HALF b) { return __hlt(a, b) || __hgt(a, b); }
GPUSIM_INLINE bool __hequ(GPUSIM_HALF a, GPUSIM_HALF b) { return !__hne(a, b); }
GPUSIM_INLINE bool __hneu(GPUSIM_HALF a, GPUSIM_HALF b) { return !__heq(a, b); }
GPUSIM_INLINE bool __hltu(GPUSIM_HALF a, GPUSIM_HALF b) { return !__hge(a, b); }
GPUSIM_INLINE bool __hleu(GPUSIM_HALF a, GPUSIM_HALF b) { return !__hgt(a, b); }
GPUSIM_INLINE bool __hgtu(GPUSIM_HALF a, GPUSIM_HALF b) { return !__hle(a, b); }
GPUSIM_INLINE bool __hgeu(GPUSIM_HALF a, GPUSIM_HALF b) { return !__hlt(a, b); }

/// 1 for +inf, -1 for -inf, otherwise 0.
GPUSIM_INLINE int __hisinf(GPUSIM_HALF a) {
  const unsigned short bits = GPUSIM_BITS(a);
  return bits == GPUSIM_FORMAT::kInfinity ? 1 : bits == (GPUSIM_FORMAT::kInfinity | 0x8000) ? -1 : 0;
}

// Given a number and a NaN, these return the number, those whose name ends in _nan the NaN. +0 is larger than
// -0.
GPUSIM_INLINE GPUSIM_HALF __hmax(GPUSIM_HALF a, GPUSIM_HALF b) {
  return GPUSIM_FROM_BITS(gpusim::float16::larger<GPUSIM_FORMAT>(GPUSIM_BITS(a), GPUSIM_BITS(b)));
}
GPUSIM_INLINE GPUSIM_HALF __hmin(GPUSIM_HALF a, GPUSIM_HALF b) {
  return GPUSIM_FROM_BITS(gpusim::float16::smaller<GPUSIM_FORMAT>(GPUSIM_BITS(a), GPUSIM_BITS(b)));
}
GPUSIM_INLINE GPUSIM_HALF __hmax_nan(GPUSIM_HALF a, GPUSIM_HALF b) {
  return __hisnan(a) || __hisnan(b) ? GPUSIM_FROM_BITS(gpusim::float16::kNaN) : __hmax(a, b);
}
GPUSIM_INLINE GPUSIM_HALF __hmin_nan(GPUSIM_HALF a, GPUSIM_HALF b) {
  return __hisnan(a) || __hisnan(b) ? GPUSIM_FROM_BITS(gpusim::float16::kNaN) : __hmin(a, b);
}

// Elementary functions: as exact as the C library's in double.
#define GPUSIM_ELEMENTARY(name, expression)          \
  GPUSIM_INLINE GPUSIM_HALF h##name(GPUSIM_HALF a) { \
    const double x = float(a);                       \
    return GPUSIM_HALF(double(expression));          \
  }                                                  \
  GPUSIM_INLINE GPUSIM_PAIR h2##name(GPUSIM_PAIR a) { return {h##name(a.x), h##name(a.y)}; }
GPUSIM_ELEMENTARY(exp, std::exp(x))
GPUSIM_ELEMENTARY(exp2, std::exp2(x))
GPUSIM_ELEMENTARY(exp10, std::pow(10.0, x))
GPUSIM_ELEMENTARY(log, std::log(x))
GPUSIM_ELEMENTARY(log2, std::log2(x))
GPUSIM_ELEMENTARY(log10, std::log10(x))
GPUSIM_ELEMENTARY(sin, std::sin(x))
GPUSIM_ELEMENTARY(cos, std::cos(x))
GPUSIM_ELEMENTARY(tanh, std::tanh(x))
GPUSIM_ELEMENTARY(sqrt, std::sqrt(x))
GPUSIM_ELEMENTARY(rsqrt, 1.0 / std::sqrt(x))
GPUSIM_ELEMENTARY(rcp, 1.0 / x)
GPUSIM_ELEMENTARY(tanh_approx, std::tanh(x))
GPUSIM_ELEMENTARY(floor, std::floor(x))
GPUSIM_ELEMENTARY(ceil, std::ceil(x))
GPUSIM_ELEMENTARY(trunc, std::trunc(x))
GPUSIM_ELEMENTARY(rint, std::nearbyint(x))
#undef GPUSIM_ELEMENTARY

// The same on pairs, for each half separately.

#define GPUSIM_ON_HALVES(name, operation)                         \
  GPUSIM_INLINE GPUSIM_PAIR name(GPUSIM_PAIR a, GPUSIM_PAIR b) {  \
    return GPUSIM_PAIR(operation(a.x, b.x), operation(a.y, b.y)); \
  }
GPUSIM_ON_HALVES(__hadd2, __hadd)
GPUSIM_ON_HALVES(__hsub2, __hsub)
GPUSIM_ON_HALVES(__hmul2, __hmul)
GPUSIM_INLINE GPUSIM_PAIR __h2div(GPUSIM_PAIR a, GPUSIM_PAIR b) {
  return GPUSIM_PAIR(__hdiv(a.x, b.x), __hdiv(a.y, b.y));
}
GPUSIM_INLINE GPUSIM_PAIR __hadd2_rn(GPUSIM_PAIR a, GPUSIM_PAIR b) { return __hadd2(a, b); }
GPUSIM_INLINE GPUSIM_PAIR __hsub2_rn(GPUSIM_PAIR a, GPUSIM_PAIR b) { return __hsub2(a, b); }
GPUSIM_INLINE GPUSIM_PAIR __hmul2_rn(GPUSIM_PAIR a, GPUSIM_PAIR b) { return __hmul2(a, b); }
GPUSIM_INLINE GPUSIM_PAIR __hfma2(GPUSIM_PAIR a, GPUSIM_PAIR b, GPUSIM_PAIR c) {
  return GPUSIM_PAIR(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
GPUSIM_INLINE GPUSIM_PAIR __hneg2(GPUSIM_PAIR a) { return GPUSIM_PAIR(__hneg(a.x), __hneg(a.y)); }
GPUSIM_INLINE GPUSIM_PAIR __habs2(GPUSIM_PAIR a) { return GPUSIM_PAIR(__habs(a.x), __habs(a.y)); }
GPUSIM_ON_HALVES(__hmax2, __hmax)
GPUSIM_ON_HALVES(__hmin2, __hmin)
GPUSIM_ON_HALVES(__hmax2_nan, __hmax_nan)
GPUSIM_ON_HALVES(__hmin2_nan, __hmin_nan)
GPUSIM_ON_HALVES(__hadd2_sat, __hadd_sat)
GPUSIM_ON_HALVES(__hsub2_sat, __hsub_sat)
GPUSIM_ON_HALVES(__hmul2_sat, __hmul_sat)
GPUSIM_INLINE GPUSIM_PAIR __hfma2_sat(GPUSIM_PAIR a, GPUSIM_PAIR b, GPUSIM_PAIR c) {
  return GPUSIM_PAIR(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));
}
GPUSIM_INLINE GPUSIM_PAIR __hfma2_relu(GPUSIM_PAIR a, GPUSIM_PAIR b, GPUSIM_PAIR c) {
  return GPUSIM_PAIR(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));
}
/// a * b + c of complex numbers.
GPUSIM_INLINE GPUSIM_PAIR __hcmadd(GPUSIM_PAIR a, GPUSIM_PAIR b, GPUSIM_PAIR c) {
  return GPUSIM_PAIR(__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)),
                     __hfma(a.y, b.x, __hfma(a.x, b.y, c.y)));
}

// 1.0 where the comparison holds, 0.0 elsewhere; _mask: all ones where it holds; b: whether it holds for both
// halves.
#define GPUSIM_COMPARISON(name)                                                             \
  GPUSIM_ON_HALVES(__h##name##2, __h##name)                                                 \
  GPUSIM_INLINE unsigned __h##name##2_mask(GPUSIM_PAIR a, GPUSIM_PAIR b) {                  \
    return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u); \
  }                                                                                         \
  GPUSIM_INLINE bool __hb##name##2(GPUSIM_PAIR a, GPUSIM_PAIR b) {                          \
    return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                      \
  }
GPUSIM_COMPARISON(eq)
GPUSIM_COMPARISON(ne)
GPUSIM_COMPARISON(lt)
GPUSIM_COMPARISON(le)
GPUSIM_COMPARISON(gt)
GPUSIM_COMPARISON(ge)
GPUSIM_COMPARISON(equ)
GPUSIM_COMPARISON(neu)
GPUSIM_COMPARISON(ltu)
GPUSIM_COMPARISON(leu)
GPUSIM_COMPARISON(gtu)
GPUSIM_COMPARISON(geu)
#undef GPUSIM_COMPARISON
GPUSIM_INLINE GPUSIM_PAIR __hisnan2(GPUSIM_PAIR a) { return GPUSIM_PAIR(__hisnan(a.x), __hisnan(a.y)); }

// Operators.

GPUSIM_INLINE GPUSIM_HALF operator+(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __hadd(a, b); }
GPUSIM_INLINE GPUSIM_HALF operator-(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __hsub(a, b); }
GPUSIM_INLINE GPUSIM_HALF operator*(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __hmul(a, b); }
GPUSIM_INLINE GPUSIM_HALF operator/(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __hdiv(a, b); }
GPUSIM_INLINE GPUSIM_HALF operator+(const GPUSIM_HALF& a) { return a; }
GPUSIM_INLINE GPUSIM_HALF operator-(const GPUSIM_HALF& a) { return __hneg(a); }
GPUSIM_INLINE GPUSIM_HALF& operator+=(GPUSIM_HALF& a, const GPUSIM_HALF& b) { return a = __hadd(a, b); }
GPUSIM_INLINE GPUSIM_HALF& operator-=(GPUSIM_HALF& a, const GPUSIM_HALF& b) { return a = __hsub(a, b); }
GPUSIM_INLINE GPUSIM_HALF& operator*=(GPUSIM_HALF& a, const GPUSIM_HALF& b) { return a = __hmul(a, b); }
GPUSIM_INLINE GPUSIM_HALF& operator/=(GPUSIM_HALF& a, const GPUSIM_HALF& b) { return a = __hdiv(a, b); }
GPUSIM_INLINE GPUSIM_HALF& operator++(GPUSIM_HALF& a) { return a += GPUSIM_HALF(1.0f); }
GPUSIM_INLINE GPUSIM_HALF& operator--(GPUSIM_HALF& a) { return a -= GPUSIM_HALF(1.0f); }
GPUSIM_INLINE GPUSIM_HALF operator++(GPUSIM_HALF& a, int) {
  const GPUSIM_HALF before = a;
  ++a;
  return before;
}
GPUSIM_INLINE GPUSIM_HALF operator--(GPUSIM_HALF& a, int) {
  const GPUSIM_HALF before = a;
  --a;
  return before;
}
GPUSIM_INLINE bool operator==(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __heq(a, b); }
GPUSIM_INLINE bool operator!=(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __hneu(a, b); }
GPUSIM_INLINE bool operator<(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __hlt(a, b); }
GPUSIM_INLINE bool operator<=(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __hle(a, b); }
GPUSIM_INLINE bool operator>(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __hgt(a, b); }
GPUSIM_INLINE bool operator>=(const GPUSIM_HALF& a, const GPUSIM_HALF& b) { return __hge(a, b); }

// On pairs. A comparison holds when it holds for both halves, != as well.
GPUSIM_INLINE GPUSIM_PAIR operator+(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __hadd2(a, b); }
GPUSIM_INLINE GPUSIM_PAIR operator-(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __hsub2(a, b); }
GPUSIM_INLINE GPUSIM_PAIR operator*(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __hmul2(a, b); }
GPUSIM_INLINE GPUSIM_PAIR operator/(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __h2div(a, b); }
GPUSIM_INLINE GPUSIM_PAIR operator+(const GPUSIM_PAIR& a) { return a; }
GPUSIM_INLINE GPUSIM_PAIR operator-(const GPUSIM_PAIR& a) { return __hneg2(a); }
GPUSIM_INLINE GPUSIM_PAIR& operator+=(GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return a = __hadd2(a, b); }
GPUSIM_INLINE GPUSIM_PAIR& operator-=(GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return a = __hsub2(a, b); }
GPUSIM_INLINE GPUSIM_PAIR& operator*=(GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return a = __hmul2(a, b); }
GPUSIM_INLINE GPUSIM_PAIR& operator/=(GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return a = __h2div(a, b); }
GPUSIM_INLINE GPUSIM_PAIR& operator++(GPUSIM_PAIR& a) {
  return a = __hadd2(a, GPUSIM_PAIR(GPUSIM_HALF(1.0f), GPUSIM_HALF(1.0f)));
}
GPUSIM_INLINE GPUSIM_PAIR& operator--(GPUSIM_PAIR& a) {
  return a = __hsub2(a, GPUSIM_PAIR(GPUSIM_HALF(1.0f), GPUSIM_HALF(1.0f)));
}
GPUSIM_INLINE bool operator==(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __hbeq2(a, b); }
GPUSIM_INLINE bool operator!=(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __hbneu2(a, b); }
GPUSIM_INLINE bool operator<(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __hblt2(a, b); }
GPUSIM_INLINE bool operator<=(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __hble2(a, b); }
GPUSIM_INLINE bool operator>(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __hbgt2(a, b); }
GPUSIM_INLINE bool operator>=(const GPUSIM_PAIR& a, const GPUSIM_PAIR& b) { return __hbge2(a, b); }

#undef GPUSIM_ON_HALVES
#undef GPUSIM_BITS
#undef GPUSIM_FROM_BITS
#undef GPUSIM_HALF
#undef GPUSIM_PAIR
#undef GPUSIM_FORMAT
