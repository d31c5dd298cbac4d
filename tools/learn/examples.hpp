/// @file
/// For the program of a chapter's examples: it calls the function of an exercise for a few arguments and
/// prints what comes out, once with a learner's answer and once with the chapter's. examples.py compares the
/// two.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#ifndef __device__
#define __device__
#define __host__
#define __forceinline__
#endif

namespace fa::examples {

/// As std::printf(), into a string.
__attribute__((format(printf, 1, 2))) inline std::string words(const char* format, ...) {
  char text[400];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

/// Prints a line. @param call  with its arguments     @param name  of a value that comes out
inline void example(const std::string& call, const char* name, const std::string& value) {
  std::printf("%s\t%s\t%s\n", call.c_str(), name, value.c_str());
  std::fflush(stdout);  // the next call may end the program
}
inline void example(const std::string& call, const char* name, double value) {
  const bool is_long = value == std::round(value) && std::abs(value) < 1e15;
  example(call, name, std::isnan(value) ? "NaN" : words(is_long ? "%.0f" : "%.6g", value));
}

// --- what answers use of CUDA, for the CPU -----------------------------------------------------------------

inline float __expf(float x) { return std::exp(x); }
inline float __exp2f(float x) { return std::exp2(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float min(float x, float y) { return x < y ? x : y; }
inline float max(float x, float y) { return x > y ? x : y; }
inline int min(int x, int y) { return x < y ? x : y; }
inline int max(int x, int y) { return x > y ? x : y; }
using std::abs;

constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

namespace ptx {
inline float exp2_approx(float x) { return std::exp2(x); }
inline float log2_approx(float x) { return std::log2(x); }
}  // namespace ptx

/// Two floats as bf16, by truncation: the left one in the lower half. Enough for numbers of few digits.
template <class>
std::uint32_t pack(float left, float right) {
  std::uint32_t low, high;
  std::memcpy(&low, &left, 4), std::memcpy(&high, &right, 4);
  return low >> 16 | (high & 0xffff0000);
}
struct Pair {
  float x, y;
};
template <class>
Pair unpack(std::uint32_t word) {
  const std::uint32_t low = word << 16, high = word & 0xffff0000;
  Pair pair;
  std::memcpy(&pair.x, &low, 4), std::memcpy(&pair.y, &high, 4);
  return pair;
}

}  // namespace fa::examples
