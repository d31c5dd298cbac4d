#include "gpusim/runtime/wgmma.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "gpusim/shim/cuda_fp16.h"

namespace gpusim {
namespace {

float widen(std::uint16_t bits, device::MmaType type) {
  return type == device::MmaType::kFloat16 ? float16::Binary16::widen(bits) : float16::BFloat16::widen(bits);
}

using Chunk = std::array<float, 8>;
Chunk widen(const void* chunk, device::MmaType type) {
  std::array<std::uint16_t, 8> bits;
  std::memcpy(bits.data(), chunk, sizeof bits);
  Chunk values;
  for (std::size_t i = 0; i < 8; ++i) values[i] = widen(bits[i], type);
  return values;
}

constexpr int kPlaces = 25;  // binary places of what is added
// Exponents that stay apart from all others in a sum of two, which fits into 16 bits.
constexpr int kNone = -7000;     // of zero
constexpr int kSpecial = 15000;  // of infinity and NaN
constexpr int kColumns = 8;      // that are computed side by side
constexpr int kEasy = 100;       // exponents within which fp32 holds all that is needed

std::int16_t exponent_of(float value, int least) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int field = int(bits >> 23 & 0xff);
  if ((bits & 0x7fffffff) == 0) return kNone;
  return std::int16_t(field == 0xff ? kSpecial : std::max(field - 127, least));
}

/// 2 to the power of a number from -126 to 127.
float power(int exponent) { return std::bit_cast<float>(std::uint32_t(exponent + 127) << 23); }

/// Without the bits that a float does not have.
float cut_off(double value) {
  constexpr std::uint64_t kLost = (std::uint64_t(1) << (52 - 23)) - 1;
  return float(std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & ~kLost));
}

/// Adds the products of one row of A and 8 columns of B to d. False, and nothing changes, if the numbers are
/// very large, very small or special.
bool add_fast(const float* a, const std::int16_t* a_exponents, const float* b,
              const std::int16_t* b_exponents, int n, float* d) {
  std::array<std::int16_t, kColumns> largest;
  for (std::size_t i = 0; i < kColumns; ++i) largest[i] = exponent_of(d[i], -126);
  for (int k = 0; k < kWgmmaK; ++k) {
    const std::int16_t* const of_b = b_exponents + k * n;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const auto sum = std::int16_t(a_exponents[k] + of_b[i]);
      largest[i] = sum > largest[i] ? sum : largest[i];
    }
  }
  std::array<float, kColumns> scale;
  bool easy = true;
  for (std::size_t i = 0; i < kColumns; ++i) {
    if (largest[i] < kNone / 2) largest[i] = 0;  // all are zero
    easy &= largest[i] >= -kEasy && largest[i] <= kEasy;
    scale[i] = power(easy ? kPlaces - largest[i] : 0);
  }
  if (!easy) return false;
  // Each addend is less than 2^27: the sum of 8 of them fits into 31 bits.
  std::array<std::int32_t, kColumns> low, high;
  for (std::size_t i = 0; i < kColumns; ++i) {
    low[i] = std::int32_t(d[i] * scale[i]);
    high[i] = 0;
  }
  for (int k = 0; k < kWgmmaK / 2; ++k) {
    const float x = a[k], y = a[k + kWgmmaK / 2];
    const float *const with_x = b + k * n, *const with_y = b + (k + kWgmmaK / 2) * n;
    for (std::size_t i = 0; i < kColumns; ++i) {
      low[i] += std::int32_t(x * with_x[i] * scale[i]);
      high[i] += std::int32_t(y * with_y[i] * scale[i]);
    }
  }
  for (std::size_t i = 0; i < kColumns; ++i)
    d[i] = cut_off((double(low[i]) + double(high[i])) * double(power(largest[i] - kPlaces)));
  return true;
}

/// The same for any numbers and one column. @return the sum
float add_exactly(const float* a, const std::int16_t* a_exponents, const float* b,
                  const std::int16_t* b_exponents, int n, float d) {
  const int d_exponent = exponent_of(d, -126);
  int largest = d_exponent;
  double special = d_exponent >= kSpecial ? d : 0.0;
  for (int k = 0; k < kWgmmaK; ++k) {
    largest = std::max(largest, a_exponents[k] + b_exponents[k * n]);
    if (a_exponents[k] >= kSpecial || b_exponents[k * n] >= kSpecial)
      special += double(a[k]) * double(b[k * n]);
  }
  if (std::isnan(special)) return std::bit_cast<float>(0x7fffffffu);
  if (std::isinf(special)) return float(special);
  // An addend, in units of 2^(largest - kPlaces), without its fraction.
  const auto cut = [&](double value) { return std::int64_t(std::ldexp(value, kPlaces - largest)); };
  if (largest < kNone / 2) return 0.0f;  // all are zero
  std::int64_t sum = d == 0.0f ? 0 : cut(d);
  for (int k = 0; k < kWgmmaK; ++k) sum += cut(double(a[k]) * double(b[k * n]));
  const double exact = std::ldexp(double(sum), largest - kPlaces);
  if (std::abs(exact) >= 0x1p128) return float(std::copysign(HUGE_VAL, exact));
  if (std::abs(exact) >= 0x1p-126) return cut_off(exact);
  return float(std::ldexp(double(std::int64_t(std::ldexp(exact, 149))), -149));
}

}  // namespace

MatrixDescriptor MatrixDescriptor::of(std::uint64_t bits) {
  constexpr int kSwizzles[] = {0, 128, 64, 32};
  const auto field = [&](int first) { return std::uint32_t(bits >> first & 0x3fff) << 4; };
  return {.start = field(0),
          .leading = field(16),
          .stride = field(32),
          .base_offset = int(bits >> 49 & 7),
          .swizzle_bytes = kSwizzles[bits >> 62]};
}

std::uint32_t chunk_address(const MatrixDescriptor& matrix, bool mn_major, int row, int column) {
  const auto r = std::uint32_t(row), c = std::uint32_t(column);
  const auto width = std::uint32_t(matrix.swizzle_bytes);  // of a row of the swizzle's pattern
  std::uint32_t offset = 0;
  if (width == 0) {
    offset = r % 8 * 16;
    offset +=
        mn_major ? r / 8 * matrix.leading + c * matrix.stride : r / 8 * matrix.stride + c * matrix.leading;
  } else {
    offset = r % 8 * width + r / 8 * matrix.stride;
    offset += mn_major ? c % (width / 16) * 16 + c / (width / 16) * matrix.leading : c * 16;
  }
  return matrix.swizzled(matrix.start + offset);
}

void widen_chunk(const void* chunk, device::MmaType type, bool mn_major, int row, int column,
                 OperandPanel& a) {
  const Chunk values = widen(chunk, type);
  float* const to = a.values.data();
  for (int i = 0; i < 8; ++i) {
    const int m = mn_major ? 8 * column + i : row, k = mn_major ? row : 8 * column + i;
    to[m * kWgmmaK + k] = values[std::size_t(i)];
  }
}

void widen_chunk(const void* chunk, device::MmaType type, bool mn_major, int row, int column, int n,
                 OperandPanel& b) {
  const Chunk values = widen(chunk, type);
  float* const to = b.values.data();
  if (mn_major) {
    std::memcpy(to + row * n + 8 * column, values.data(), sizeof values);
  } else {
    for (int i = 0; i < 8; ++i) to[(8 * column + i) * n + row] = values[std::size_t(i)];
  }
}

void widen_registers(const std::uint32_t (&registers)[4], device::MmaType type, int lane, float* rows) {
  for (int i = 0; i < 4; ++i) {
    float* const to = rows + (lane / 4 + 8 * (i % 2)) * kWgmmaK + 2 * (lane % 4) + 8 * (i / 2);
    to[0] = widen(std::uint16_t(registers[i]), type);
    to[1] = widen(std::uint16_t(registers[i] >> 16), type);
  }
}

void find_exponents(const float* values, std::size_t count, device::MmaType type, Exponents& exponents) {
  const int least = type == device::MmaType::kFloat16 ? -14 : -126;
  for (std::size_t i = 0; i < count; ++i) exponents[i] = exponent_of(values[i], least);
}

void multiply_rows(const float* a, const std::int16_t* a_exponents, const float* b,
                   const std::int16_t* b_exponents, float* d, int n) {
  for (int column = 0; column < n; column += kColumns) {
    for (int m = 0; m < kWgmmaRows; ++m) {
      const float* const row = a + m * kWgmmaK;
      const std::int16_t* const exponents = a_exponents + m * kWgmmaK;
      float* const sums = d + m * n + column;
      if (add_fast(row, exponents, b + column, b_exponents + column, n, sums)) continue;
      for (int i = 0; i < kColumns; ++i)
        sums[i] = add_exactly(row, exponents, b + column + i, b_exponents + column + i, n, sums[i]);
    }
  }
}

}  // namespace gpusim
