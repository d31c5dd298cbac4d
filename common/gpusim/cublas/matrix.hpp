/// @file
/// Matrices and vectors of the device for routines of the host: what they read and write is counted, and
/// checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/shim/cuda_bf16.h"
#include "gpusim/shim/cuda_fp16.h"
#include "gpusim/shim/library_types.h"

namespace gpusim::blas {

/// The bytes of an element; 0 if the type is not supported.
inline std::size_t bytes_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_64F: return 8;
    case CUDA_R_32F:
    case CUDA_R_32I: return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_8I: return 1;
    default: return 0;
  }
}

/// Column-major, element (row, column) at [row + column * ld].
struct Matrix {
  void* data;
  cudaDataType type;
  std::int64_t rows, cols, ld;

  std::byte* column(std::int64_t col) const {
    return static_cast<std::byte*>(data) + std::size_t(col * ld) * bytes_of(type);
  }
  bool is_valid() const { return rows >= 0 && cols >= 0 && ld >= std::max<std::int64_t>(1, rows); }

  /// Counts and checks a read or a write of each element. @return  whether the host may use them
  bool read(const std::string& routine) const {
    return each([&](const void* p, std::size_t bytes) { return account_read(p, bytes, routine); });
  }
  bool write(const std::string& routine) const {
    return each([&](const void* p, std::size_t bytes) { return account_write(p, bytes, routine); });
  }

  template <class T>
  void load_column(std::int64_t col, T* to) const {
    const std::byte* from = column(col);
    const auto copy = [&](auto widen, auto sample) {
      for (std::int64_t i = 0; i < rows; ++i) {
        std::memcpy(&sample, from + std::size_t(i) * sizeof sample, sizeof sample);
        to[i] = T(widen(sample));
      }
    };
    const auto as_is = [](auto x) { return x; };
    switch (type) {
      case CUDA_R_64F: return copy(as_is, double{});
      case CUDA_R_32F: return copy(as_is, float{});
      case CUDA_R_32I: return copy(as_is, std::int32_t{});
      case CUDA_R_8I: return copy(as_is, std::int8_t{});
      case CUDA_R_16F: return copy(&float16::Binary16::widen, std::uint16_t{});
      case CUDA_R_16BF: return copy(&float16::BFloat16::widen, std::uint16_t{});
      default: break;
    }
  }
  template <class T>
  void store_column(std::int64_t col, const T* from) const {
    std::byte* to = column(col);
    const auto copy = [&](auto narrow) {
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto value = narrow(from[i]);
        std::memcpy(to + std::size_t(i) * sizeof value, &value, sizeof value);
      }
    };
    switch (type) {
      case CUDA_R_64F: return copy([](T x) { return double(x); });
      case CUDA_R_32F: return copy([](T x) { return float(x); });
      case CUDA_R_32I: return copy([](T x) { return std::int32_t(x); });
      case CUDA_R_8I: return copy([](T x) { return std::int8_t(x); });
      case CUDA_R_16F: return copy([](T x) { return float16::narrow<float16::Binary16>(double(x)); });
      case CUDA_R_16BF: return copy([](T x) { return float16::narrow<float16::BFloat16>(double(x)); });
      default: break;
    }
  }

  /// All elements, without gaps between columns.
  template <class T>
  std::vector<T> load() const {
    std::vector<T> values(std::size_t(rows * cols));
    for (std::int64_t col = 0; col < cols; ++col) load_column(col, values.data() + col * rows);
    return values;
  }
  template <class T>
  void store(const std::vector<T>& values) const {
    for (std::int64_t col = 0; col < cols; ++col) store_column(col, values.data() + col * rows);
  }

 private:
  template <class Account>
  bool each(Account account) const {
    if (rows == 0 || cols == 0) return true;
    if (ld == rows) return account(data, std::size_t(rows * cols) * bytes_of(type));
    bool inside = true;
    for (std::int64_t col = 0; col < cols; ++col)
      inside = account(column(col), std::size_t(rows) * bytes_of(type)) && inside;
    return inside;
  }
};

/// The transposed matrix, of rows x cols elements without gaps.
template <class T>
std::vector<T> transposed(const std::vector<T>& values, std::int64_t rows, std::int64_t cols) {
  std::vector<T> result(values.size());
  for (std::int64_t col = 0; col < cols; ++col) {
    for (std::int64_t row = 0; row < rows; ++row)
      result[std::size_t(row * cols + col)] = values[std::size_t(col * rows + row)];
  }
  return result;
}

/// a * b, all without gaps. @param a  [m][k]    @param b  [k][n]
template <class T>
std::vector<T> product(const std::vector<T>& a, const std::vector<T>& b, std::int64_t m, std::int64_t n,
                       std::int64_t k) {
  std::vector<T> c(std::size_t(m * n), T(0));
  constexpr std::int64_t kRows = 512, kDepth = 64;  // a part of A that stays in the cache
  for (std::int64_t row = 0; row < m; row += kRows) {
    const std::int64_t rows = std::min(kRows, m - row);
    for (std::int64_t depth = 0; depth < k; depth += kDepth) {
      const std::int64_t end = std::min(depth + kDepth, k);
      for (std::int64_t col = 0; col < n; ++col) {
        T* const sums = c.data() + col * m + row;
        std::int64_t inner = depth;
        for (; inner + 4 <= end; inner += 4) {
          const T* const a0 = a.data() + inner * m + row;
          const T *const a1 = a0 + m, *const a2 = a1 + m, *const a3 = a2 + m;
          const T* const factors = b.data() + col * k + inner;
          const T b0 = factors[0], b1 = factors[1], b2 = factors[2], b3 = factors[3];
          for (std::int64_t i = 0; i < rows; ++i)
            sums[i] = sums[i] + a0[i] * b0 + a1[i] * b1 + a2[i] * b2 + a3[i] * b3;
        }
        for (; inner < end; ++inner) {
          const T* const column = a.data() + inner * m + row;
          const T factor = b[std::size_t(col * k + inner)];
          for (std::int64_t i = 0; i < rows; ++i) sums[i] += column[i] * factor;
        }
      }
    }
  }
  return c;
}

/// op(A) * op(B), with sums of type T. @param transposes  whether op is the transpose
template <class T>
std::vector<T> product(const Matrix& a, bool transposes_a, const Matrix& b, bool transposes_b) {
  std::vector<T> wide_a = a.load<T>(), wide_b = b.load<T>();
  if (transposes_a) wide_a = transposed(wide_a, a.rows, a.cols);
  if (transposes_b) wide_b = transposed(wide_b, b.rows, b.cols);
  const std::int64_t m = transposes_a ? a.cols : a.rows, k = transposes_a ? a.rows : a.cols;
  return product(wide_a, wide_b, m, transposes_b ? b.rows : b.cols, k);
}

}  // namespace gpusim::blas
