/// @file
/// Integer functions of CUDA C++. Part of <math_functions.h>.
#pragma once

#include <cstdint>

#include "gpusim_bits.h"
#include "vector_types.h"

GPUSIM_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
GPUSIM_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
GPUSIM_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
GPUSIM_INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(std::uint64_t(x)); }
GPUSIM_INLINE int __ffs(int x) { return x == 0 ? 0 : __builtin_ctz(unsigned(x)) + 1; }
GPUSIM_INLINE int __ffsll(long long x) { return x == 0 ? 0 : __builtin_ctzll(std::uint64_t(x)) + 1; }
GPUSIM_INLINE unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
GPUSIM_INLINE unsigned long long __brevll(unsigned long long x) {
  return std::uint64_t(__brev(unsigned(x))) << 32 | __brev(unsigned(x >> 32));
}
/// The position of the bit that is the offset-th one set, from `base` on: upwards if `offset` is positive,
/// downwards if it is negative; all ones if there is none.
GPUSIM_INLINE unsigned __fns(unsigned mask, unsigned base, int offset) {
  if (offset == 0) return (mask >> (base & 31) & 1u) != 0 ? base : 0xffffffffu;
  const int step = offset > 0 ? 1 : -1;
  int left = offset * step;
  for (int bit = int(base); bit >= 0 && bit < 32; bit += step) {
    if ((mask >> bit & 1u) != 0 && --left == 0) return unsigned(bit);
  }
  return 0xffffffffu;
}
/// Four bytes of the eight in y and x, each chosen by four bits of `selector`.
GPUSIM_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}
GPUSIM_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((std::uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
GPUSIM_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((std::uint64_t(high) << 32 | low) >> (shift & 31));
}
/// The same, but shifts of 32 and more all move one word out.
GPUSIM_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
GPUSIM_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

// ---- products ---------------------------------------------------------------------------------------------

GPUSIM_INLINE int __mulhi(int x, int y) { return int(std::int64_t(x) * y >> 32); }
GPUSIM_INLINE unsigned __umulhi(unsigned x, unsigned y) { return unsigned(std::uint64_t(x) * y >> 32); }
GPUSIM_INLINE long long __mul64hi(long long x, long long y) { return (long long)(__int128(x) * y >> 64); }
GPUSIM_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)(x)*y >> 64);
}
/// The low 32 bits of the product of the low 24 bits.
GPUSIM_INLINE int __mul24(int x, int y) {
  return int(unsigned(int(unsigned(x) << 8) >> 8) * unsigned(int(unsigned(y) << 8) >> 8));
}
GPUSIM_INLINE unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }

/// The sum of four products of bytes, and c.
GPUSIM_INLINE int __dp4a(int a, int b, int c) {
  unsigned sum = unsigned(c);
  for (int i = 0; i < 32; i += 8) sum += unsigned(int(std::int8_t(a >> i)) * std::int8_t(b >> i));
  return int(sum);
}
GPUSIM_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 0xff) * (b >> i & 0xff);
  return c;
}
GPUSIM_INLINE int __dp4a(char4 a, char4 b, int c) {
  return __dp4a(gpusim::bit_cast<int>(a), gpusim::bit_cast<int>(b), c);
}
GPUSIM_INLINE unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
  return __dp4a(gpusim::bit_cast<unsigned>(a), gpusim::bit_cast<unsigned>(b), c);
}
/// The sum of two products of 16 bits and a byte, and c. The bytes are the two lower ones of b, or the two
/// upper ones.
GPUSIM_INLINE int __dp2a_lo(int a, int b, int c) {
  return int(unsigned(c) + unsigned(std::int16_t(a) * std::int8_t(b)) +
             unsigned(std::int16_t(a >> 16) * std::int8_t(b >> 8)));
}
GPUSIM_INLINE unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
  return c + (a & 0xffff) * (b & 0xff) + (a >> 16) * (b >> 8 & 0xff);
}
GPUSIM_INLINE int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }
GPUSIM_INLINE unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) { return __dp2a_lo(a, b >> 16, c); }
GPUSIM_INLINE int __dp2a_lo(short2 a, char4 b, int c) {
  return __dp2a_lo(gpusim::bit_cast<int>(a), gpusim::bit_cast<int>(b), c);
}
GPUSIM_INLINE unsigned __dp2a_lo(ushort2 a, uchar4 b, unsigned c) {
  return __dp2a_lo(gpusim::bit_cast<unsigned>(a), gpusim::bit_cast<unsigned>(b), c);
}
GPUSIM_INLINE int __dp2a_hi(short2 a, char4 b, int c) {
  return __dp2a_hi(gpusim::bit_cast<int>(a), gpusim::bit_cast<int>(b), c);
}
GPUSIM_INLINE unsigned __dp2a_hi(ushort2 a, uchar4 b, unsigned c) {
  return __dp2a_hi(gpusim::bit_cast<unsigned>(a), gpusim::bit_cast<unsigned>(b), c);
}

// ---- differences and means --------------------------------------------------------------------------------

/// |x - y| + z
GPUSIM_INLINE unsigned __sad(int x, int y, unsigned z) {
  return z + (x > y ? unsigned(x) - unsigned(y) : unsigned(y) - unsigned(x));
}
GPUSIM_INLINE unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x > y ? x - y : y - x); }
/// The mean, rounded down; rhadd: up.
GPUSIM_INLINE int __hadd(int x, int y) { return int((std::int64_t(x) + y) >> 1); }
GPUSIM_INLINE int __rhadd(int x, int y) { return int((std::int64_t(x) + y + 1) >> 1); }
GPUSIM_INLINE unsigned __uhadd(unsigned x, unsigned y) { return unsigned((std::uint64_t(x) + y) >> 1); }
GPUSIM_INLINE unsigned __urhadd(unsigned x, unsigned y) { return unsigned((std::uint64_t(x) + y + 1) >> 1); }
