#include "gpusim/runtime/matrix.hpp"

#include <array>
#include <cstring>

#include "gpusim/runtime/access.hpp"
#include "gpusim/shim/cuda_fp16.h"

namespace gpusim {
namespace {

constexpr int kM = 16, kN = 8, kK = 16;

struct Pair {
  float low, high;
};
Pair widen(std::uint32_t bits, device::MmaType type) {
  const auto low = std::uint16_t(bits), high = std::uint16_t(bits >> 16);
  if (type == device::MmaType::kFloat16)
    return {float16::Binary16::widen(low), float16::Binary16::widen(high)};
  return {float16::BFloat16::widen(low), float16::BFloat16::widen(high)};
}

}  // namespace

void resolve_load_matrices(void* const* lanes) {
  const int matrices = static_cast<const MatrixOperand*>(lanes[0])->matrices;
  for (int m = 0; m < matrices; ++m) {
    std::array<std::array<std::uint16_t, 8>, 8> matrix;
    for (int r = 0; r < 8; ++r) {
      const void* row = static_cast<const MatrixOperand*>(lanes[8 * m + r])->row;
      std::memcpy(matrix[std::size_t(r)].data(), row, 16);
    }
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const auto& operand = *static_cast<const MatrixOperand*>(lanes[lane]);
      const auto g = std::size_t(lane / 4), t = std::size_t(2 * (lane % 4));
      const std::uint16_t low = operand.transposed ? matrix[t][g] : matrix[g][t];
      const std::uint16_t high = operand.transposed ? matrix[t + 1][g] : matrix[g][t + 1];
      operand.registers[m] = low | std::uint32_t(high) << 16;
    }
  }
}

void resolve_transpose(void* const* lanes) {
  std::array<std::array<std::uint16_t, 8>, 8> matrix;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const std::uint32_t pair = static_cast<const TransposeOperand*>(lanes[lane])->pair;
    const auto g = std::size_t(lane / 4), t = std::size_t(2 * (lane % 4));
    matrix[t][g] = std::uint16_t(pair);
    matrix[t + 1][g] = std::uint16_t(pair >> 16);
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto g = std::size_t(lane / 4), t = std::size_t(2 * (lane % 4));
    static_cast<TransposeOperand*>(lanes[lane])->pair = matrix[g][t] | std::uint32_t(matrix[g][t + 1]) << 16;
  }
}

void resolve_mma(void* const* lanes) {
  std::array<std::array<double, kK>, kM> a;
  std::array<std::array<double, kN>, kK> b;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& operand = *static_cast<const MmaOperand*>(lanes[lane]);
    const auto g = std::size_t(lane / 4), t = std::size_t(2 * (lane % 4));
    for (std::size_t i = 0; i < 4; ++i) {
      const Pair pair = widen(operand.a[i], operand.type);
      auto& row = a[g + 8 * (i % 2)];
      row[t + 8 * (i / 2)] = pair.low;
      row[t + 8 * (i / 2) + 1] = pair.high;
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const Pair pair = widen(operand.b[i], operand.type);
      b[t + 8 * i][g] = pair.low;
      b[t + 8 * i + 1][g] = pair.high;
    }
  }
  std::array<std::array<double, kN>, kM> product{};
  for (std::size_t m = 0; m < kM; ++m) {
    for (std::size_t k = 0; k < kK; ++k) {
      for (std::size_t n = 0; n < kN; ++n) product[m][n] += a[m][k] * b[k][n];
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& operand = *static_cast<const MmaOperand*>(lanes[lane]);
    const auto g = std::size_t(lane / 4), t = std::size_t(2 * (lane % 4));
    for (std::size_t i = 0; i < 4; ++i) {
      operand.d[i] = float(double(operand.c[i]) + product[g + 8 * (i / 2)][t + i % 2]);
    }
  }
}

}  // namespace gpusim
