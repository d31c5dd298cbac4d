// Sums of 16 products on which the simulator's arithmetic of wgmma is compared with a GPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace gpusim_test {

struct Sum {
  std::uint16_t a[16], b[16];
  float c;
  bool is_half;  // or bf16
};

// Random bits, the same everywhere.
class Bits {
 public:
  std::uint32_t next(std::uint32_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return std::uint32_t((state_ >> 33) % below);
  }

 private:
  std::uint64_t state_ = 7;
};

inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Numbers whose exponents spread more and more; numbers of all exponents, with subnormals; infinities and
// NaN.
inline std::vector<Sum> sums() {
  std::vector<Sum> all;
  Bits bits;
  for (const bool is_half : {false, true}) {
    const int fraction = is_half ? 10 : 7, bias = is_half ? 15 : 127, special = is_half ? 31 : 255;
    const auto number = [&](int lowest, int exponents) {
      const int exponent = lowest + int(bits.next(std::uint32_t(exponents)));
      return std::uint16_t(bits.next(2) << 15 | std::uint32_t(exponent) << fraction |
                           bits.next(1u << fraction));
    };
    for (int i = 0; i < 600; ++i) {
      Sum sum = {};
      sum.is_half = is_half;
      const int spread = 1 + i / 60;
      for (int k = 0; k < 16; ++k) {
        sum.a[k] = number(bias - spread / 2, spread);
        sum.b[k] = number(bias - spread / 2, spread);
      }
      sum.c = float_of(bits.next(2) << 31 | (127 - 8 + bits.next(16)) << 23 | bits.next(1u << 23));
      if (i % 5 == 0) sum.c = 0.0f;
      all.push_back(sum);
    }
    for (int i = 0; i < 300; ++i) {  // any exponent, zero among them
      Sum sum = {};
      sum.is_half = is_half;
      for (int k = 0; k < 16; ++k) {
        sum.a[k] = bits.next(4) == 0 ? number(0, 1) : number(0, special);
        sum.b[k] = bits.next(4) == 0 ? std::uint16_t(0) : number(0, special);
      }
      sum.c = float_of(bits.next(2) << 31 | bits.next(255) << 23 | bits.next(1u << 23));
      if (i % 3 == 0) sum.c = 0.0f;
      all.push_back(sum);
    }
    for (int i = 0; i < 60; ++i) {  // tiny sums
      Sum sum = {};
      sum.is_half = is_half;
      for (int k = 0; k < 16; ++k) {
        sum.a[k] = number(0, 2);
        sum.b[k] = number(is_half ? 0 : i % 3 * 50, 2);
      }
      sum.c = i % 2 == 0 ? 0.0f : float_of(bits.next(2) << 31 | bits.next(1u << 20));
      all.push_back(sum);
    }
    for (int i = 0; i < 60; ++i) {  // infinities and NaN
      Sum sum = {};
      sum.is_half = is_half;
      for (int k = 0; k < 16; ++k) {
        sum.a[k] = number(bias - 2, 4);
        sum.b[k] = number(bias - 2, 4);
      }
      sum.a[i % 16] = std::uint16_t(special << fraction | (i % 4 == 0 ? 1 : 0) | (i / 16 % 2) << 15);
      if (i % 3 == 0) sum.b[(i + 5) % 16] = std::uint16_t(special << fraction);
      if (i % 5 == 0) sum.b[i % 16] = 0;
      sum.c = i % 7 == 0 ? -INFINITY : float_of(bits.next(2) << 31 | 128u << 23 | bits.next(1u << 23));
      all.push_back(sum);
    }
  }
  return all;
}

}  // namespace gpusim_test
