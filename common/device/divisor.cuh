/// @file
/// Division by a number that is known before a kernel starts. Taught by chapter 09.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fa {

/// n / divisor and n % divisor for 0 <= n < 2^31 by a multiplication and a shift (Granlund and Montgomery
/// 1994, "Division by invariant integers using multiplication"): a GPU has no instruction that divides
/// integers.
///
/// With 2^(l - 1) < d <= 2^l, the multiplier is 2^(31 + l) / d, rounded up by less than 1. So n * multiplier
/// / 2^(31 + l) exceeds n / d by less than n / 2^(31 + l) < 1 / d, and has the same integer part.
class Divisor {
 public:
  Divisor() = default;
  /// @param d  1 or more
  explicit Divisor(int d) : d_(d) {
    while ((std::int64_t(1) << (shift_ + 1)) < d) ++shift_;  // shift_ = l - 1
    multiplier_ = std::uint32_t(((std::uint64_t(1) << (32 + shift_)) + unsigned(d) - 1) / unsigned(d));
  }

  friend __host__ __device__ int operator/(int n, const Divisor& by) {
    if (by.d_ == 1) return n;  // its multiplier would be 2^32
    return int((std::uint64_t(unsigned(n)) * by.multiplier_ >> 32) >> by.shift_);
  }
  friend __host__ __device__ int operator%(int n, const Divisor& by) { return n - n / by * by.d_; }

 private:
  int d_ = 1;
  int shift_ = 0;
  std::uint32_t multiplier_ = 0;
};

}  // namespace fa
