/// @file
/// Chapter 12 as the harness sees it.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/launch.hpp"
#include "backward.hpp"
#include "fp32.hpp"
#include "harness/chapter.hpp"
#include "pairs.hpp"

namespace fa {
using namespace ch12;
namespace {

using Step = Variant<TwoWayAttention>;  // named with each variant below, because g++ 12 fails on bare braces

constexpr std::int64_t kMostCols = 1024;

/// Nothing if both widths are multiples of 8 up to the largest.
std::optional<Refusal> refuse_widths(const Shape& shape, std::int64_t most, const std::vector<DType>& types) {
  if (auto reason = refuse_unless_padded(shape, most, types)) return reason;
  const std::int64_t cols = shape.value_dim();
  if (cols % 8 == 0 && cols <= most) return std::nullopt;
  return Refusal::problem("--head-dim-v is " + std::to_string(cols) + ": must be a multiple of 8 up to " +
                          std::to_string(most));
}

DeviceNeeds needs(std::size_t shared_bytes) {
  return {.shared_bytes = shared_bytes, .compute_capability = 90, .exactly = true};
}

/// A step of the lesson: forward, in bf16.
template <class Of>
Step lesson_step(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .launch = launch_step<Of, __nv_bfloat16>,
          .traffic = traffic_of_step<Of>,
          .refuse = [](const Shape& shape) -> std::optional<Refusal> {
            if (shape.backward)
              return Refusal::variant("--backward is given: this variant has no backward pass; final has");
            return refuse_widths(shape, kMostCols, {DType::kBFloat16});
          },
          .takes_strides = true,
          .takes_other_widths = true,
          .needs = [](const Shape& shape) { return needs(shared_bytes_of_step<Of>(shape)); }};
}

Step spilled_step(const char* name, const char* summary) {
  Step step = lesson_step<SlicesOfD>(name, summary);
  step.launch = launch_spilled<__nv_bfloat16>;
  step.traffic = traffic_of_spilled;
  step.workspace = sums_of_spilled;
  return step;
}

void launch_forward(const Args& a, cudaStream_t stream) {
  select(a.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (sizeof(T) == 2) {
      launch_step<Cluster, T>(a, stream);
    } else {
      launch_pairs_of_fp32(a, stream);
    }
  });
}

/// For all types, and with a backward pass: in 16 bits, with the kernel of `cluster`.
Step final_step(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .launch =
              [](const Args& a, cudaStream_t stream) {
                a.backward ? launch_backward(a, stream) : launch_forward(a, stream);
              },
          .traffic =
              [](const Shape& shape) {
                if (shape.dtype == DType::kFloat32) return traffic_of_pairs_of_fp32(shape);
                const Traffic forward = traffic_of_step<Cluster>(shape);
                return shape.backward ? sum(forward, traffic_of_backward(shape)) : forward;
              },
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
                if (shape.dtype == DType::kFloat32) return needs(shared_bytes_of_fp32(shape));
                const std::size_t forward = shared_bytes_of_step<Cluster>(shape);
                return needs(shape.backward ? std::max(forward, shared_bytes_of_backward(shape)) : forward);
              },
          .before =
              [](const Args& a, cudaStream_t stream) {
                if (a.backward) launch_forward(a, stream);
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
  return Chapter<TwoWayAttention>{
      .name = "12_large_heads",
      .title = "Large heads: what stays on the chip when a row does not fit",
      .variants = {
          lesson_step<SlicesOfD>("slices_of_d",
                                 "a warpgroup has 256 columns of O: S is computed for each 256"),
          spilled_step("spilled", "S is computed once; O waits in HBM from one key tile to the next"),
          lesson_step<OShared>("o_shared", "two warpgroups share S and P: it is computed for each 512"),
          lesson_step<Cluster>("cluster",
                               "two blocks share P: each has half of the keys and half of the columns of O"),
          lesson_step<Overlapped>("overlapped", "the next tile's scores are in flight during the softmax"),
          final_step("final", "cluster for all types, with a backward pass; fp32: three products of fp16"),
      }};
}

}  // namespace fa
