/// @file
/// The head dimensions and types that the kernels of this chapter are compiled for.
#pragma once

#include <cuda_fp16.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "attention/attention.hpp"
#include "attention/launch.hpp"
#include "attention/tensor.hpp"

namespace fa::ch09 {

/// For the steps that lead to `final`.
struct LessonSizes {
  static constexpr std::array kHeadDims = {64, 128};
  static constexpr std::array kTypes = {DType::kBFloat16};
};

/// For `final`. Each kernel computes all multiples of 8 down to the next smaller one.
struct AllSizes {
  static constexpr std::array kHeadDims = {64, 96, 128, 192, 256};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
  static constexpr bool kPads = true;
};

/// For `final`, if V has another width than K: up to kNarrowValues columns.
struct NarrowValueSizes {
  static constexpr std::array kHeadDims = {192};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
  static constexpr bool kPads = true;
};

inline constexpr std::int64_t kNarrowValues = 128;

/// For `no_maximum`, which relies on the exponents of bf16, and on room for two tiles of Q.
struct BFloat16Sizes {
  static constexpr std::array kHeadDims = {64, 96, 128};
  static constexpr std::array kTypes = {DType::kBFloat16};
  static constexpr bool kPads = true;
};

// --- a V of another width ----------------------------------------------------------------------------------

/// Whether a method has a NarrowTile, for a V of another width than K's, and this build has it.
template <class Method>
constexpr bool takes_narrow_values() {
  if constexpr (requires { typename Method::template NarrowTile<__half>; }) {
    return is_compiled<NarrowValueSizes>(DType::kFloat16, NarrowValueSizes::kHeadDims.back()) ||
           is_compiled<NarrowValueSizes>(DType::kBFloat16, NarrowValueSizes::kHeadDims.back());
  } else {
    return false;
  }
}

/// Whether V has another width than K. @param of  a shape, or the arguments of a call
inline bool has_narrow_values(const AttentionShape& of) { return of.value_dim() != of.head_dim; }
inline bool has_narrow_values(const AttentionForward::Args& of) { return of.head_dim_v != of.head_dim; }

/// Calls f(std::type_identity<Tile>()) with the NarrowTile of a method. Returns what it returns.
template <class Method, class F>
auto with_narrow_tile(DType dtype, std::int64_t head_dim, const F& f) {
  return select<NarrowValueSizes>(dtype, head_dim, [&]<class T>(std::type_identity<T>, auto) {
    return f(std::type_identity<typename Method::template NarrowTile<T>>());
  });
}

/// Nothing if a variant of these sizes with a NarrowTile has a kernel for the widths, otherwise what would be
/// valid.
template <class Sizes>
std::optional<Refusal> refuse_widths(const AttentionShape& shape) {
  if (!has_narrow_values(shape)) return refuse_unless_compiled<Sizes>(shape);
  if (auto reason = refuse_unless_compiled<NarrowValueSizes>(shape)) return reason;
  const std::int64_t cols = shape.value_dim();
  if (cols % 8 == 0 && cols <= kNarrowValues) return std::nullopt;
  return Refusal::problem("--head-dim-v is " + std::to_string(cols) +
                          ": must be --head-dim, or a multiple of 8 up to " + std::to_string(kNarrowValues));
}

}  // namespace fa::ch09
