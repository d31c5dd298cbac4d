/// @file
/// Arithmetic that rounds in a given direction (shim/gpusim_rounding.h): the processor's, with another mode
/// in its control register.
#include "gpusim/shim/gpusim_rounding.h"

#include <xmmintrin.h>

#include <cmath>

namespace gpusim::device {
namespace {

/// While it lives, the processor rounds this way. The compiler must not move arithmetic out of its scope:
/// operands go through `fix`.
class Mode {
 public:
  explicit Mode(Rounding how) : before_(_mm_getcsr()) {
    constexpr unsigned kBits = 3u << 13;
    _mm_setcsr((before_ & ~kBits) | unsigned(how) << 13);
  }
  ~Mode() {
    constexpr unsigned kBits = 3u << 13;  // exceptions that have happened stay noted
    _mm_setcsr((_mm_getcsr() & ~kBits) | (before_ & kBits));
  }
  Mode(const Mode&) = delete;

 private:
  unsigned before_;
};

/// A value of which the compiler knows nothing before this point, nor after it.
template <class T>
T fix(T x) {
  asm volatile("" : "+x"(x)::"memory");
  return x;
}

template <class T>
T add(T x, T y, Rounding how) {
  const Mode mode(how);
  return fix(fix(x) + fix(y));
}
template <class T>
T multiply(T x, T y, Rounding how) {
  const Mode mode(how);
  return fix(fix(x) * fix(y));
}
template <class T>
T divide(T x, T y, Rounding how) {
  const Mode mode(how);
  return fix(fix(x) / fix(y));
}

/// An integer of up to 64 bits that loses bits: those that are lost leave a trace in the last one that stays,
/// so that rounding it once more rounds the integer itself.
template <class T>
T from_magnitude(unsigned long long magnitude, bool negative, Rounding how) {
  constexpr int kKept = 62;  // more than the 53 bits of the result, and positive as a signed integer
  int shift = 0;
  while (magnitude >> shift >> kKept != 0) ++shift;
  unsigned long long kept = magnitude >> shift;
  if (kept << shift != magnitude) kept |= 1;
  const Mode mode(how);
  long long integer = negative ? -static_cast<long long>(kept) : static_cast<long long>(kept);
  asm volatile("" : "+r"(integer)::"memory");
  const T scale = T(1ll << shift);  // a power of two: exact
  return fix(fix(T(integer)) * scale);
}

unsigned long long magnitude_of(long long x) {
  return x < 0 ? 0 - static_cast<unsigned long long>(x) : static_cast<unsigned long long>(x);
}

}  // namespace

float add_rounded(float x, float y, Rounding how) { return add(x, y, how); }
float multiply_rounded(float x, float y, Rounding how) { return multiply(x, y, how); }
float divide_rounded(float x, float y, Rounding how) { return divide(x, y, how); }
double add_rounded(double x, double y, Rounding how) { return add(x, y, how); }
double multiply_rounded(double x, double y, Rounding how) { return multiply(x, y, how); }
double divide_rounded(double x, double y, Rounding how) { return divide(x, y, how); }

float fma_rounded(float x, float y, float z, Rounding how) {
  const Mode mode(how);
  return fix(std::fma(fix(x), fix(y), fix(z)));
}
double fma_rounded(double x, double y, double z, Rounding how) {
  const Mode mode(how);
  return fix(std::fma(fix(x), fix(y), fix(z)));
}
float sqrt_rounded(float x, Rounding how) {
  const Mode mode(how);
  return fix(std::sqrt(fix(x)));
}
double sqrt_rounded(double x, Rounding how) {
  const Mode mode(how);
  return fix(std::sqrt(fix(x)));
}

float to_float_rounded(double x, Rounding how) {
  const Mode mode(how);
  return fix(float(fix(x)));
}
float to_float_rounded(long long x, Rounding how) {
  return from_magnitude<float>(magnitude_of(x), x < 0, how);
}
float to_float_rounded(unsigned long long x, Rounding how) { return from_magnitude<float>(x, false, how); }
double to_double_rounded(long long x, Rounding how) {
  return from_magnitude<double>(magnitude_of(x), x < 0, how);
}
double to_double_rounded(unsigned long long x, Rounding how) { return from_magnitude<double>(x, false, how); }

}  // namespace gpusim::device
