#include "gpusim/runtime/wgmma.hpp"

#include <bit>
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

void multiply_rows(const float* a, const float* b, float* d, int n) {
  constexpr int kBlock = 8;  // columns that stay in registers
  for (int column = 0; column < n; column += kBlock) {
    for (int m = 0; m < kWgmmaRows; m += 2) {
      std::array<float, kBlock> sums, next_sums;
      float* const row = d + m * n + column;
      std::memcpy(sums.data(), row, sizeof sums);
      std::memcpy(next_sums.data(), row + n, sizeof sums);
      for (int k = 0; k < kWgmmaK; ++k) {
        const float x = a[m * kWgmmaK + k], y = a[(m + 1) * kWgmmaK + k];
        const float* const from = b + k * n + column;
        for (int i = 0; i < kBlock; ++i) {
          sums[std::size_t(i)] += x * from[i];
          next_sums[std::size_t(i)] += y * from[i];
        }
      }
      std::memcpy(row, sums.data(), sizeof sums);
      std::memcpy(row + n, next_sums.data(), sizeof sums);
    }
  }
}

}  // namespace gpusim
