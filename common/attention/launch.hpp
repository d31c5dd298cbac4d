/// @file
/// From the arguments of a call to a launch: selects, at run time, the kernels that were compiled for an
/// element type and a head dimension, and launches a kernel with what its tiles need.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention/attention.hpp"
#include "attention/attention_forward.hpp"
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

// --- the sizes of kernels ----------------------------------------------------------------------------------

/// The sizes of the kernels of fp32.
struct PowersOfTwo {
  static constexpr std::array kHeadDims = {32, 64, 128, 256};
  static constexpr std::array kTypes = {DType::kFloat32};
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

/// Whether this build has a variant's kernels for an element type and a width.
template <class Sizes>
constexpr bool is_compiled(DType dtype, int width) {
  const auto is_computed = [=](int head_dim) { return width_of<Sizes>(head_dim) == width; };
  return is_one_of(kTypesOfBuild, dtype) &&
         std::any_of(std::begin(kHeadDimsOfBuild), std::end(kHeadDimsOfBuild), is_computed);
}

/// Nothing if a variant is compiled for the shape, otherwise what would be valid.
template <class Sizes>
std::optional<Refusal> refuse_unless_compiled(const AttentionShape& shape) {
  const std::vector<DType> types(Sizes::kTypes.begin(), Sizes::kTypes.end());
  if (pads<Sizes>()) return refuse_unless_padded(shape, Sizes::kHeadDims.back(), types);
  return refuse_unless(shape, {Sizes::kHeadDims.begin(), Sizes::kHeadDims.end()}, types);
}

// --- select ------------------------------------------------------------------------------------------------

/// The DType of an element type.
template <class T>
inline constexpr DType kDTypeOf = std::is_same_v<T, float>    ? DType::kFloat32
                                  : std::is_same_v<T, __half> ? DType::kFloat16
                                                              : DType::kBFloat16;

/// Calls f with the element type: f(std::type_identity<__half>()) for DType::kFloat16. Returns what it
/// returns.
template <class F>
auto select(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32: return f(std::type_identity<float>());
    case DType::kFloat16: return f(std::type_identity<__half>());
    case DType::kBFloat16: return f(std::type_identity<__nv_bfloat16>());
    case DType::kInt32:
    case DType::kUint8:
    case DType::kFloat8: break;
  }
  throw std::invalid_argument("no such element type");
}

/// The result of select() in a build that has none of the kernels: never made, since select() throws.
struct NoResult {
  template <class T>
  operator T() const {  // NOLINT(google-explicit-constructor): stands for any result
    throw std::logic_error("select() has thrown before");
  }
};

template <class Result>
[[noreturn]] Result throw_no_kernel(DType dtype, std::int64_t head_dim) {
  throw std::invalid_argument("no kernel for " + std::string(name_of(dtype)) + " and head_dim " +
                              std::to_string(head_dim));
}

/// Calls f with the element type and the width of the kernel that computes the head dimension:
/// f(std::type_identity<__half>(), std::integral_constant<int, 64>()). Returns what it returns, which must be
/// of one type. Kernels for sizes outside @p Sizes are not instantiated.
///
/// @throws std::invalid_argument  if no kernel is compiled for them: refuse_unless_compiled() says so before
template <class Sizes, std::size_t number = 0, class Result = NoResult, class F>
auto select(DType dtype, std::int64_t head_dim, const F& f) {
  constexpr std::size_t kWidths = Sizes::kHeadDims.size();
  if constexpr (number == kWidths * Sizes::kTypes.size()) {
    return throw_no_kernel<Result>(dtype, head_dim);
  } else {
    constexpr DType kType = Sizes::kTypes[number / kWidths];
    constexpr int kWidth = Sizes::kHeadDims[number % kWidths];
    if constexpr (is_compiled<Sizes>(kType, kWidth)) {
      using T = std::conditional_t<kType == DType::kFloat32, float,
                                   std::conditional_t<kType == DType::kFloat16, __half, __nv_bfloat16>>;
      using Found = decltype(f(std::type_identity<T>(), std::integral_constant<int, kWidth>()));
      if (dtype == kType && width_of<Sizes>(head_dim) == kWidth)
        return f(std::type_identity<T>(), std::integral_constant<int, kWidth>());
      return select<Sizes, number + 1, Found>(dtype, head_dim, f);
    } else {
      return select<Sizes, number + 1, Result>(dtype, head_dim, f);
    }
  }
}

/// The same for kernels that are compiled twice, with constants for what tensors without gaps have, and for
/// any: f(type, width, std::true_type()) if all columns exist as well. Answers to exercises are compiled
/// once, for any.
/// @param dense  whether the rows of tensors have no gaps
template <class Sizes, class F>
auto select(DType dtype, std::int64_t head_dim, [[maybe_unused]] bool dense, const F& f) {
  return select<Sizes>(dtype, head_dim, [&](auto type, auto width) {
#ifndef FA_LARGE_TILES_ONLY
    if (dense && head_dim == width) return f(type, width, std::true_type());
#endif
    return f(type, width, std::false_type());
  });
}

/// Whether the rows of the tensors of these names have no gaps.
inline bool are_dense(const AttentionForward::Args& a, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(),
                     [&](const char* name) { return a.strides.at(name).row == a.head_dim; });
}

/// The shared memory of a block with these tiles, in bytes: `kSharedBytes`, or `kFloats` floats.
template <class Tile>
constexpr std::size_t shared_bytes_of() {
  if constexpr (requires { Tile::kSharedBytes; }) {
    return std::size_t(Tile::kSharedBytes);
  } else {
    return sizeof(float) * std::size_t(Tile::kFloats);
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

// --- launch ------------------------------------------------------------------------------------------------

/// The blocks of a kernel with one for each tile of `rows` queries of a head.
template <class Args>
unsigned blocks_of_queries(const Args& a, int rows) {
  return blocks_for(a.seq_q, rows) * unsigned(a.batch * a.heads);
}

/// The same for each tile of `rows` keys of a head of K and V.
template <class Args>
unsigned blocks_of_keys(const Args& a, int rows) {
  return blocks_for(a.seq_k, rows) * unsigned(a.batch * a.kv_heads);
}

/// Enqueues a kernel with the threads and the shared memory of its tiles, and checks the launch.
template <class Tile, class... Params, class... Args>
void launch_tiles(void (*kernel)(Params...), dim3 grid, cudaStream_t stream, Args&&... args) {
  launch(kernel, grid, Tile::kThreads, shared_bytes_of<Tile>(), stream, std::forward<Args>(args)...);
}

}  // namespace fa
