/// @file
/// Chapter 12 as the harness sees it.
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/dispatch.cuh"
#include "harness/chapter.hpp"
#include "pairs.hpp"

namespace fa {
using namespace ch12;
namespace {

using Step = Variant<TwoWayAttention>;  // named with each variant below, because g++ 12 fails on bare braces

constexpr std::int64_t kMostCols = 1024;

/// Nothing if both widths are multiples of 8 up to 1024 and the type is one of those given.
template <DType... kTypes>
std::optional<std::string> refuse_others(const Shape& shape) {
  if (auto reason = refuse_unless_padded(shape, kMostCols, {kTypes...})) return reason;
  const std::int64_t cols = shape.value_dim();
  if (cols % 8 == 0 && cols <= kMostCols) return std::nullopt;
  return "--head-dim-v is " + std::to_string(cols) + ": must be a multiple of 8 up to " +
         std::to_string(kMostCols);
}

Step cluster() {
  return {.name = "cluster",
          .summary = "two blocks share P: each has half of the keys and half of the columns of O",
          .launch =
              [](const Args& a, cudaStream_t stream) {
                with_type(a.dtype, [&]<class T>(std::type_identity<T>) {
                  if constexpr (sizeof(T) == 2) {
                    launch_pairs<T>(a, stream);
                  } else {
                    launch_pairs_of_fp32(a, stream);
                  }
                });
              },
          .traffic =
              [](const Shape& shape) {
                return shape.dtype == DType::kFloat32 ? traffic_of_pairs_of_fp32(shape)
                                                      : traffic_of_pairs(shape);
              },
          .refuse = refuse_others<DType::kFloat32, DType::kFloat16, DType::kBFloat16>,
          .takes_strides = true,
          .takes_other_widths = true,
          .needs = needs_of_pairs,
          .workspace =
              [](const Shape& shape) {
                return shape.dtype == DType::kFloat32 ? halves_of(shape) : std::vector<TensorSpec>();
              }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<TwoWayAttention>{.name = "12_large_heads",
                                   .title = "Large heads: what stays on the chip when a row does not fit",
                                   .variants = {cluster()}};
}

}  // namespace fa
