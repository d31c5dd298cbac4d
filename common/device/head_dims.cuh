/// @file
/// The head dimensions that the attention kernels are compiled for. Taught by chapter 03.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace fa {

/// Calls f with the head dimension as a constant: f(std::integral_constant<int, 64>()) for 64.
///
/// @throws std::invalid_argument  if it is none of 32, 64, 128, 256: a variant has to refuse it before
template <class F>
auto with_head_dim(std::int64_t head_dim, F f) {
  switch (head_dim) {
    case 32: return f(std::integral_constant<int, 32>());
    case 64: return f(std::integral_constant<int, 64>());
    case 128: return f(std::integral_constant<int, 128>());
    case 256: return f(std::integral_constant<int, 256>());
    default: throw std::invalid_argument("no kernel for head_dim " + std::to_string(head_dim));
  }
}

}  // namespace fa
