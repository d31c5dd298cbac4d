/// @file
/// Chapter 07 as the harness sees it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "device/head_dims.cuh"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"
#include "sizes.cuh"

namespace fa {
using namespace ch07;
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below: g++ 12 gives up on bare braces

// --- the variants: how each cuts the problem, for a head dimension ----------------------------------

template <int d>
using OneStage = typename Ladder<d>::OneStage;
template <int d>
using TwoStages = typename Ladder<d>::TwoStages;
template <int d>
using ThreeStages = typename Ladder<d>::ThreeStages;
template <int d>
using SplitKv = typename Ladder<d>::SplitKv;
template <int d>
using FragmentDoubleBuffer = typename Ladder<d>::FragmentDoubleBuffer;
template <int d>
using MaskedFirst = typename Ladder<d>::MaskedFirst;
template <int d>
using TwoRowsOfMma = typename Ladder<d>::TwoRowsOfMma;

template <std::size_t kCount, class T>
constexpr bool contains(const std::array<T, kCount>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// Calls f with the tiles of a policy, as a type in std::type_identity: of `WhereItFits`, if the policy has one and
/// the device the room for it.
template <class T, class Choices, int d, class F>
auto with_tiles(F f) {
  if constexpr (requires { typename Choices::WhereItFits; }) {
    using Large = MultiStageTiles<T, d, typename Choices::WhereItFits>;
    if (Large::kSharedBytes <= shared_bytes_limit()) return f(std::type_identity<Large>());
  }
  return f(std::type_identity<MultiStageTiles<T, d, Choices>>());
}

template <template <int> class Choices, class Sizes, DType kType>
void launch_as(const Args& a, cudaStream_t stream) {
  using T = std::conditional_t<kType == DType::kFloat16, __half, __nv_bfloat16>;
  with_head_dim(a.head_dim, [&](auto d) {
    if constexpr (contains(Sizes::kHeadDims, int(d)) && contains(Sizes::kTypes, kType)) {
      with_tiles<T, Choices<d>, d>([&]<class Tile>(std::type_identity<Tile>) {
        const unsigned tiles = unsigned((a.seq_q + Tile::Br - 1) / Tile::Br);
        launch(multi_stage_attention<Tile>, tiles * unsigned(a.batch) * unsigned(a.heads), Tile::kThreads,
               Tile::kSharedBytes, stream, a.as<T>());
      });
    }
  });
}

template <template <int> class Choices, class Sizes>
void launch_step(const Args& a, cudaStream_t stream) {
  if (a.dtype == DType::kFloat16) return launch_as<Choices, Sizes, DType::kFloat16>(a, stream);
  return launch_as<Choices, Sizes, DType::kBFloat16>(a, stream);
}

// --- what they ask of HBM -------------------------------------------------------------------------

/// Q is read and O written once, in 16 bits. Of K and V each block reads the keys that its last query sees.
Traffic traffic_of(const Shape& shape, int Br) {
  std::int64_t keys = 0;  // that the blocks of a head read
  for (std::int64_t first = 0; first < shape.seq_q; first += Br) {
    keys += shape.visible_keys(std::min(first + Br, shape.seq_q) - 1);
  }
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t row = heads * shape.head_dim * std::int64_t(size_of(shape.dtype));
  const std::int64_t rows = shape.seq_q;
  return {.tensors = {{"q", {.read_bytes = row * rows}},
                      {"k", {.read_bytes = row * keys}},
                      {"v", {.read_bytes = row * keys}},
                      {"o", {.write_bytes = row * rows}},
                      {"lse", {.write_bytes = heads * rows * std::int64_t(sizeof(float))}}}};
}

template <template <int> class Choices, class Sizes = LessonSizes>
Step step(const char* name, const char* summary) {
  return Step{.name = name,
              .summary = summary,
              .launch = launch_step<Choices, Sizes>,
              .traffic =
                  [](const Shape& shape) {
                    return with_head_dim(shape.head_dim, [&](auto d) {
                      return with_tiles<__nv_bfloat16, Choices<d>, d>(
                          [&]<class Tile>(std::type_identity<Tile>) { return traffic_of(shape, Tile::Br); });
                    });
                  },
              .refuse = [](const Shape& shape) -> std::optional<std::string> {
                return refuse_unless(shape, {Sizes::kHeadDims.begin(), Sizes::kHeadDims.end()},
                                     {Sizes::kTypes.begin(), Sizes::kTypes.end()});
              }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "07_multi_stage",
      .title = "The pipeline: copies, products and exponentials at the same time",
      .variants = {
          step<OneStage>("stages_1", "cp.async in place of registers, waited for at once"),
          step<TwoStages>("stages_2", "the next tile is on its way while one is in use"),
          step<ThreeStages>("stages_3", "two tiles are on their way"),
          step<SplitKv>("split_kv", "one stage: V flies during Q K^T, the next K during P V"),
          step<FragmentDoubleBuffer>("fragment_double_buffer",
                                     "stages_2, and the next ldmatrix before the mma of this one"),
          step<MaskedFirst>("masked_first", "stages_2, keys backwards: edges in a loop of their own"),
          step<TwoRowsOfMma>("two_rows_of_mma", "32 rows a warp: a fragment of K or V feeds two mma"),
          step<FinalChoices, AllSizes>("final",
                                       "tiles for each head_dim, lazy rescale, longest blocks first"),
      }};
}

}  // namespace fa
