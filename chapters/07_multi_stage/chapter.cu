/// @file
/// Chapter 07 as the harness sees it.
#include <type_traits>

#include "attention/dispatch.cuh"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "kernel.cuh"
#include "sizes.cuh"

namespace fa {
using namespace ch07;
namespace {

using Shape = AttentionForward::Shape;
using Args = AttentionForward::Args;
using Step = Variant<AttentionForward>;  // named with each variant below, because g++ 12 fails on bare braces

// --- the variants: a kernel, and how it divides the problem for each head dimension ------------------

// Kernel<Tile>::get() returns the kernel for these tiles.
template <class Tile>
struct SingleStage {
  static auto get() { return single_stage_attention<Tile>; }
};
template <class Tile>
struct MultiStage {
  static auto get() { return multi_stage_attention<Tile>; }
};
template <class Tile>
struct SplitKv {
  static auto get() { return split_kv_attention<Tile>; }
};
template <class Tile>
struct EdgesFirst {
  static auto get() { return masked_first_attention<Tile>; }
};

template <int d>
using OneStage = typename Ladder<d>::OneStage;
template <int d>
using TwoStages = typename Ladder<d>::TwoStages;
template <int d>
using ThreeStages = typename Ladder<d>::ThreeStages;
template <int d>
using MaskedFirst = typename Ladder<d>::MaskedFirst;
template <int d>
using TwoRowsOfMma = typename Ladder<d>::TwoRowsOfMma;

/// Calls f with the tiles of a policy, passed as a type in std::type_identity. If the policy has a
/// `WhereItFits` and the device has enough shared memory for it, these are the tiles of `WhereItFits`.
template <class T, class Choices, int d, bool kDense = false, class F>
auto with_tiles(F f) {
  using Tiles = MultiStageTiles<T, d, Choices, kDense>;
  if constexpr (requires { typename Choices::WhereItFits; }) {
    return with_tiles_that_fit<MultiStageTiles<T, d, typename Choices::WhereItFits, kDense>, Tiles>(f);
  } else {
    return f(std::type_identity<Tiles>());
  }
}

template <template <class> class Kernel, template <int> class Choices, class Sizes>
void launch_step(const Args& a, cudaStream_t stream) {
  with_compiled<Sizes>(a.dtype, a.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
    const bool is_dense = a.head_dim == d && a.strides.at("k").row == d && a.strides.at("v").row == d;
    with_dense(is_dense, [&](auto dense) {
      with_tiles<T, Choices<d>, d, dense>([&]<class Tile>(std::type_identity<Tile>) {
        const unsigned tiles = unsigned((a.seq_q + Tile::Br - 1) / Tile::Br);
        launch(Kernel<Tile>::get(), tiles * unsigned(a.batch) * unsigned(a.heads), Tile::kThreads,
               Tile::kSharedBytes, stream, a.as<T>());
      });
    });
  });
}

template <template <class> class Kernel, template <int> class Choices, class Sizes = LessonSizes>
Step step(const char* name, const char* summary) {
  return Step{
      .name = name,
      .summary = summary,
      .launch = launch_step<Kernel, Choices, Sizes>,
      .traffic =
          [](const Shape& shape) {
            return with_head_dim<Sizes>(shape.head_dim, [&](auto d) {
              return with_tiles<__nv_bfloat16, Choices<d>, d>(
                  [&]<class Tile>(std::type_identity<Tile>) { return attention_traffic(shape, Tile::Br); });
            });
          },
      .refuse = refuse_unless_compiled<Sizes>,
      .takes_strides = true,
      .needs =
          [](const Shape& shape) {
            return with_head_dim<Sizes>(shape.head_dim, [](auto d) {
              return with_tiles<__nv_bfloat16, Choices<d>, d>([]<class Tile>(std::type_identity<Tile>) {
                return DeviceNeeds{.shared_bytes = Tile::kSharedBytes, .compute_capability = 80};
              });
            });
          }};
}

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionForward>{
      .name = "07_multi_stage",
      .title = "The pipeline: copies, products and exponentials at the same time",
      .variants = {
          step<SingleStage, OneStage>("stages_1", "cp.async instead of loads and stores; waits at once"),
          step<MultiStage, TwoStages>("stages_2", "the next tile is in flight while one is in use"),
          step<MultiStage, ThreeStages>("stages_3", "two tiles are in flight"),
          step<SplitKv, OneStage>("split_kv", "one stage: V in flight during Q K^T, the next K during P V"),
          step<EdgesFirst, MaskedFirst>("masked_first",
                                        "stages_2 with the keys backwards: edges in a separate loop"),
          step<EdgesFirst, TwoRowsOfMma>("two_rows_of_mma",
                                         "32 rows per warp: each fragment of K or V feeds two mma"),
          step<EdgesFirst, FinalChoices, AllSizes>(
              "final", "tile sizes per head_dim, lazy rescale, longest blocks first"),
      }};
}

}  // namespace fa
