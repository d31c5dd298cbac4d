/// @file
/// Chapter 07 as the harness sees it.
#include <type_traits>

#include "attention/launch.hpp"
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

// --- the variants: how each divides the problem for a head dimension ---------------------------------

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

/// A variant with a block for each query tile of a head.
/// @param kernel_of  takes tiles by value, returns their kernel
template <template <int> class Choices, class Sizes = LessonSizes, class KernelOf>
Step step(const char* name, const char* summary, KernelOf kernel_of) {
  return Step{
      .name = name,
      .summary = summary,
      .launch =
          [=](const Args& a, cudaStream_t stream) {
            const bool no_gaps = are_dense(a, {"k", "v"});
            select<Sizes>(
                a.dtype, a.head_dim, no_gaps, [&]<class T>(std::type_identity<T>, auto d, auto dense) {
                  with_tiles<T, Choices<d>, d, dense>([&]<class Tile>(std::type_identity<Tile>) {
                    launch_tiles<Tile>(kernel_of(Tile()), blocks_of_queries(a, Tile::Br), stream, a.as<T>());
                  });
                });
          },
      .traffic =
          [](const Shape& shape) {
            return select<Sizes>(shape.dtype, shape.head_dim, [&]<class T>(std::type_identity<T>, auto d) {
              return with_tiles<T, Choices<d>, d>(
                  [&]<class Tile>(std::type_identity<Tile>) { return attention_traffic(shape, Tile::Br); });
            });
          },
      .refuse = refuse_unless_compiled<Sizes>,
      .takes_strides = true,
      .needs =
          [](const Shape& shape) {
            return select<Sizes>(shape.dtype, shape.head_dim, []<class T>(std::type_identity<T>, auto d) {
              return with_tiles<T, Choices<d>, d>([]<class Tile>(std::type_identity<Tile>) {
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
          step<OneStage>("stages_1", "cp.async instead of loads and stores; waits at once",
                         [](auto tiles) { return single_stage_attention<decltype(tiles)>; }),
          step<TwoStages>("stages_2", "the next tile is in flight while one is in use",
                          [](auto tiles) { return multi_stage_attention<decltype(tiles)>; }),
          step<ThreeStages>("stages_3", "two tiles are in flight",
                            [](auto tiles) { return multi_stage_attention<decltype(tiles)>; }),
          step<OneStage>("split_kv", "one stage: V in flight during Q K^T, the next K during P V",
                         [](auto tiles) { return split_kv_attention<decltype(tiles)>; }),
          step<MaskedFirst>("masked_first", "stages_2 with the keys backwards: edges in a separate loop",
                            [](auto tiles) { return masked_first_attention<decltype(tiles)>; }),
          step<TwoRowsOfMma>("two_rows_of_mma", "32 rows per warp: each fragment of K or V feeds two mma",
                             [](auto tiles) { return masked_first_attention<decltype(tiles)>; }),
          step<FinalChoices, AllSizes>("final", "tile sizes per head_dim, lazy rescale, longest blocks first",
                                       [](auto tiles) { return masked_first_attention<decltype(tiles)>; }),
      }};
}

}  // namespace fa
