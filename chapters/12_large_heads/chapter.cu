/// @file
/// Chapter 12 as the harness sees it.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/dispatch.cuh"
#include "backward.hpp"
#include "harness/chapter.hpp"
#include "pairs.hpp"

namespace fa {
using namespace ch12;
namespace {

using Step = Variant<TwoWayAttention>;  // named with each variant below, because g++ 12 fails on bare braces

constexpr std::int64_t kMostCols = 1024;

/// Nothing if both widths are multiples of 8 up to the largest.
std::optional<std::string> refuse_widths(const Shape& shape, std::int64_t most,
                                         const std::vector<DType>& types) {
  if (auto reason = refuse_unless_padded(shape, most, types)) return reason;
  const std::int64_t cols = shape.value_dim();
  if (cols % 8 == 0 && cols <= most) return std::nullopt;
  return "--head-dim-v is " + std::to_string(cols) + ": must be a multiple of 8 up to " +
         std::to_string(most);
}

/// Both directions of a variant.
Traffic sum(Traffic traffic, const Traffic& more) {
  for (const auto& [name, bytes] : more.tensors) {
    traffic.tensors[name].read_bytes += bytes.read_bytes;
    traffic.tensors[name].write_bytes += bytes.write_bytes;
  }
  return traffic;
}

void launch_cluster(const Args& a, cudaStream_t stream) {
  with_type(a.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (sizeof(T) == 2) {
      launch_pairs<T>(a, stream);
    } else {
      launch_pairs_of_fp32(a, stream);
    }
  });
}

void launch_cluster_backward(const Args& a, cudaStream_t stream) {
  with_type(a.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (sizeof(T) == 2) launch_backward<T>(a, stream);
  });
}

Traffic traffic_of_cluster(const Shape& shape) {
  if (shape.dtype == DType::kFloat32) return traffic_of_pairs_of_fp32(shape);
  return shape.backward ? sum(traffic_of_pairs(shape), traffic_of_backward(shape)) : traffic_of_pairs(shape);
}

Step cluster() {
  return {.name = "cluster",
          .summary = "two blocks share P: each has half of the keys and half of the columns of O",
          .launch =
              [](const Args& a, cudaStream_t stream) {
                a.backward ? launch_cluster_backward(a, stream) : launch_cluster(a, stream);
              },
          .traffic = traffic_of_cluster,
          .refuse =
              [](const Shape& shape) {
                if (shape.backward)
                  return refuse_widths(shape, kMostColsOfBackward, {DType::kFloat16, DType::kBFloat16});
                return refuse_widths(shape, kMostCols, {DType::kFloat32, DType::kFloat16, DType::kBFloat16});
              },
          .takes_strides = true,
          .takes_other_widths = true,
          .needs =
              [](const Shape& shape) {
                DeviceNeeds needs = needs_of_pairs(shape);
                if (shape.backward)
                  needs.shared_bytes = std::max(needs.shared_bytes, shared_bytes_of_backward(shape));
                return needs;
              },
          .before =
              [](const Args& a, cudaStream_t stream) {
                if (a.backward) launch_cluster(a, stream);
              },
          .repeatable = false,  // with --backward
          .workspace =
              [](const Shape& shape) {
                if (shape.backward) return workspace_of_backward(shape);
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
