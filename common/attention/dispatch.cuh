/// @file
/// Selects, at run time, the kernels that were compiled for an element type and a head dimension.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/attention.hpp"
#include "attention/tensor.hpp"
#include "device/launch.cuh"

namespace fa {

// To build quickly, restrict the kernels to those of a few head dimensions and types, and to the tiles of
// devices with much shared memory, such as those that answers to exercises are tested with
// (tools/learn/trials.py): -DFA_HEAD_DIMS=32,64 -DFA_DTYPES=fa::DType::kBFloat16 -DFA_LARGE_TILES_ONLY.
// nvcc takes no lists: -DFA_WITHOUT_FLOAT16
#ifndef FA_HEAD_DIMS
#define FA_HEAD_DIMS 32, 64, 96, 128, 192, 256
#endif
#if !defined(FA_DTYPES) && defined(FA_WITHOUT_FLOAT16)
#define FA_DTYPES fa::DType::kFloat32, fa::DType::kBFloat16
#elif !defined(FA_DTYPES)
#define FA_DTYPES fa::DType::kFloat32, fa::DType::kFloat16, fa::DType::kBFloat16
#endif
constexpr int kHeadDimsOfBuild[] = {FA_HEAD_DIMS};
constexpr DType kTypesOfBuild[] = {FA_DTYPES};

template <class Values, class T>
constexpr bool is_one_of(const Values& values, T value) {
  return std::find(std::begin(values), std::end(values), value) != std::end(values);
}

/// Head dimensions of kernels that take no others.
struct PowersOfTwo {
  static constexpr std::array kHeadDims = {32, 64, 128, 256};
};

/// Whether kernels compiled for a head dimension compute smaller ones too: every multiple of 8, padded on the
/// chip.
///
/// @tparam Sizes  what a variant is compiled for: `kHeadDims`, an array of int, the smallest first; `kTypes`,
///                an array of DType; and `kPads = true` if it pads
template <class Sizes>
constexpr bool pads() {
  if constexpr (requires { Sizes::kPads; }) {
    return Sizes::kPads;
  } else {
    return false;
  }
}

/// The head dimension of the kernel that computes `head_dim`: the least that suffices. 0 if there is none.
template <class Sizes>
constexpr int width_of(std::int64_t head_dim) {
  for (const int width : Sizes::kHeadDims) {
    if (head_dim == width || (pads<Sizes>() && head_dim < width && head_dim % 8 == 0)) return width;
  }
  return 0;
}

/// Whether this build has the kernels of a width.
template <class Sizes>
constexpr bool is_width_of_build(int width) {
  return std::any_of(std::begin(kHeadDimsOfBuild), std::end(kHeadDimsOfBuild),
                     [=](int head_dim) { return width_of<Sizes>(head_dim) == width; });
}

/// Calls f with the width of the kernel that computes the head dimension, as a constant:
/// f(std::integral_constant<int, 64>()).
///
/// @throws std::invalid_argument  if there is none: a variant must refuse it before
template <class Sizes = PowersOfTwo, std::size_t number = 0, class F>
auto with_head_dim(std::int64_t head_dim, F f) {
  constexpr int width = Sizes::kHeadDims[number];
  using Result = decltype(f(std::integral_constant<int, width>()));
  if constexpr (is_width_of_build<Sizes>(width)) {
    if (width_of<Sizes>(head_dim) == width) return f(std::integral_constant<int, width>());
  }
  if constexpr (number + 1 < Sizes::kHeadDims.size()) {
    return with_head_dim<Sizes, number + 1>(head_dim, f);
  } else {
    throw std::invalid_argument("no kernel for head_dim " + std::to_string(head_dim));
    return Result();
  }
}

/// Calls f with the element type: f(std::type_identity<__half>()) for DType::kFloat16.
template <class F>
auto with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32: return f(std::type_identity<float>());
    case DType::kFloat16: return f(std::type_identity<__half>());
    case DType::kBFloat16: return f(std::type_identity<__nv_bfloat16>());
    case DType::kInt32:
    case DType::kUint8: break;
  }
  throw std::invalid_argument("no such element type");
}

/// The DType of an element type: the inverse of with_type().
template <class T>
inline constexpr DType kDTypeOf = std::is_same_v<T, float>    ? DType::kFloat32
                                  : std::is_same_v<T, __half> ? DType::kFloat16
                                                              : DType::kBFloat16;

/// Whether a variant has a kernel for an element type and a width.
template <class Sizes>
constexpr bool is_compiled(DType dtype, int width) {
  return is_one_of(Sizes::kTypes, dtype) && is_one_of(kTypesOfBuild, dtype) &&
         is_width_of_build<Sizes>(width);
}

/// Calls f with the element type and the width of the kernel that computes the head dimension:
/// f(std::type_identity<__half>(), std::integral_constant<int, 64>()). Kernels for sizes outside @p Sizes are
/// not instantiated.
///
/// @throws std::invalid_argument  if no kernel is compiled for them: refuse_unless_compiled() says so before
template <class Sizes, class F>
void with_compiled(DType dtype, std::int64_t head_dim, F f) {
  with_type(dtype, [&]<class T>(std::type_identity<T> type) {
    with_head_dim<Sizes>(head_dim, [&](auto width) {
      if constexpr (is_compiled<Sizes>(kDTypeOf<T>, width)) {
        f(type, width);
      } else {
        throw std::invalid_argument("no kernel for " + std::string(name_of(kDTypeOf<T>)) + " and head_dim " +
                                    std::to_string(width));
      }
    });
  });
}

/// The shared memory of a block with these tiles, in bytes: `kSharedBytes`, or `kFloats` floats.
template <class Tiles>
constexpr std::size_t shared_bytes_of() {
  if constexpr (requires { Tiles::kSharedBytes; }) {
    return std::size_t(Tiles::kSharedBytes);
  } else {
    return sizeof(float) * std::size_t(Tiles::kFloats);
  }
}

/// Calls f(std::type_identity<Large>()), or f(std::type_identity<Small>()) on a device whose shared memory is
/// too small for the large tiles.
template <class Large, class Small, class F>
auto with_tiles_that_fit(F f) {
#ifdef FA_LARGE_TILES_ONLY
  return f(std::type_identity<Large>());
#else
  if (shared_bytes_of<Large>() <= shared_bytes_limit()) return f(std::type_identity<Large>());
  return f(std::type_identity<Small>());
#endif
}

/// Calls f(std::true_type()) if `dense`, otherwise f(std::false_type()): for kernels that are compiled twice,
/// with constants for what tensors without gaps have, and for any. Answers to exercises are compiled once,
/// for any.
template <class F>
auto with_dense([[maybe_unused]] bool dense, F f) {
#ifndef FA_LARGE_TILES_ONLY
  if (dense) return f(std::true_type());
#endif
  return f(std::false_type());
}

/// Nothing if a variant is compiled for the shape, otherwise what would be valid.
template <class Sizes>
std::optional<Refusal> refuse_unless_compiled(const AttentionShape& shape) {
  const std::vector<DType> types(Sizes::kTypes.begin(), Sizes::kTypes.end());
  if (pads<Sizes>()) return refuse_unless_padded(shape, Sizes::kHeadDims.back(), types);
  return refuse_unless(shape, {Sizes::kHeadDims.begin(), Sizes::kHeadDims.end()}, types);
}

}  // namespace fa
