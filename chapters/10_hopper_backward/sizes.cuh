/// @file
/// The head dimensions and types that the kernels of this chapter are compiled for.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "09_hopper/sizes.cuh"
#include "attention/launch.hpp"
#include "attention/tensor.hpp"
#include "backward.cuh"

namespace fa::ch10 {

/// For the steps that lead to `final`.
struct LessonSizes {
  static constexpr std::array kHeadDims = {64, 128};
  static constexpr std::array kTypes = {DType::kBFloat16};
};

/// For `final` and `deterministic`.
struct AllSizes {
  static constexpr std::array kHeadDims = {64, 96, 128, 192, 256};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
  static constexpr bool kPads = true;
};

/// Whether a method adds to sums of dQ. Its kernels have more to do if tiles are wider than the tensors.
template <class Method>
constexpr bool has_sums() {
  if constexpr (requires { Method::kHasSums; }) {
    return Method::kHasSums;
  } else {
    return false;
  }
}

/// Calls f(std::type_identity<Tile>()) with the tiles that a method has for an element type and a head
/// dimension. Returns what it returns.
/// @throws std::invalid_argument  if no kernel is compiled for them
template <class Method, class Sizes, class F>
auto with_tile(DType dtype, std::int64_t head_dim, const F& f) {
  return select<Sizes>(dtype, head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    using Tile = typename Method::template Tile<T, d>;
    if constexpr (pads<Sizes>() && has_sums<Method>()) {
      if (head_dim < Tile::kHeadDim) return f(std::type_identity<Padded<Tile>>());
    }
    return f(std::type_identity<Tile>());
  });
}

/// The same, also for a V of another width. @param of  the arguments or the shape
template <class Method, class Sizes, class Given, class F>
auto with_tile(const Given& of, const F& f) {
  if constexpr (ch09::takes_narrow_values<Method>()) {
    if (ch09::has_narrow_values(of)) {
      return ch09::with_narrow_tile<Method>(of.dtype, of.head_dim, [&]<class Tile>(std::type_identity<Tile>) {
        if constexpr (has_sums<Method>()) {
          if (of.head_dim < Tile::kHeadDim) return f(std::type_identity<Padded<Tile>>());
        }
        return f(std::type_identity<Tile>());
      });
    }
  }
  return with_tile<Method, Sizes>(of.dtype, of.head_dim, f);
}

}  // namespace fa::ch10
