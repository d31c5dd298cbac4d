/// @file
/// From an element type and a head dimension that are known at run time to kernels that were compiled for them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "attention/attention.hpp"
#include "attention/tensor.hpp"

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

/// Calls f with the element type: f(std::type_identity<__half>()) for DType::kFloat16.
template <class F>
auto with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32: return f(std::type_identity<float>());
    case DType::kFloat16: return f(std::type_identity<__half>());
    case DType::kBFloat16: return f(std::type_identity<__nv_bfloat16>());
  }
  throw std::invalid_argument("no such element type");
}

/// The DType of an element type: with_type() the other way round.
template <class T>
inline constexpr DType kDTypeOf = std::is_same_v<T, float>    ? DType::kFloat32
                                  : std::is_same_v<T, __half> ? DType::kFloat16
                                                              : DType::kBFloat16;

/// Whether a variant is compiled for an element type and a head dimension.
///
/// @tparam Sizes  what it is compiled for: `kTypes`, an array of DType, and `kHeadDims`, an array of int
template <class Sizes>
constexpr bool is_compiled(DType dtype, int head_dim) {
  const auto contains = [](const auto& values, auto value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  return contains(Sizes::kTypes, dtype) && contains(Sizes::kHeadDims, head_dim);
}

/// Calls f with the element type and the head dimension: f(std::type_identity<__half>(),
/// std::integral_constant<int, 64>()). Kernels of other sizes than those of @p Sizes are not instantiated.
///
/// @throws std::invalid_argument  if nothing is compiled for them: refuse_unless_compiled() says so before
template <class Sizes, class F>
void with_compiled(DType dtype, std::int64_t head_dim, F f) {
  with_type(dtype, [&]<class T>(std::type_identity<T> type) {
    with_head_dim(head_dim, [&](auto d) {
      if constexpr (is_compiled<Sizes>(kDTypeOf<T>, d)) {
        f(type, d);
      } else {
        throw std::invalid_argument("no kernel for " + std::string(name_of(kDTypeOf<T>)) + " and head_dim " +
                                    std::to_string(d));
      }
    });
  });
}

/// Nothing if a variant is compiled for the shape, else what would be right.
template <class Sizes>
std::optional<std::string> refuse_unless_compiled(const AttentionShape& shape) {
  return refuse_unless(shape, {Sizes::kHeadDims.begin(), Sizes::kHeadDims.end()},
                       {Sizes::kTypes.begin(), Sizes::kTypes.end()});
}

}  // namespace fa
